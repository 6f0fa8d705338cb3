#include "text/jinja/objects.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kvasir::text::jinja {
namespace {

Value no_attribute(Object* o, const TextRef& name) { return undefined_attribute(Value(o), name); }

Value count(std::size_t n) { return Value(static_cast<std::int64_t>(n)); }

}  // namespace

Value FunctionObject::attribute(Machine& machine, const TextRef& name) {
  const Function* member = find_member(function_, name->bytes);
  return member ? machine.heap().make<FunctionObject>(*member) : no_attribute(this, name);
}
Value MethodObject::attribute(Machine&, const TextRef& name) { return no_attribute(this, name); }
Value LoopMethod::attribute(Machine&, const TextRef& name) { return no_attribute(this, name); }
Value CyclerMethod::attribute(Machine&, const TextRef& name) { return no_attribute(this, name); }
Value Joiner::attribute(Machine&, const TextRef& name) { return no_attribute(this, name); }

Value MacroObject::attribute(Machine& machine, const TextRef& name) {
  if (name->bytes == "name") return make_text(machine.meter(), macro_.name);
  if (name->bytes == "caller") return Value(macro_.uses_caller);
  if (name->bytes == "catch_kwargs") return Value(macro_.uses_kwargs);
  if (name->bytes == "catch_varargs") return Value(macro_.uses_varargs);
  if (name->bytes != "arguments") return no_attribute(this, name);
  std::vector<Value> names;
  for (const auto& param : macro_.params) names.emplace_back(param.second);
  return make_sequence(machine.meter(), SequenceKind::kTuple, std::move(names));
}

Value MacroObject::call(Machine& machine, Args& args) {
  return make_text(machine.meter(), machine.call_macro(macro_, scope_, args));
}

void MacroObject::print(std::string& out, Meter&, int) const { out += fmt::format("<Macro '{}'>", macro_.name); }

Value LoopObject::attribute(Machine& machine, const TextRef& name) {
  const std::string& n = name->bytes;
  const std::size_t size = std::max(items_->items.size(), index_ + 1);  // the body may have taken items away
  if (n == "index") return count(index_ + 1);
  if (n == "index0") return count(index_);
  if (n == "revindex") return count(size - index_);
  if (n == "revindex0") return count(size - index_ - 1);
  if (n == "first") return Value(index_ == 0);
  if (n == "last") return Value(index_ + 1 == size);
  if (n == "length") return count(size);
  if (n == "depth") return Value(std::int64_t{depth_} + 1);
  if (n == "depth0") return Value(std::int64_t{depth_});
  const auto item = [&](std::size_t i, const char* none) {
    return i < items_->items.size() ? items_->items[i] : undefined_because(none);
  };
  if (n == "previtem") return item(index_ - 1, "there is no previous item");  // of the first one: beyond the end
  if (n == "nextitem") return item(index_ + 1, "there is no next item");
  if (n == "cycle" || n == "changed") return machine.heap().make<LoopMethod>(this, n == "cycle");
  return no_attribute(this, name);
}

Value LoopObject::call(Machine& machine, Args& args) {
  if (!loop_.recursive) fail("the loop must have the 'recursive' marker to be called recursively");
  const auto [items] = bind(args, "loop", {"iterable"}, 1);
  return make_text(machine.meter(), machine.run_loop(loop_, scope_, *items, depth_ + 1));
}

void LoopObject::print(std::string& out, Meter&, int) const {
  out += fmt::format("<LoopContext {}/{}>", index_ + 1, items_->items.size());
}

Value LoopObject::cycle(const Args& args) const {
  if (args.positional.empty() || !args.named.empty()) fail("loop.cycle: no items for cycling given");
  return args.positional[index_ % args.positional.size()];
}

Value LoopObject::changed(Args& args, Meter& meter) {
  bool same = seen_ && last_.size() == args.positional.size();
  for (std::size_t i = 0; same && i < last_.size(); ++i) same = equal(last_[i], args.positional[i], meter);
  if (!same) last_ = args.positional;
  seen_ = true;
  return Value(!same);
}

Value LoopMethod::call(Machine& machine, Args& args) {
  return cycle_ ? loop_->cycle(args) : loop_->changed(args, machine.meter());
}

Value Joiner::call(Machine& machine, Args& args) {
  no_arguments(args, "joiner");
  if (std::exchange(used_, true)) return separator_;
  return make_text(machine.meter(), {});
}

Value Cycler::next() {
  const std::size_t now = position_;
  position_ = (position_ + 1) % items_.size();
  return items_[now];
}

Value Cycler::attribute(Machine& machine, const TextRef& name) {
  if (name->bytes == "current") return items_[position_];
  if (name->bytes == "next" || name->bytes == "reset")
    return machine.heap().make<CyclerMethod>(this, name->bytes == "next");
  return no_attribute(this, name);
}

Value CyclerMethod::call(Machine&, Args& args) {
  no_arguments(args, "cycler");
  if (next_) return cycler_->next();
  cycler_->reset();
  return Value(None{});
}

Value Namespace::attribute(Machine&, const TextRef& name) {
  for (const auto& [key, value] : values_)
    if (key->bytes == name->bytes) return value;
  return no_attribute(this, name);
}

void Namespace::set(const TextRef& name, Value value) {
  for (auto& [key, old] : values_) {
    if (key->bytes != name->bytes) continue;
    old = std::move(value);
    return;
  }
  values_.emplace_back(name, std::move(value));
}

void Namespace::print(std::string& out, Meter& meter, int depth) const {
  out += "<Namespace {";
  bool first = true;
  for (const auto& [key, value] : values_) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, Value(key), meter, depth + 1);
    out += ": ";
    append_repr(out, value, meter, depth + 1);
  }
  out += "}>";
}

}  // namespace kvasir::text::jinja
