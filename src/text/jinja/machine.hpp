// One render: variables, the text so far, and everything that lives until the end.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/json.hpp"

namespace kvasir::text::jinja {

using Clock = std::function<std::tm()>;  // local time

// Variables of a block. Looked up by name through the blocks around it, when they are read.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;
  bool captured = false;  // a macro or loop that can be called later refers to it: it stays until the render's end
};

class Machine {
 public:
  Machine(const Program& program, const Limits& limits, const Clock& clock);
  ~Machine();

  // `context` is an object: the template's variables.
  std::string run(const Json& context);

  int line() const { return line_; }
  Meter& meter() { return meter_; }
  const Clock& clock() const { return clock_; }

  Value call(const Value& callee, Args& args);
  // obj.name: an attribute or method, else an item. obj[name] with a text: the other way round.
  Value attribute(const Value& v, const TextRef& name);
  Value subscript(const Value& v, const Value& index);
  Value method_or_undefined(const Value& v, const TextRef& name);

  // A list or dict that is about to change: it is held until the render's end.
  Sequence& changed(const SequenceRef& list);
  Dict& changed(const DictRef& dict);
  // owner[key] = value, of a namespace, dict or list.
  void set_entry(const Value& owner, const Value& key, const Value& value);

  std::string call_macro(const MacroDef& macro, Scope* closure, Args& args);
  std::string run_loop(const Stmt& loop, Scope* scope, const Value& iterable, int depth);

  template <class T, class... A>
  Value make(A&&... args) {
    meter_.allocate(sizeof(T) + 64);
    objects_.push_back(std::make_unique<T>(std::forward<A>(args)...));
    return Value(objects_.back().get());
  }

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  // A scope of its own until its end.
  class Frame {
   public:
    Frame(Machine& m, Scope* parent) : machine_(m), outer_(m.scope_) { m.scope_ = m.new_scope(parent); }
    ~Frame() {
      machine_.drop_scope(machine_.scope_);
      machine_.scope_ = outer_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Machine& machine_;
    Scope* outer_;
  };

  Scope* new_scope(Scope* parent);
  void drop_scope(Scope* scope);
  static void keep_scope(Scope* scope);
  Value* find_variable(int symbol);
  void set_variable(int symbol, Value value);
  void assign(const Target& target, const Value& value);
  void append(std::string_view text);

  Flow exec(const Block& block);
  Flow exec(const Stmt& s);
  Flow exec_if(const Stmt& s);
  Flow loop(const Stmt& s, const Value& iterable, int depth);
  std::vector<Value> filter_items(const Stmt& s, const std::vector<Value>& items);
  Flow exec_with(const Stmt& s);
  void exec_call_block(const Stmt& s);
  // What `block` writes, with variables of its own.
  std::string capture(const Block& block, Flow* flow = nullptr);
  Value filtered(const Expr* filters, Value input);

  void bind_parameters(const MacroDef& macro, Args& args);

  Value eval(const Expr& e);
  Value eval_sequence(const Expr& e);
  Value eval_dict(const Expr& e);
  Value eval_item(const Expr& e);
  Value eval_call(const Expr& e);
  Value eval_filter(const Expr& e);
  bool eval_test(const Expr& e);
  Value eval_arith(const Expr& e);
  Value eval_concat(const Expr& e);
  bool eval_compare(const Expr& e);
  Value eval_cond(const Expr& e);
  Args eval_args(const CallArgs& call);

  const Program& program_;
  const Clock& clock_;
  Meter meter_;
  std::vector<SequenceRef> changed_lists_;
  std::vector<DictRef> changed_dicts_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  std::vector<Value> globals_;  // by symbol
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  const Value* block_input_ = nullptr;  // of the filter block that is being left
  int line_ = 1;
  int loop_symbol_ = -1, caller_symbol_ = -1, kwargs_symbol_ = -1, varargs_symbol_ = -1;
};

// The variables of a `namespace(...)`.
class Namespace : public Object {
 public:
  const char* type_name() const override { return "Namespace"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  void print(std::string& out, Meter& meter, int depth) const override;
  void set(const TextRef& name, Value value);

 private:
  std::vector<std::pair<TextRef, Value>> values_;
};

}  // namespace kvasir::text::jinja
