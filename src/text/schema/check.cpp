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

Automaton automaton_of_word(const std::string& word, const std::string& value) {
  if (word == "pattern") return automaton_of_pattern(value);
  const std::string_view pattern = pattern_of_format(value);
  return pattern.empty() ? Automaton::anything() : automaton_of_pattern(pattern);
}

bool equal_values(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a == b;
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_values);
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
    const auto at = b.find(item.key());
    return at != b.end() && equal_values(item.value(), *at);
  });
}

namespace {

class Checker {
 public:
  Checker(const Json& value, const Json& schema, const SchemaDocument& document, int depth)
      : value_(value), schema_(schema), document_(document), depth_(depth) {}

  bool run() const {
    return types() && constants() && applicators() && (!value_.is_number() || number()) &&
           (!value_.is_string() || string()) && (!value_.is_array() || array()) && (!value_.is_object() || object());
  }

 private:
  const Json* find(const char* word) const {
    const auto at = schema_.find(word);
    return at == schema_.end() ? nullptr : &*at;
  }
  bool holds(const Json& value, const Json& schema) const { return conforms_to(value, schema, document_, depth_ + 1); }
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
    if (const Json* one = find("const"); one && !equal_values(*one, value_)) return false;
    const Json* some = find("enum");
    return !some || !some->is_array() ||
           std::any_of(some->begin(), some->end(), [&](const Json& v) { return equal_values(v, value_); });
  }

  bool applicators() const {
    for (const char* word : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      const Json* ref = find(word);
      if (!ref || !ref->is_string()) continue;
      try {
        if (!holds(value_, *document_.find(schema_, ref->get<std::string>()).schema)) return false;
      } catch (const Error&) {
      }
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
    const auto size = static_cast<double>(count_characters(text));
    if (number_word("minLength", n) && size < n) return false;
    if (number_word("maxLength", n) && size > n) return false;
    for (const char* word : {"pattern", "format"}) {
      const Json* of = find(word);
      if (!of || !of->is_string()) continue;
      try {
        if (!automaton_of_word(word, of->get<std::string>()).matches(text)) return false;
      } catch (const Error&) {
      }
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
          if (equal_values(value_[a], value_[b])) return false;
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
        if (name.is_string() && !value_.contains(name.get<std::string>())) return false;
    const Json *properties = find("properties"), *patterns = find("patternProperties"),
               *more = find("additionalProperties"), *names = find("propertyNames");
    for (const auto& [key, value] : value_.items()) {
      bool known = false;
      if (properties && properties->is_object() && properties->contains(key)) {
        known = true;
        if (!holds(value, properties->at(key))) return false;
      }
      if (patterns && patterns->is_object())
        for (const auto& [pattern, schema] : patterns->items()) {
          try {
            if (!automaton_of_pattern(pattern).matches(key)) continue;
          } catch (const Error&) {
            continue;
          }
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
        if (!value_.contains(key)) continue;
        if (what.is_array()) {
          for (const Json& name : what)
            if (name.is_string() && !value_.contains(name.get<std::string>())) return false;
        } else if (!holds(value_, what)) {
          return false;
        }
      }
    }
    return true;
  }

  const Json& value_;
  const Json& schema_;
  const SchemaDocument& document_;
  const int depth_;
};

}  // namespace

bool conforms_to(const Json& value, const Json& schema, const SchemaDocument& document, int depth) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object() || depth > kDeepest) return true;
  return Checker(value, schema, document, depth).run();
}

}  // namespace kvasir::text
