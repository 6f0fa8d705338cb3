#include "text/schema/asked.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "text/schema/counts.hpp"

namespace kvasir::text {
namespace {

// Words about the value itself. A schema without any of them allows everything.
constexpr std::array kTypeless = {"enum", "const", "format", "multipleOf", "divisibleBy"};
constexpr std::array kOfObjects = {
    "properties",        "required",      "additionalProperties", "unevaluatedProperties",
    "patternProperties", "propertyNames", "minProperties",        "maxProperties"};
constexpr std::array kOfArrays = {"items",    "prefixItems", "additionalItems", "unevaluatedItems",
                                  "minItems", "maxItems",    "contains",        "uniqueItems"};
constexpr std::array kOfStrings = {"minLength", "maxLength", "pattern"};
constexpr std::array kOfNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};

template <std::size_t N>
bool has_any(const Json& schema, const std::array<const char*, N>& words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return schema.contains(w); });
}

}  // namespace

const Json* Asked::word(const char* of) const {
  if (kind != Kind::kHolds || !schema->is_object()) return nullptr;
  const auto at = schema->find(of);
  return at == schema->end() ? nullptr : &*at;
}

bool Asked::is_free() const {
  return kind == Kind::kHolds && !schema->contains("type") && !has_any(*schema, kTypeless) &&
         !has_any(*schema, kOfObjects) && !has_any(*schema, kOfArrays) && !has_any(*schema, kOfStrings) &&
         !has_any(*schema, kOfNumbers);
}

bool exclusive(const Json& a, const Json& b, Checks& checks, int depth) {
  if (depth > 8) return false;
  checks.spend(64 + 4 * (a.is_object() ? a.size() : 0) + 4 * (b.is_object() ? b.size() : 0));
  if (a == Json(false) || b == Json(false)) return true;
  if (!a.is_object() || !b.is_object()) return false;
  const auto follow = [&](const Json& s) -> const Json& {
    const auto ref = s.find("$ref");
    if (ref == s.end() || !ref->is_string()) return s;
    const Json* to = checks.find(s, ref->get_ref<const std::string&>());
    return to ? *to : s;
  };
  const Json &x = follow(a), &y = follow(b);
  if (&x != &a || &y != &b) return exclusive(x, y, checks, depth + 1);
  // Whether `p` lists its values, and none is of `q`.
  const auto none_of = [&](const Json& p, const Json& q) {
    if (const auto one = p.find("const"); one != p.end()) return !checks.conforms(*one, q);
    const auto some = p.find("enum");
    return some != p.end() && some->is_array() && !some->empty() &&
           std::none_of(some->begin(), some->end(), [&](const Json& v) { return checks.conforms(v, q); });
  };
  if (none_of(x, y) || none_of(y, x)) return true;
  const auto types = [](const Json& s) {
    try {
      return s.contains("type") ? types_of(s["type"]) : static_cast<unsigned>(kAllBits);
    } catch (const Error&) {
      return static_cast<unsigned>(kAllBits);
    }
  };
  const unsigned tx = types(x), ty = types(y);
  if ((tx & ty) == 0) return true;
  if ((tx & ty) != kObjectBit) return false;
  const auto requires_it = [&](const Json& s, const std::string& name) {
    const auto list = s.find("required");
    return list != s.end() && list->is_array() && checks.lists(*list, name);
  };
  const auto tells = [&](const Json& p, const Json& q) {
    const auto list = p.find("required");
    if (list == p.end() || !list->is_array()) return false;
    for (const Json& n : *list) {
      if (!n.is_string()) continue;
      const auto& name = n.get_ref<const std::string&>();
      const auto props = q.find("properties");
      checks.spend(64 + 4 * (props != q.end() ? props->size() : 0) + 4 * q.size());
      const bool named = props != q.end() && props->is_object() && props->contains(name);
      // The other one forbids it, or gives it other values.
      if (!named && q.contains("additionalProperties") && q["additionalProperties"] == Json(false)) return true;
      if (named && p.contains("properties") && p["properties"].contains(name) && requires_it(q, name) &&
          exclusive(p["properties"][name], (*props)[name], checks, depth + 1))
        return true;
    }
    return false;
  };
  return tells(x, y) || tells(y, x);
}

