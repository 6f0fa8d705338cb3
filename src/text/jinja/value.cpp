#include "text/jinja/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

using ValueKind = Value::Kind;

int depth_of(const Value& v) {
  if (v.sequence()) return v.sequence()->depth;
  return v.dict() ? v.dict()->depth : 0;
}

int nested(int inner) {
  if (inner >= kMaxValueDepth) fail(fmt::format("values are nested more than {} deep", kMaxValueDepth));
  return inner + 1;
}

// Lists with lists, tuples with tuples; views and generators are only equal to themselves.
bool equal_sequences(const Sequence& a, const Sequence& b, Meter& meter) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind > SequenceKind::kRange || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!equal(a.items[i], b.items[i], meter)) return false;
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Meter& meter) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find(b, key, meter);
    if (!other || !equal(value, *other, meter)) return false;
  }
  return true;
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  return a.real() < b.real() ? -1 : a.real() > b.real();
}

int compare_sequences(const Sequence& a, const Sequence& b, Meter& meter, const char* what) {
  const auto n = std::min(a.items.size(), b.items.size());
  for (std::size_t i = 0; i < n; ++i)
    if (!equal(a.items[i], b.items[i], meter)) return compare(a.items[i], b.items[i], meter, what);
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size();
}

std::string undefined_message(const Undefined& u) {
  if (!u.owner) return u.name ? fmt::format("'{}' is undefined", u.name->bytes) : "the value is undefined";
  if (*u.owner == '\0') return u.name->bytes;
  return fmt::format("'{}' has no attribute '{}'", u.owner, u.name->bytes);
}

// jinja2's object_type_repr
const char* owner_name(const Value& v) {
  switch (v.kind()) {
    case ValueKind::kNone:
      return "None";
    case ValueKind::kBool:
      return "bool object";
    case ValueKind::kInt:
      return "int object";
    case ValueKind::kReal:
      return "float object";
    case ValueKind::kText:
      return "str object";
    case ValueKind::kDict:
      return "dict object";
    case ValueKind::kSequence:
      return v.sequence()->kind == SequenceKind::kTuple ? "tuple object" : "list object";
    default:
      return v.object() ? v.object()->type_name() : "Undefined";
  }
}

SequenceRef characters(std::string_view text, Meter& meter) {
  std::vector<Value> items;
  for (std::size_t i = 0; i < text.size();) {
    const auto size = unicode::decode_char(text.substr(i)).size;
    items.push_back(make_text(meter, std::string(text.substr(i, size))));
    i += size;
  }
  return make_list(meter, std::move(items)).sequence_ref();
}

}  // namespace

void fail(std::string message) { throw Error(Code::kBadInput, std::move(message)); }

void fail_undefined(const Undefined& u) { fail(undefined_message(u)); }

const char* type_name(const Value& v) {
  static constexpr const char* kNames[] = {"Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict", ""};
  static constexpr const char* kSequences[] = {"list",        "tuple",      "range",    "dict_keys",
                                               "dict_values", "dict_items", "generator"};
  if (v.sequence()) return kSequences[static_cast<int>(v.sequence()->kind)];
  if (v.object()) return v.object()->type_name();
  return kNames[static_cast<int>(v.kind())];
}

Value Object::call(Machine&, Args&) { fail(fmt::format("'{}' object is not callable", type_name())); }

void Object::print(std::string&, Meter&, int) const { fail(fmt::format("a {} cannot be printed", type_name())); }

Value make_text(Meter& meter, std::string bytes, bool markup) {
  meter.check_output(bytes.size());
  meter.allocate(bytes.size() + sizeof(Text) + 48);  // 48: the blocks' own administration
  return Value(std::make_shared<const Text>(Text{std::move(bytes), markup}));
}

namespace {

std::shared_ptr<Sequence> sequence_of(Meter& meter, SequenceKind kind, std::vector<Value> items) {
  meter.allocate(sizeof(Sequence) + items.size() * sizeof(Value));
  int inner = 0;
  for (const auto& item : items) inner = std::max(inner, depth_of(item));
  auto s = std::make_shared<Sequence>();
  s->kind = kind;
  s->depth = nested(inner);
  s->items = std::move(items);
  return s;
}

}  // namespace

Value make_sequence(Meter& meter, SequenceKind kind, std::vector<Value> items) {
  return Value(SequenceRef(sequence_of(meter, kind, std::move(items))));
}

Value make_range(Meter& meter, std::int64_t start, std::int64_t stop, std::int64_t step, std::vector<Value> items) {
  auto s = sequence_of(meter, SequenceKind::kRange, std::move(items));
  s->start = start;
  s->stop = stop;
  s->step = step;
  return Value(SequenceRef(std::move(s)));
}

Value make_pair(Meter& meter, Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return make_sequence(meter, SequenceKind::kTuple, std::move(items));
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name.is_text() && name.view() == key) return &value;
  return nullptr;
}

