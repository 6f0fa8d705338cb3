#include "text/schema/check.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "text/schema/formats.hpp"
#include "text/schema/pattern.hpp"

namespace kvasir::text {
namespace {

constexpr int kDeepest = 200;

}  // namespace

unsigned type_bits(const std::string& name) {
  if (name == "null") return kNullBit;
  if (name == "boolean") return kBooleanBit;
  if (name == "object") return kObjectBit;
  if (name == "array") return kArrayBit;
  if (name == "string") return kStringBit;
  if (name == "integer") return kIntegerBit;
  if (name == "number") return kIntegerBit | kFractionBit;
  return 0;
}

unsigned types_of(const Json& type) {
  const auto one = [](const Json& t) {
    if (!t.is_string()) throw Error(Code::kBadInput, "expected a string or strings");
    const auto& name = t.get_ref<const std::string&>();
    const unsigned bits = type_bits(name);
    if (bits == 0) throw Error(Code::kBadInput, "'" + name + "' is not a type of JSON");
    return bits;
  };
  if (!type.is_array()) return one(type);
  if (type.empty()) throw Error(Code::kBadInput, "expected a string or strings");
  unsigned bits = 0;
  for (const Json& t : type) bits |= one(t);
  return bits;
}

unsigned type_of(const Json& value) {
  if (value.is_null()) return kNullBit;
  if (value.is_boolean()) return kBooleanBit;
  if (value.is_object()) return kObjectBit;
  if (value.is_array()) return kArrayBit;
  if (value.is_string()) return kStringBit;
  const bool whole = value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
  return whole ? kIntegerBit : kFractionBit;
}

std::int64_t count_characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

const Checks::Pattern& Checks::pattern(const std::string& word, const std::string& value) {
  spend(16 + value.size() / 16);
  const auto known = patterns_.find({word, value});
  if (known != patterns_.end()) return known->second;
  Pattern made;
  std::uint64_t steps = 0;
  const std::string_view text = word == "pattern" ? std::string_view(value) : pattern_of_format(value);
  try {
    made.strings = word != "pattern" && text.empty() ? Automaton::anything() : automaton_of_pattern(text, &steps);
  } catch (const Error& e) {
    made.error = e.message();
  }
  spend(steps + 8 * made.strings.edges());  // those take memory
  return patterns_.emplace(std::pair{word, value}, std::move(made)).first->second;
}

Automaton Checks::both(const Automaton& a, const Automaton& b) {
  std::uint64_t steps = 0;
  try {
    Automaton made = Automaton::both(a, b, steps);
    spend(steps);
    return made;
  } catch (const Error&) {
    spend(steps);
    throw;
  }
}

const Json* Checks::find(const Json& from, const std::string& reference) {
  return document_.find(from, reference, work_).schema;
}

bool Checks::equal(const Json& a, const Json& b) {
  spend(4);
  if (a.is_number() && b.is_number()) return a == b;
  if (a.is_string() && b.is_string()) {
    spend(std::min(a.get_ref<const std::string&>().size(), b.get_ref<const std::string&>().size()) / 64);
    return a == b;
  }
  if (a.is_array() && b.is_array())
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](const Json& x, const Json& y) { return equal(x, y); });
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
    spend(8 + b.size());
    const auto at = b.find(item.key());
    return at != b.end() && equal(item.value(), *at);
  });
}

bool Checks::lists(const Json& list, const Json& value) {
  if (!value.is_string() || list.size() < 16)
    return std::any_of(list.begin(), list.end(), [&](const Json& v) { return equal(v, value); });
  auto& strings = strings_[&list];
  if (strings.empty()) {
    spend(64 * list.size());
    for (const Json& v : list)
      if (v.is_string()) strings.insert(v.get_ref<const std::string&>());
  }
  const auto& text = value.get_ref<const std::string&>();
  spend(16 + text.size() / 16);
  return strings.contains(text);
}

namespace {

class Checker {
 public:
  Checker(const Json& value, const Json& schema, Checks& checks, int depth)
      : value_(value), schema_(schema), checks_(checks), depth_(depth) {}

  bool run() const {
    return types() && constants() && applicators() && (!value_.is_number() || number()) &&
           (!value_.is_string() || string()) && (!value_.is_array() || array()) && (!value_.is_object() || object());
  }

 private:
  const Json* find(const char* word) const {
    const auto at = schema_.find(word);
    return at == schema_.end() ? nullptr : &*at;
  }
  bool holds(const Json& value, const Json& schema) const { return checks_.conforms(value, schema, depth_ + 1); }
  // Objects look at all their keys for one.
  bool has(const Json& object, const std::string& key) const {
    checks_.spend(4 + object.size());
    return object.contains(key);
  }
  bool number_word(const char* word, double& out) const {
    const Json* n = find(word);
    if (!n || !n->is_number()) return false;
    out = n->get<double>();
    return true;
  }

  bool types() const {
    const Json* type = find("type");
    if (!type) return true;
    try {
      return (types_of(*type) & type_of(value_)) != 0;
    } catch (const Error&) {
      return true;
    }
  }

  bool constants() const {
    if (const Json* one = find("const"); one && !checks_.equal(*one, value_)) return false;
    const Json* some = find("enum");
    return !some || !some->is_array() || checks_.lists(*some, value_);
  }