bool fits(const Json& value, const Asked& item, Checks& checks) {
  checks.spend(8 + (item.name && value.is_object() ? value.size() : 0));
  switch (item.kind) {
    case Asked::Kind::kHolds:
      return checks.conforms(value, *item.schema);
    case Asked::Kind::kNot:
      return !checks.conforms(value, *item.schema);
    case Asked::Kind::kTypes:
      return (type_of(value) & item.types) != 0;
    case Asked::Kind::kPresent:
      return !value.is_object() || value.contains(*item.name);
    case Asked::Kind::kAbsent:
      return !value.is_object() || !value.contains(*item.name);
    case Asked::Kind::kPropertyNot:
      return !value.is_object() || !value.contains(*item.name) || !checks.conforms(value.at(*item.name), *item.schema);
  }
  return true;
}

std::vector<std::string> constant_texts(const AskedAll& items, Checks& checks) {
  std::vector<std::string> texts;
  for (const Asked& item : items) {
    const Json *one = item.word("const"), *some = item.word("enum");
    if (!one && !some) continue;
    if (!one && (!some->is_array() || some->empty()))
      refuse_schema(below_path(item.path, "enum"), "expected an array that is not empty");
    types_of_items(items);  // refuses what is no type
    const auto add = [&](const Json& v) {
      if (!std::all_of(items.begin(), items.end(), [&](const Asked& i) { return fits(v, i, checks); })) return;
      texts.push_back(v.dump());
      checks.spend(64 + 4 * texts.back().size());
    };
    if (one) {
      add(*one);
    } else {
      for (const Json& v : *some) add(v);
    }
    if (texts.empty() && items.size() == 1)
      refuse_schema(below_path(item.path, one ? "const" : "enum"), "has no value of the type that is asked for");
    break;
  }
  return texts;
}

unsigned types_of_items(const AskedAll& items) {
  unsigned types = kAllBits;
  bool said = false;
  unsigned hinted = 0;
  for (const Asked& item : items) {
    if (item.kind == Asked::Kind::kTypes) {
      types &= item.types;
      said = true;
    }
    if (item.kind == Asked::Kind::kPresent || item.kind == Asked::Kind::kPropertyNot) hinted |= kObjectBit;
    if (item.kind != Asked::Kind::kHolds) continue;
    if (const Json* type = item.word("type")) {
      try {
        types &= types_of(*type);
        said = true;
      } catch (const Error& e) {
        refuse_schema(below_path(item.path, "type"), e.message());
      }
    }
    if (!item.schema->is_object()) continue;
    if (has_any(*item.schema, kOfObjects)) hinted |= kObjectBit;
    if (has_any(*item.schema, kOfArrays)) hinted |= kArrayBit;
    if (has_any(*item.schema, kOfStrings)) hinted |= kStringBit;
    if (has_any(*item.schema, kOfNumbers)) hinted |= kIntegerBit | kFractionBit;
  }
  // Without a type the words tell what was meant; a part of what they allow.
  return !said && hinted != 0 ? hinted : types;
}

bool evaluates(const Json& schema, const std::string& name, Checks& checks, int depth) {
  checks.spend(64);
  if (!schema.is_object() || depth > 32) return false;
  checks.spend(8 * schema.size());
  const auto find = [&](const char* word) -> const Json* {
    const auto at = schema.find(word);
    return at == schema.end() ? nullptr : &*at;
  };
  if (const Json* named = find("properties"); named && named->is_object()) {
    checks.spend(named->size());
    if (named->contains(name)) return true;
  }
  if (find("additionalProperties")) return true;
  if (const Json* patterns = find("patternProperties"); patterns && patterns->is_object())
    for (const auto& item : patterns->items()) {
      const Checks::Pattern& of = checks.pattern("pattern", item.key());
      checks.spend(8 * name.size());
      if (of.error.empty() && of.strings.matches(name)) return true;
    }
  for (const char* word : {"allOf", "anyOf", "oneOf"})
    if (const Json* all = find(word); all && all->is_array())
      for (const Json& s : *all)
        if (evaluates(s, name, checks, depth + 1)) return true;
  for (const char* word : {"if", "then", "else"})
    if (const Json* s = find(word); s && evaluates(*s, name, checks, depth + 1)) return true;
  if (const Json* all = find("dependentSchemas"); all && all->is_object())
    for (const Json& s : *all)
      if (evaluates(s, name, checks, depth + 1)) return true;
  for (const char* word : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const Json* ref = find(word); ref && ref->is_string()) {
      const Json* to = checks.find(schema, ref->get_ref<const std::string&>());
      if (to && evaluates(*to, name, checks, depth + 1)) return true;
    }
  return false;
}

}  // namespace kvasir::text
