// Methods that change a list or a dict. Hugging Face's sandbox refuses them, llama.cpp allows them, and templates that
// come with GGUF files use them.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"

namespace kvasir::text::jinja {
namespace {

void add_item(Machine& m, Sequence& list, std::size_t at, const Value& item) {
  m.meter().allocate(sizeof(Value));
  list.depth = std::max(list.depth, depth_around(item));
  list.items.insert(list.items.begin() + static_cast<std::ptrdiff_t>(at), item);
}

Value list_append(Machine& m, const Value& self, Args& args) {
  const auto [item] = bind(args, "append", {"object"}, 1);
  Sequence& list = m.heap().changed(self.sequence_ref());
  add_item(m, list, list.items.size(), *item);
  return Value(None{});
}

Value list_extend(Machine& m, const Value& self, Args& args) {
  const auto [iterable] = bind(args, "extend", {"iterable"}, 1);
  const std::vector<Value> more = iterate(*iterable, m.meter())->items;  // a copy: it may be the list itself
  Sequence& list = m.heap().changed(self.sequence_ref());
  for (const Value& item : more) add_item(m, list, list.items.size(), item);
  return Value(None{});
}

Value list_insert(Machine& m, const Value& self, Args& args) {
  const auto [index, item] = bind(args, "insert", {"index", "object"}, 2);
  Sequence& list = m.heap().changed(self.sequence_ref());
  const auto size = static_cast<std::int64_t>(list.items.size());
  const std::int64_t i = int_or(index, 0, "insert");
  m.meter().step(list.items.size() / 8 + 1);
  add_item(m, list, static_cast<std::size_t>(std::clamp(i < 0 ? i + size : i, std::int64_t{0}, size)), *item);
  return Value(None{});
}

Value take_item(Machine& m, Sequence& list, std::size_t at) {
  m.meter().step(list.items.size() / 8 + 1);
  Value item = list.items[at];
  list.items.erase(list.items.begin() + static_cast<std::ptrdiff_t>(at));
  return item;
}

Value list_pop(Machine& m, const Value& self, Args& args) {
  const auto [index] = bind(args, "pop", {"index"});
  Sequence& list = m.heap().changed(self.sequence_ref());
  const auto size = static_cast<std::int64_t>(list.items.size());
  if (size == 0) fail("pop from empty list");
  std::int64_t i = int_or(index, -1, "pop");
  if (i < 0) i += size;
  if (i < 0 || i >= size) fail("pop index out of range");
  return take_item(m, list, static_cast<std::size_t>(i));
}

Value list_remove(Machine& m, const Value& self, Args& args) {
  const auto [item] = bind(args, "remove", {"value"}, 1);
  Sequence& list = m.heap().changed(self.sequence_ref());
  for (std::size_t i = 0; i < list.items.size(); ++i)
    if (equal(list.items[i], *item, m.meter())) return take_item(m, list, i), Value(None{});
  fail("list.remove(x): x not in list");
}

Value list_clear(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "clear");
  m.heap().changed(self.sequence_ref()).items.clear();
  return Value(None{});
}

Value list_reverse(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "reverse");
  Sequence& list = m.heap().changed(self.sequence_ref());
  m.meter().step(list.items.size() / 8 + 1);
  std::reverse(list.items.begin(), list.items.end());
  return Value(None{});
}

Value list_sort(Machine& m, const Value& self, Args& args) {
  const auto [reverse] = bind(args, "sort", {"reverse"});
  const bool down = bool_or(reverse, false);
  std::vector<Value> items = self.sequence()->items;  // sorted apart: a comparison may fail
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    return down ? compare(b, a, m.meter()) < 0 : compare(a, b, m.meter()) < 0;
  });
  m.heap().changed(self.sequence_ref()).items = std::move(items);
  return Value(None{});
}

void drop_entry(Dict& dict, const Value* found) {
  const auto at =
      std::find_if(dict.entries.begin(), dict.entries.end(), [&](const auto& entry) { return &entry.second == found; });
  dict.entries.erase(at);
}

