// One render: statements that run and expressions that are evaluated.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/heap.hpp"
#include "text/jinja/json.hpp"
#include "text/jinja/scopes.hpp"

namespace kvasir::text::jinja {

using Clock = std::function<std::tm()>;  // local time

class Machine {
 public:
  Machine(const Program& program, const Limits& limits, const Clock& clock);

  // `context` is an object: the template's variables.
  std::string run(const Json& context);

  int line() const { return line_; }
  void at(int line) { line_ = line; }
  Meter& meter() { return meter_; }
  Heap& heap() { return heap_; }
  const Clock& clock() const { return clock_; }

  Value call(const Value& callee, Args& args);
  Value eval(const Expr& e);
  Args eval_args(const CallArgs& call);
  const Value* block_input() const { return block_input_; }  // of the filter block that is being left

  std::string call_macro(const MacroDef& macro, Scope* closure, Args& args);
  std::string run_loop(const Stmt& loop, Scope* scope, const Value& iterable, int depth);

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

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

  const Program& program_;
  const Clock& clock_;
  Meter meter_;
  Heap heap_{meter_};
  Scopes scopes_{meter_};
  std::string* out_ = nullptr;
  const Value* block_input_ = nullptr;
  int line_ = 1;
  int loop_symbol_ = -1, caller_symbol_ = -1, kwargs_symbol_ = -1, varargs_symbol_ = -1;
};

// obj.name: an attribute or method, else an item. obj[name] with a text: the other way round.
Value attribute(Machine& m, const Value& v, const TextRef& name);
Value subscript(Machine& m, const Value& v, const Value& index);
Value method_or_undefined(Machine& m, const Value& v, const TextRef& name);
// owner[key] = value, of a namespace, dict or list.
void set_entry(Machine& m, const Value& owner, const Value& key, const Value& value);

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
