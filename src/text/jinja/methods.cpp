// Methods of dicts and sequences, and the look-up of all methods.
#include <fmt/format.h>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"

namespace kvasir::text::jinja {
namespace {

Value dict_get(Machine& m, const Value& self, Args& args) {
  const auto [key, otherwise] = bind(args, "get", {"key", "default"}, 1);
  if (!hashable(*key)) fail(fmt::format("unhashable type: '{}'", type_name(*key)));
  if (const Value* found = find(*self.dict(), *key, m.meter())) return *found;
  return otherwise ? *otherwise : Value(None{});
}

template <SequenceKind kind>
Value dict_view(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "the method");
  std::vector<Value> items;
  items.reserve(self.dict()->entries.size());
  for (const auto& [key, value] : self.dict()->entries) {
    items.push_back(kind == SequenceKind::kKeys     ? key
                    : kind == SequenceKind::kValues ? value
                                                    : make_pair(m.meter(), key, value));
  }
  return make_sequence(m.meter(), kind, std::move(items));
}

Value dict_copy(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "copy");
  DictMaker copy(m.meter());
  for (const auto& [key, value] : self.dict()->entries) copy.set(key, value);
  return copy.take();
}

Value list_copy(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "copy");
  return make_list(m.meter(), self.sequence()->items);
}

Value sequence_count(Machine& m, const Value& self, Args& args) {
  const auto [value] = bind(args, "count", {"value"}, 1);
  std::int64_t n = 0;
  for (const Value& item : self.sequence()->items) n += equal(item, *value, m.meter());
  return Value(n);
}

Value sequence_index(Machine& m, const Value& self, Args& args) {
  const auto [value] = bind(args, "index", {"value"}, 1);
  const auto& items = self.sequence()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], *value, m.meter())) return Value(static_cast<std::int64_t>(i));
  fail("the value is not in the list");
}

constexpr Method kDictMethods[] = {
    {"get", dict_get},
    {"items", dict_view<SequenceKind::kItems>},
    {"keys", dict_view<SequenceKind::kKeys>},
    {"values", dict_view<SequenceKind::kValues>},
    {"copy", dict_copy},
};

constexpr Method kListMethods[] = {{"count", sequence_count}, {"index", sequence_index}, {"copy", list_copy}};

constexpr Method kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};

std::span<const Method> methods_of(const Value& v) {
  if (v.dict()) return kDictMethods;
  if (v.is_text()) return text_methods();
  if (!v.sequence()) return {};
  if (v.sequence()->kind == SequenceKind::kList) return kListMethods;
  if (v.sequence()->kind <= SequenceKind::kRange) return kTupleMethods;
  return {};
}

}  // namespace

const Method* find_method(const Value& self, std::string_view name) {
  for (const auto methods : {methods_of(self), changing_methods(self)})
    for (const Method& method : methods)
      if (method.name == name) return &method;
  return nullptr;
}

}  // namespace kvasir::text::jinja
