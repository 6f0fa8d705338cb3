// What templates can call, and what a `for` knows about itself.
#pragma once

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"

namespace kvasir::text::jinja {

class FunctionObject : public Object {
 public:
  explicit FunctionObject(const Function& function) : function_(function) {}
  const char* type_name() const override { return "function"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override { return function_.call(machine, args); }

 private:
  const Function& function_;
};

class MethodObject : public Object {
 public:
  MethodObject(Value self, const Method& method) : self_(std::move(self)), method_(method) {}
  const char* type_name() const override { return "method"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override { return method_.call(machine, self_, args); }

 private:
  Value self_;
  const Method& method_;
};

class MacroObject : public Object {
 public:
  // `scope`: where it was defined.
  MacroObject(const MacroDef& macro, Scope* scope) : macro_(macro), scope_(scope) {}
  const char* type_name() const override { return "Macro"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;
  void print(std::string& out, Meter& meter, int depth) const override;

 private:
  const MacroDef& macro_;
  Scope* scope_;
};

// The variable `loop`.
class LoopObject : public Object {
 public:
  LoopObject(const Stmt& loop, SequenceRef items, Scope* scope, int depth)
      : loop_(loop), items_(std::move(items)), scope_(scope), depth_(depth) {}
  void start(std::size_t index) { index_ = index; }

  const char* type_name() const override { return "LoopContext"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;  // of a recursive loop: its body over other items
  void print(std::string& out, Meter& meter, int depth) const override;

  Value cycle(const Args& args) const;
  Value changed(Args& args, Meter& meter);

 private:
  const Stmt& loop_;
  SequenceRef items_;
  Scope* scope_;
  int depth_;
  std::size_t index_ = 0;
  bool seen_ = false;
  std::vector<Value> last_;  // what `changed` was called with
};

// loop.cycle and loop.changed
class LoopMethod : public Object {
 public:
  LoopMethod(LoopObject* loop, bool cycle) : loop_(loop), cycle_(cycle) {}
  const char* type_name() const override { return "method"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;

 private:
  LoopObject* loop_;
  bool cycle_;
};

// joiner(', '): nothing when called first, the separator afterwards.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  const char* type_name() const override { return "Joiner"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;

 private:
  Value separator_;
  bool used_ = false;
};

// cycler('a', 'b'): c.next(), c.current, c.reset()
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  const char* type_name() const override { return "Cycler"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  Value next();
  void reset() { position_ = 0; }

 private:
  std::vector<Value> items_;
  std::size_t position_ = 0;
};

class CyclerMethod : public Object {
 public:
  CyclerMethod(Cycler* cycler, bool next) : cycler_(cycler), next_(next) {}
  const char* type_name() const override { return "method"; }
  Value attribute(Machine& machine, const TextRef& name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;

 private:
  Cycler* cycler_;
  bool next_;
};

}  // namespace kvasir::text::jinja
