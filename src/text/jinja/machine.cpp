#include "text/jinja/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "text/jinja/builtins.hpp"
#include "text/jinja/objects.hpp"
#include "text/jinja/operators.hpp"

namespace kvasir::text::jinja {

Machine::Machine(const Program& program, const Limits& limits, const Clock& clock)
    : program_(program), clock_(clock), meter_(limits) {}

std::string Machine::run(const Json& context) {
  for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
    const TextRef& name = program_.symbols[i];
    const int symbol = static_cast<int>(i);
    if (name->bytes == "loop") loop_symbol_ = symbol;
    if (name->bytes == "caller") caller_symbol_ = symbol;
    if (name->bytes == "kwargs") kwargs_symbol_ = symbol;
    if (name->bytes == "varargs") varargs_symbol_ = symbol;
    if (const auto at = context.find(name->bytes); at != context.end()) {
      scopes_.add_global(from_json(*at, meter_, name->bytes));
    } else if (const Function* function = find_function(name->bytes)) {
      scopes_.add_global(heap_.make<FunctionObject>(*function));
    } else {
      scopes_.add_global(undefined_name(name));
    }
  }
  std::string out;
  out_ = &out;
  const Scopes::Frame frame(scopes_, nullptr);
  exec(program_.body);
  return out;
}

void Machine::assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      return scopes_.set(target.symbol, value);
    case Target::Kind::kAttribute: {
      auto* ns = dynamic_cast<Namespace*>(scopes_.find(target.symbol).object());
      if (!ns)
        fail(fmt::format("cannot assign attribute '{}': '{}' is no namespace", target.attribute->bytes,
                         target.name->bytes));
      meter_.allocate(sizeof(Value));
      return ns->set(target.attribute, value);
    }
    case Target::Kind::kItem: {
      const Value owner = eval(*target.owner);
      if (owner.undefined()) fail_undefined(*owner.undefined());
      return set_entry(*this, owner, eval(*target.index), value);
    }
    case Target::Kind::kTuple:
      break;
  }
  if (value.undefined()) fail_undefined(*value.undefined());
  const auto items = make_list(meter_, iterate(value, meter_)->items).sequence_ref();  // an item of it may be a target
  if (items->items.size() != target.items.size()) {
    fail(fmt::format("{} values to unpack, expected {}", items->items.size(), target.items.size()));
  }
  for (std::size_t i = 0; i < target.items.size(); ++i) assign(target.items[i], items->items[i]);
}

void Machine::append(std::string_view text) {
  meter_.check_output(out_->size() + text.size());
  meter_.scan(text.size());
  *out_ += text;
}