  bool applicators() const {
    for (const char* word : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      const Json* ref = find(word);
      if (!ref || !ref->is_string()) continue;
      const Json* to = checks_.find(schema_, ref->get_ref<const std::string&>());
      if (to && !holds(value_, *to)) return false;
    }
    const auto fitting = [&](const Json& list) {
      return std::count_if(list.begin(), list.end(), [&](const Json& s) { return holds(value_, s); });
    };
    const Json *all = find("allOf"), *any = find("anyOf"), *one = find("oneOf"), *no = find("not"), *test = find("if");
    if (all && all->is_array() && fitting(*all) != static_cast<std::ptrdiff_t>(all->size())) return false;
    if (any && any->is_array() && fitting(*any) == 0) return false;
    if (one && one->is_array() && fitting(*one) != 1) return false;
    if (no && holds(value_, *no)) return false;
    if (!test) return true;
    const Json* then = find(holds(value_, *test) ? "then" : "else");
    return !then || holds(value_, *then);
  }

  bool number() const {
    const double x = value_.get<double>();
    double n = 0;
    const Json *low = find("exclusiveMinimum"), *high = find("exclusiveMaximum");
    const bool low_open = low && *low == Json(true), high_open = high && *high == Json(true);  // draft 4
    if (number_word("minimum", n) && (low_open ? x <= n : x < n)) return false;
    if (number_word("maximum", n) && (high_open ? x >= n : x > n)) return false;
    if (number_word("exclusiveMinimum", n) && x <= n) return false;
    if (number_word("exclusiveMaximum", n) && x >= n) return false;
    for (const char* word : {"multipleOf", "divisibleBy"})
      if (number_word(word, n) && n > 0 && std::abs(std::remainder(x / n, 1.0)) > 1e-9) return false;
    return true;
  }

  bool string() const {
    const auto& text = value_.get_ref<const std::string&>();
    double n = 0;
    checks_.spend(text.size());
    const auto size = static_cast<double>(count_characters(text));
    if (number_word("minLength", n) && size < n) return false;
    if (number_word("maxLength", n) && size > n) return false;
    for (const char* word : {"pattern", "format"}) {
      const Json* of = find(word);
      if (!of || !of->is_string()) continue;
      const Checks::Pattern& pattern = checks_.pattern(word, of->get_ref<const std::string&>());
      checks_.spend(8 * text.size());
      if (pattern.error.empty() && !pattern.strings.matches(text)) return false;
    }
    return true;
  }

  bool array() const {
    double n = 0;
    const auto size = static_cast<double>(value_.size());
    if (number_word("minItems", n) && size < n) return false;
    if (number_word("maxItems", n) && size > n) return false;
    const Json *items = find("items"), *front = find("prefixItems");
    const Json* rest = items;
    if (items && items->is_array()) {
      front = items;
      rest = find("additionalItems");
    }
    std::size_t i = 0;
    if (front && front->is_array())
      for (; i < std::min(front->size(), value_.size()); ++i)
        if (!holds(value_[i], (*front)[i])) return false;
    if (rest)
      for (; i < value_.size(); ++i)
        if (!holds(value_[i], *rest)) return false;
    if (const Json* unique = find("uniqueItems"); unique && *unique == Json(true))
      for (std::size_t a = 0; a < value_.size(); ++a)
        for (std::size_t b = 0; b < a; ++b)
          if (checks_.equal(value_[a], value_[b])) return false;
    if (const Json* contains = find("contains")) {
      const auto found = static_cast<double>(
          std::count_if(value_.begin(), value_.end(), [&](const Json& v) { return holds(v, *contains); }));
      if (found < (number_word("minContains", n) ? n : 1)) return false;
      if (number_word("maxContains", n) && found > n) return false;
    }
    return true;
  }

  bool object() const {
    double n = 0;
    const auto size = static_cast<double>(value_.size());
    if (number_word("minProperties", n) && size < n) return false;
    if (number_word("maxProperties", n) && size > n) return false;
    if (const Json* required = find("required"); required && required->is_array())
      for (const Json& name : *required)
        if (name.is_string() && !has(value_, name.get_ref<const std::string&>())) return false;
    const Json *properties = find("properties"), *patterns = find("patternProperties"),
               *more = find("additionalProperties"), *names = find("propertyNames");
    for (const auto& [key, value] : value_.items()) {
      bool known = false;
      if (properties && properties->is_object() && has(*properties, key)) {
        known = true;
        if (!holds(value, properties->at(key))) return false;
      }
      if (patterns && patterns->is_object())
        for (const auto& [pattern, schema] : patterns->items()) {
          const Checks::Pattern& of = checks_.pattern("pattern", pattern);
          checks_.spend(8 * key.size());
          if (!of.error.empty() || !of.strings.matches(key)) continue;
          known = true;
          if (!holds(value, schema)) return false;
        }
      if (more && !known && !holds(value, *more)) return false;
      if (names && !holds(Json(key), *names)) return false;
    }
    for (const char* word : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      const Json* of = find(word);
      if (!of || !of->is_object()) continue;
      for (const auto& [key, what] : of->items()) {
        if (!has(value_, key)) continue;
        if (what.is_array()) {
          for (const Json& name : what)
            if (name.is_string() && !has(value_, name.get_ref<const std::string&>())) return false;
        } else if (!holds(value_, what)) {
          return false;
        }
      }
    }
    return true;
  }

  const Json& value_;
  const Json& schema_;
  Checks& checks_;
  const int depth_;
};

}  // namespace

bool Checks::conforms(const Json& value, const Json& schema, int depth) {
  spend(64 + 8 * (schema.is_object() ? schema.size() : 0));
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object() || depth > kDeepest) return true;
  return Checker(value, schema, *this, depth).run();
}

}  // namespace kvasir::text