void DictMaker::set(Value key, Value value) {
  if (!hashable(key)) fail(fmt::format("unhashable type: '{}'", type_name(key)));
  meter_.allocate(2 * sizeof(Value));
  dict_->depth = std::max(dict_->depth, nested(std::max(depth_of(value), depth_of(key))));
  if (const Value* old = find(*dict_, key, meter_)) {
    for (auto& entry : dict_->entries)
      if (&entry.second == old) entry.second = std::move(value);
  } else {
    dict_->entries.emplace_back(std::move(key), std::move(value));
  }
}

Value undefined_name(TextRef name) { return Value(Undefined{nullptr, std::move(name)}); }

Value undefined_attribute(const Value& owner, TextRef name) {
  return Value(Undefined{owner_name(owner), std::move(name)});
}

Value undefined_because(std::string message) {
  return Value(Undefined{"", std::make_shared<const Text>(Text{std::move(message), false})});
}

int depth_around(const Value& v) { return nested(depth_of(v)); }

bool truthy(const Value& v) {
  switch (v.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
    case ValueKind::kInt:
      return v.integer() != 0;
    case ValueKind::kReal:
      return v.real() != 0;
    case ValueKind::kText:
      return !v.view().empty();
    case ValueKind::kSequence:
      return v.sequence()->kind == SequenceKind::kGenerator || !v.sequence()->items.empty();
    case ValueKind::kDict:
      return !v.dict()->entries.empty();
    case ValueKind::kObject:
      return true;
  }
  return false;
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  const Nesting nesting(meter);
  meter.step();
  if (a.is_number() && b.is_number()) {
    return a.is_int() && b.is_int() ? a.integer() == b.integer() : a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  if (a.is_text()) {
    if (a.text() == b.text()) return true;
    meter.scan(std::min(a.view().size(), b.view().size()));
    return a.view() == b.view();
  }
  if (a.sequence()) return equal_sequences(*a.sequence(), *b.sequence(), meter);
  if (a.dict()) return equal_dicts(*a.dict(), *b.dict(), meter);
  return !a.object() || a.object() == b.object();  // None, Undefined
}

int compare(const Value& a, const Value& b, Meter& meter, const char* what) {
  const Nesting nesting(meter);
  meter.step();
  if (a.undefined()) fail_undefined(*a.undefined());
  if (b.undefined()) fail_undefined(*b.undefined());
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    meter.scan(std::min(a.view().size(), b.view().size()));
    // Bytes of UTF-8 have the order of code points.
    const int order = a.view().compare(b.view());
    return order < 0 ? -1 : order > 0;
  }
  const auto *s = a.sequence(), *t = b.sequence();
  if (s && t && s->kind == t->kind && s->kind <= SequenceKind::kTuple) return compare_sequences(*s, *t, meter, what);
  fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", what, type_name(a), type_name(b)));
}

bool hashable(const Value& v) {
  if (v.dict()) return false;
  const Sequence* s = v.sequence();
  if (!s) return true;
  if (s->kind != SequenceKind::kTuple) return s->kind == SequenceKind::kRange;
  return std::all_of(s->items.begin(), s->items.end(), hashable);
}

const Value* find(const Dict& dict, const Value& key, Meter& meter) {
  meter.step(dict.entries.size() / 8 + 1);
  if (key.is_text()) return dict.find(key.view());
  for (const auto& [name, value] : dict.entries)
    if (equal(name, key, meter)) return &value;
  return nullptr;
}

SequenceRef iterate(const Value& v, Meter& meter) {
  std::vector<Value> items;
  if (const Sequence* s = v.sequence()) {
    if (s->kind != SequenceKind::kGenerator) return v.sequence_ref();
    items.assign(s->items.begin() + static_cast<std::ptrdiff_t>(s->used), s->items.end());
    s->used = s->items.size();
  } else if (const Dict* d = v.dict()) {
    for (const auto& entry : d->entries) items.push_back(entry.first);
  } else if (v.is_text()) {
    return characters(v.view(), meter);
  } else if (!v.is_undefined()) {
    fail(fmt::format("'{}' object is not iterable", type_name(v)));
  }
  return make_list(meter, std::move(items)).sequence_ref();
}

bool is_iterable(const Value& v) { return v.is_undefined() || v.is_text() || v.sequence() || v.dict(); }

std::int64_t length(const Value& v) {
  if (v.is_undefined()) return 0;
  if (v.dict()) return static_cast<std::int64_t>(v.dict()->entries.size());
  if (const Sequence* s = v.sequence()) {
    return s->kind == SequenceKind::kGenerator ? -1 : static_cast<std::int64_t>(s->items.size());
  }
  if (!v.is_text()) return -1;
  // Every byte but the continuation bytes begins a character.
  return std::count_if(v.view().begin(), v.view().end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace kvasir::text::jinja