Machine::Flow Machine::exec(const Block& block) {
  const Nesting nesting(meter_);
  for (const Stmt& s : block) {
    const Flow flow = exec(s);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Machine::Flow Machine::exec(const Stmt& s) {
  meter_.step();
  line_ = s.line;
  switch (s.kind) {
    case StmtKind::kData:
      append(s.data);
      break;
    case StmtKind::kPrint:
      append_str(*out_, eval(*s.expr), meter_);
      break;
    case StmtKind::kDo:
      eval(*s.expr);
      break;
    case StmtKind::kFor:
      return loop(s, eval(*s.expr), 0);
    case StmtKind::kIf:
      return exec_if(s);
    case StmtKind::kSet:
      assign(s.targets[0], eval(*s.expr));
      break;
    case StmtKind::kSetBlock: {
      Flow flow = Flow::kNext;
      std::string text = capture(s.body, &flow);
      if (flow != Flow::kNext) return flow;
      assign(s.targets[0], filtered(s.expr.get(), make_text(meter_, std::move(text))));
      break;
    }
    case StmtKind::kMacro:
      scopes_.keep();
      scopes_.set(s.targets[0].symbol, heap_.make<MacroObject>(*s.macro, scopes_.now()));
      break;
    case StmtKind::kCallBlock:
      exec_call_block(s);
      break;
    case StmtKind::kFilterBlock: {
      Flow flow = Flow::kNext;
      std::string text = capture(s.body, &flow);
      if (flow != Flow::kNext) return flow;
      append_str(*out_, filtered(s.expr.get(), make_text(meter_, std::move(text))), meter_);
      break;
    }
    case StmtKind::kWith:
      return exec_with(s);
    case StmtKind::kScope: {
      const Scopes::Frame frame(scopes_, scopes_.now());
      return exec(s.body);
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Machine::Flow Machine::exec_if(const Stmt& s) {
  for (const Branch& branch : s.branches)
    if (!branch.test || truthy(eval(*branch.test))) return exec(branch.body);
  return Flow::kNext;
}

// Bodies and tests may change the list that they go through: nothing refers to its items while they run.
std::vector<Value> Machine::filter_items(const Stmt& s, const std::vector<Value>& items) {
  std::vector<Value> kept;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value item = items[i];
    const Scopes::Frame frame(scopes_, scopes_.now());
    assign(s.targets[0], item);
    if (truthy(eval(*s.test))) kept.push_back(item);
  }
  return kept;
}

Machine::Flow Machine::loop(const Stmt& s, const Value& iterable, int depth) {
  SequenceRef items = iterate(iterable, meter_);
  if (s.test) items = make_list(meter_, filter_items(s, items->items)).sequence_ref();
  if (items->items.empty()) {
    const Scopes::Frame frame(scopes_, scopes_.now());
    return exec(s.other);
  }
  if (s.recursive) scopes_.keep();
  const Value object = heap_.make<LoopObject>(s, items, scopes_.now(), depth);
  auto* state = static_cast<LoopObject*>(object.object());
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    meter_.step();
    const Scopes::Frame frame(scopes_, scopes_.now());
    state->start(i);
    if (loop_symbol_ >= 0) scopes_.set(loop_symbol_, object);
    assign(s.targets[0], Value(items->items[i]));
    if (exec(s.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

std::string Machine::run_loop(const Stmt& s, Scope* scope, const Value& iterable, int depth) {
  const Nesting nesting(meter_);
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  Scope* const outer = scopes_.enter(scope);
  loop(s, iterable, depth);
  out_ = out;
  scopes_.enter(outer);
  return text;
}

Machine::Flow Machine::exec_with(const Stmt& s) {
  std::vector<Value> values;
  for (const auto& e : s.exprs) values.push_back(eval(*e));
  const Scopes::Frame frame(scopes_, scopes_.now());
  for (std::size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i]);
  return exec(s.body);
}

std::string Machine::capture(const Block& block, Flow* flow) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  const Scopes::Frame frame(scopes_, scopes_.now());
  const Flow end = exec(block);
  if (flow) *flow = end;
  out_ = outer;
  return text;
}

Value Machine::filtered(const Expr* filters, Value input) {
  if (!filters) return input;
  const Value* const outer = std::exchange(block_input_, &input);
  Value result = eval(*filters);
  block_input_ = outer;
  return result;
}

Value method_or_undefined(Machine& m, const Value& v, const TextRef& name) {
  const Method* method = find_method(v, name->bytes);
  if (!method) return undefined_attribute(v, name);
  return m.heap().make<MethodObject>(v, *method);
}

Value attribute(Machine& m, const Value& v, const TextRef& name) {
  if (v.undefined()) fail_undefined(*v.undefined());
  if (v.object()) return v.object()->attribute(m, name);
  if (find_method(v, name->bytes)) return method_or_undefined(m, v, name);
  if (const Dict* d = v.dict()) {
    m.meter().step(d->entries.size() / 8 + 1);
    if (const Value* found = d->find(name->bytes)) return *found;
  }
  return undefined_attribute(v, name);
}

Value subscript(Machine& m, const Value& v, const Value& index) {
  if (!index.is_text()) return item(v, index, m.meter());
  if (v.object()) return v.object()->attribute(m, index.text_ref());
  Value found = item(v, index, m.meter());
  return found.is_undefined() && find_method(v, index.view()) ? method_or_undefined(m, v, index.text_ref()) : found;
}

}  // namespace kvasir::text::jinja
