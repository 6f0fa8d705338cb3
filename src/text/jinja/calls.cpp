// Calls of macros, functions, methods and call blocks.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/objects.hpp"

namespace kvasir::text::jinja {
namespace {

bool has_parameter(const MacroDef& macro, std::string_view name) {
  return std::any_of(macro.params.begin(), macro.params.end(), [&](const auto& p) { return p.second->bytes == name; });
}

// Takes the argument `name` out of `args`; false when there is none.
bool take_named(Args& args, std::string_view name, Value* value) {
  for (auto it = args.named.begin(); it != args.named.end(); ++it) {
    if (it->first->bytes != name) continue;
    *value = std::move(it->second);
    args.named.erase(it);
    return true;
  }
  return false;
}

}  // namespace

Value Machine::call(const Value& callee, Args& args) {
  meter_.step();
  if (callee.undefined()) fail_undefined(*callee.undefined());
  if (!callee.object()) fail(fmt::format("'{}' object is not callable", type_name(callee)));
  return callee.object()->call(*this, args);
}

Args Machine::eval_args(const CallArgs& call) {
  Args args;
  args.positional.reserve(call.positional.size());
  for (const auto& e : call.positional) args.positional.push_back(eval(*e));
  for (const auto& [name, e] : call.named) args.named.emplace_back(name, eval(*e));
  if (call.star) {
    const auto more = iterate(eval(*call.star), meter_);
    meter_.allocate(more->items.size(), sizeof(Value));
    args.positional.insert(args.positional.end(), more->items.begin(), more->items.end());
  }
  if (call.star_star) {
    const Value more = eval(*call.star_star);
    if (!more.dict()) fail(fmt::format("argument after ** must be a mapping, not {}", type_name(more)));
    for (const auto& [key, value] : more.dict()->entries) {
      if (!key.is_text()) fail("keywords must be strings");
      args.named.emplace_back(key.text_ref(), value);
    }
  }
  return args;
}

void Machine::exec_call_block(const Stmt& s) {
  scopes_.keep();
  const Value caller = heap_.make<MacroObject>(*s.macro, scopes_.now());
  const Value callee = eval(*s.expr->args[0]);
  Args args = eval_args(*s.expr->call);
  args.named.emplace_back(program_.symbols[static_cast<std::size_t>(caller_symbol_)], caller);
  line_ = s.line;
  append_str(*out_, call(callee, args), meter_);
}

// As jinja2.runtime.Macro does it: parameters that no positional argument fills are looked for by name, defaults are
// evaluated within the macro.
void Machine::bind_parameters(const MacroDef& macro, Args& args) {
  const std::size_t n = macro.params.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto& [symbol, name] = macro.params[i];
    Value value;
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else if (!take_named(args, name->bytes, &value)) {
      const std::size_t first_default = n - macro.defaults.size();
      value = i >= first_default ? eval(*macro.defaults[i - first_default])
                                 : undefined_because(fmt::format("parameter '{}' was not provided", name->bytes));
    }
    scopes_.set(symbol, std::move(value));
  }
  if (macro.uses_caller && !has_parameter(macro, "caller")) {
    Value caller;
    if (!take_named(args, "caller", &caller)) caller = undefined_because("No caller defined");
    scopes_.set(caller_symbol_, std::move(caller));
  }
  if (macro.uses_kwargs && !has_parameter(macro, "kwargs")) {
    DictMaker rest(meter_);
    for (auto& [name, value] : args.named) rest.set(Value(name), std::move(value));
    scopes_.set(kwargs_symbol_, rest.take());
  } else if (!args.named.empty()) {
    fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, args.named[0].first->bytes));
  }
  if (macro.uses_varargs && !has_parameter(macro, "varargs")) {
    const auto from = args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n, args.positional.size()));
    scopes_.set(varargs_symbol_, make_sequence(meter_, SequenceKind::kTuple, {from, args.positional.end()}));
  } else if (args.positional.size() > n) {
    fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, n));
  }
}

std::string Machine::call_macro(const MacroDef& macro, Scope* closure, Args& args) {
  const Nesting nesting(meter_);
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  const Scopes::Frame frame(scopes_, closure);
  bind_parameters(macro, args);
  exec(macro.body);
  out_ = out;
  return text;
}

void bind_arguments(const Args& args, std::string_view who, std::span<const std::string_view> names,
                    std::size_t required, const Value** out) {
  if (args.positional.size() > names.size()) {
    fail(fmt::format("{}: takes at most {} arguments, {} given", who, names.size(), args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) out[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names.begin(), names.end(), name->bytes);
    if (at == names.end()) fail(fmt::format("{}: unexpected keyword argument '{}'", who, name->bytes));
    const auto i = static_cast<std::size_t>(at - names.begin());
    if (out[i]) fail(fmt::format("{}: got multiple values for argument '{}'", who, name->bytes));
    out[i] = &value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!out[i]) fail(fmt::format("{}: missing argument '{}'", who, names[i]));
}

void no_arguments(const Args& args, std::string_view who) {
  if (!args.positional.empty() || !args.named.empty()) fail(fmt::format("{}: takes no arguments", who));
}

std::int64_t int_or(const Value* v, std::int64_t otherwise, std::string_view who) {
  if (!v) return otherwise;
  if (v->undefined()) fail_undefined(*v->undefined());
  if (!v->is_int()) fail(fmt::format("{}: expected an integer, got {}", who, type_name(*v)));
  return v->integer();
}

bool bool_or(const Value* v, bool otherwise) { return v ? truthy(*v) : otherwise; }

std::string_view view_or(const Value* v, std::string_view otherwise, std::string_view who) {
  if (!v) return otherwise;
  if (v->undefined()) fail_undefined(*v->undefined());
  if (!v->is_text()) fail(fmt::format("{}: expected a string, got {}", who, type_name(*v)));
  return v->view();
}

}  // namespace kvasir::text::jinja
