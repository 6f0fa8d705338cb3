// Values of the template language: what Jinja's templates see as Python objects.
//
// Values are shared. Strings and tuples are immutable. Objects (namespaces, loops, macros, joiners) live until the
// render's end. Lists and dicts change by their methods (mutations.cpp): the render keeps those that did and empties
// them at its end, because one may hold itself. So a value may be deeper than its `depth` says, and what walks one
// bounds its recursion while it walks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/meter.hpp"

namespace kvasir::text::jinja {

class Machine;
class Object;
class Value;
struct Args;

struct Text {
  std::string bytes;    // well-formed UTF-8
  bool markup = false;  // Markup of MarkupSafe: `+` with another string escapes the other one
  bool json = false;    // a JSON text: tojson writes it as it is
};
using TextRef = std::shared_ptr<const Text>;

struct None {};

// `owner` null: a variable `name` that does not exist ("" when even that is not known). `owner` empty: `name` is the
// whole message. Otherwise `owner` is the kind of object that has no attribute `name`.
struct Undefined {
  const char* owner = nullptr;
  TextRef name;
};

struct Sequence;
struct Dict;
using SequenceRef = std::shared_ptr<const Sequence>;
using DictRef = std::shared_ptr<const Dict>;

template <class T, class... Types>
concept OneOf = (std::is_same_v<T, Types> || ...);

class Value {
 public:
  enum class Kind : std::uint8_t { kUndefined, kNone, kBool, kInt, kReal, kText, kSequence, kDict, kObject };

  Value() = default;
  // Of these types exactly: a pointer would become a bool.
  template <class T>
  requires OneOf<T, Undefined, None, bool, std::int64_t, double>
  explicit Value(T x) : v_(std::move(x)) {}
  explicit Value(TextRef t) : v_(std::move(t)) {}
  explicit Value(SequenceRef s) : v_(std::move(s)) {}
  explicit Value(DictRef d) : v_(std::move(d)) {}
  explicit Value(Object* o) : v_(o) {}
  explicit Value(std::string bytes) : v_(std::make_shared<const Text>(Text{std::move(bytes), false})) {}

  Kind kind() const { return static_cast<Kind>(v_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_int() const {
    return kind() == Kind::kInt || kind() == Kind::kBool;
  }  // as in Python, where bool is a kind of int
  bool is_number() const { return is_int() || kind() == Kind::kReal; }
  bool is_text() const { return kind() == Kind::kText; }

  // Null, or the value if it has that kind.
  const Undefined* undefined() const { return std::get_if<Undefined>(&v_); }
  const Text* text() const { return is_text() ? std::get<TextRef>(v_).get() : nullptr; }
  const Sequence* sequence() const { return kind() == Kind::kSequence ? std::get<SequenceRef>(v_).get() : nullptr; }
  const Dict* dict() const { return kind() == Kind::kDict ? std::get<DictRef>(v_).get() : nullptr; }
  Object* object() const { return kind() == Kind::kObject ? std::get<Object*>(v_) : nullptr; }

  // REQUIRES: that kind.
  TextRef text_ref() const { return std::get<TextRef>(v_); }
  SequenceRef sequence_ref() const { return std::get<SequenceRef>(v_); }
  DictRef dict_ref() const { return std::get<DictRef>(v_); }
  bool boolean() const { return std::get<bool>(v_); }
  std::int64_t integer() const { return kind() == Kind::kBool ? (boolean() ? 1 : 0) : std::get<std::int64_t>(v_); }
  double real() const { return kind() == Kind::kReal ? std::get<double>(v_) : static_cast<double>(integer()); }
  std::string_view view() const { return text()->bytes; }

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, TextRef, SequenceRef, DictRef, Object*> v_;
};

// Containers within containers, at most; so that walking a value is a bounded recursion.
inline constexpr int kMaxValueDepth = 128;

enum class SequenceKind : std::uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  int depth = 1;
  std::vector<Value> items;
  mutable bool kept = false;                   // Heap::changed knows it
  mutable std::size_t used = 0;                // of a generator: how many items were taken out of it
  std::int64_t start = 0, stop = 0, step = 0;  // of a range, for printing; step 0: not known
};

struct Dict {
  int depth = 1;
  mutable bool kept = false;                     // Heap::changed knows it
  std::vector<std::pair<Value, Value>> entries;  // keys hashable and all different, in order of insertion

  const Value* find(std::string_view key) const;  // null: absent
};

// An attribute that only calls and lookups know: `attribute` is undefined where there is none.
class Object {
 public:
  virtual ~Object() = default;
  virtual const char* type_name() const = 0;
  virtual Value attribute(Machine& machine, const TextRef& name) = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Machine& machine, Args& args);
  // What printing shows. Throws where Python would print an address.
  virtual void print(std::string& out, Meter& meter, int depth) const;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<TextRef, Value>> named;
};

// Throws Error(kBadInput); the render adds the template's line.
[[noreturn]] void fail(std::string message);
[[noreturn]] void fail_undefined(const Undefined& u);

// Python's type name: 'str', 'NoneType'.
const char* type_name(const Value& v);

Value make_text(Meter& meter, std::string bytes, bool markup = false);
Value make_sequence(Meter& meter, SequenceKind kind, std::vector<Value> items);
inline Value make_list(Meter& meter, std::vector<Value> items) {
  return make_sequence(meter, SequenceKind::kList, std::move(items));
}
Value make_range(Meter& meter, std::int64_t start, std::int64_t stop, std::int64_t step, std::vector<Value> items);
Value make_pair(Meter& meter, Value first, Value second);  // a tuple of two

// The depth of a container around `v`. Throws where that is too deep.
int depth_around(const Value& v);

// Collects a dict; a key that is there already keeps its place and gets the new value.
class DictMaker {
 public:
  explicit DictMaker(Meter& meter) : meter_(meter), dict_(std::make_shared<Dict>()) {}
  void set(Value key, Value value);  // throws when `key` is unhashable
  Value take() { return Value(DictRef(std::move(dict_))); }

 private:
  Meter& meter_;
  std::shared_ptr<Dict> dict_;
};

Value undefined_name(TextRef name);
Value undefined_attribute(const Value& owner, TextRef name);
Value undefined_because(std::string message);

bool truthy(const Value& v);
bool equal(const Value& a, const Value& b, Meter& meter);
// -1, 0, 1. Throws for values that Python does not order, `what` names the operation.
int compare(const Value& a, const Value& b, Meter& meter, const char* what = "<");
bool hashable(const Value& v);
const Value* find(const Dict& dict, const Value& key, Meter& meter);  // null: absent; REQUIRES: hashable key

// str(v) and repr(v), appended.
void append_str(std::string& out, const Value& v, Meter& meter);
void append_repr(std::string& out, const Value& v, Meter& meter, int depth = 0);
void append_real(std::string& out, double d);  // repr(float)
std::string to_str(const Value& v, Meter& meter);
std::string to_repr(const Value& v, Meter& meter);

// What a `for` over `v` goes through: items, keys, characters; a generator is used up. Throws for what is not iterable.
SequenceRef iterate(const Value& v, Meter& meter);
bool is_iterable(const Value& v);
// len(v), or -1 where Python has none.
std::int64_t length(const Value& v);

}  // namespace kvasir::text::jinja
