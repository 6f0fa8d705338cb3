// The variables of a render.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

// Variables of a block. Looked up by name through the blocks around it, when they are read.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;
  bool captured = false;  // a macro or loop that can be called later refers to it: it stays until the render's end
};

class Scopes {
 public:
  explicit Scopes(Meter& meter) : meter_(meter) {}

  // A scope of its own until its end.
  class Frame {
   public:
    Frame(Scopes& scopes, Scope* parent) : scopes_(scopes), outer_(scopes.now_) { scopes.now_ = scopes.open(parent); }
    ~Frame() {
      scopes_.close(scopes_.now_);
      scopes_.now_ = outer_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scopes& scopes_;
    Scope* outer_;
  };

  Scope* now() { return now_; }
  Scope* enter(Scope* scope) { return std::exchange(now_, scope); }       // returns the one that is left
  void keep();                                                            // this one and those around it, until the end
  void add_global(Value value) { globals_.push_back(std::move(value)); }  // of the next symbol
  const Value& find(int symbol) const;
  void set(int symbol, Value value);

 private:
  Scope* open(Scope* parent);
  void close(Scope* scope);

  Meter& meter_;
  std::vector<std::unique_ptr<Scope>> all_;
  std::vector<Scope*> free_;
  std::vector<Value> globals_;  // by symbol
  Scope* now_ = nullptr;
};

}  // namespace kvasir::text::jinja