Value dict_update(Machine& m, const Value& self, Args& args) {
  if (args.positional.size() > 1) fail("update: takes at most 1 positional argument");
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (const Dict* d = from.dict()) {
      const auto entries = d->entries;  // a copy: it may be the dict itself
      for (const auto& [key, value] : entries) set_entry(m, self, key, value);
    } else {
      const auto pairs = iterate(from, m.meter());
      for (const Value& pair : pairs->items) {
        const auto two = iterate(pair, m.meter());
        if (two->items.size() != 2) fail("update: expected pairs");
        set_entry(m, self, two->items[0], two->items[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) set_entry(m, self, Value(name), value);
  return Value(None{});
}

const Value* entry_of(Machine& m, const Value& self, const Value& key) {
  if (!hashable(key)) fail(fmt::format("unhashable type: '{}'", type_name(key)));
  return find(*self.dict(), key, m.meter());
}

Value dict_setdefault(Machine& m, const Value& self, Args& args) {
  const auto [key, otherwise] = bind(args, "setdefault", {"key", "default"}, 1);
  if (const Value* found = entry_of(m, self, *key)) return *found;
  const Value value = otherwise ? *otherwise : Value(None{});
  set_entry(m, self, *key, value);
  return value;
}

Value dict_pop(Machine& m, const Value& self, Args& args) {
  const auto [key, otherwise] = bind(args, "pop", {"key", "default"}, 1);
  const Value* found = entry_of(m, self, *key);
  if (!found && otherwise) return *otherwise;
  if (!found) fail(to_repr(*key, m.meter()));
  Value value = *found;
  drop_entry(m.heap().changed(self.dict_ref()), found);
  return value;
}

Value dict_popitem(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "popitem");
  Dict& dict = m.heap().changed(self.dict_ref());
  if (dict.entries.empty()) fail("popitem(): dictionary is empty");
  Value pair = make_pair(m.meter(), dict.entries.back().first, dict.entries.back().second);
  dict.entries.pop_back();
  return pair;
}

Value dict_clear(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "clear");
  m.heap().changed(self.dict_ref()).entries.clear();
  return Value(None{});
}

constexpr Method kListChanges[] = {{"append", list_append},   {"clear", list_clear}, {"extend", list_extend},
                                   {"insert", list_insert},   {"pop", list_pop},     {"remove", list_remove},
                                   {"reverse", list_reverse}, {"sort", list_sort}};

constexpr Method kDictChanges[] = {{"clear", dict_clear},
                                   {"pop", dict_pop},
                                   {"popitem", dict_popitem},
                                   {"setdefault", dict_setdefault},
                                   {"update", dict_update}};

}  // namespace

std::span<const Method> changing_methods(const Value& v) {
  if (v.dict()) return kDictChanges;
  if (v.sequence() && v.sequence()->kind == SequenceKind::kList) return kListChanges;
  return {};
}

// Others hold the value as const, so that nothing but a render's own methods can change it.
Sequence& Heap::changed(const SequenceRef& list) {
  if (!std::exchange(list->kept, true)) changed_lists_.push_back(list);
  return const_cast<Sequence&>(*list);
}

Dict& Heap::changed(const DictRef& dict) {
  if (!std::exchange(dict->kept, true)) changed_dicts_.push_back(dict);
  return const_cast<Dict&>(*dict);
}

void set_entry(Machine& m, const Value& owner, const Value& key, const Value& value) {
  if (auto* ns = dynamic_cast<Namespace*>(owner.object())) {
    if (!key.is_text()) fail("namespace: names must be strings");
    m.meter().allocate(sizeof(Value));
    return ns->set(key.text_ref(), value);
  }
  if (const Sequence* s = owner.sequence(); s && s->kind == SequenceKind::kList) {
    const auto size = static_cast<std::int64_t>(s->items.size());
    std::int64_t i = int_or(&key, 0, "assignment");
    if (i < 0) i += size;
    if (i < 0 || i >= size) fail("list assignment index out of range");
    Sequence& list = m.heap().changed(owner.sequence_ref());
    list.depth = std::max(list.depth, depth_around(value));
    list.items[static_cast<std::size_t>(i)] = value;
    return;
  }
  if (!owner.dict()) fail(fmt::format("'{}' object does not support item assignment", type_name(owner)));
  if (!hashable(key)) fail(fmt::format("unhashable type: '{}'", type_name(key)));
  m.meter().allocate(2 * sizeof(Value));
  Dict& dict = m.heap().changed(owner.dict_ref());
  dict.depth = std::max({dict.depth, depth_around(value), depth_around(key)});
  const Value* found = find(dict, key, m.meter());
  if (!found) return void(dict.entries.emplace_back(key, value));
  for (auto& entry : dict.entries)
    if (&entry.second == found) entry.second = value;
}

// What is left in them goes while all of them are still held, so that nothing is destroyed deeper than it was made.
Heap::~Heap() {
  for (const SequenceRef& list : changed_lists_) const_cast<Sequence&>(*list).items.clear();
  for (const DictRef& dict : changed_dicts_) const_cast<Dict&>(*dict).entries.clear();
}

}  // namespace kvasir::text::jinja
