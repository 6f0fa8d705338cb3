#include "text/json_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr std::int64_t kLargest = JsonGrammar::kLargest;
constexpr std::int64_t kMostCount = 1'000'000;  // of items and characters
constexpr int kDeepest = 256;                   // schemas within schemas, references followed

// Words that forbid something and are not built into grammars.
constexpr std::array kUnknown = {"pattern",
                                 "multipleOf",
                                 "contains",
                                 "minContains",
                                 "maxContains",
                                 "patternProperties",
                                 "propertyNames",
                                 "minProperties",
                                 "maxProperties",
                                 "dependentRequired",
                                 "dependentSchemas",
                                 "dependencies",
                                 "if",
                                 "then",
                                 "else",
                                 "not",
                                 "unevaluatedItems",
                                 "$dynamicRef",
                                 "$recursiveRef"};
// Words that say something about the value: next to $ref, anyOf, oneOf or allOf they would be both's business.
constexpr std::array kOwn = {"type",
                             "properties",
                             "required",
                             "additionalProperties",
                             "items",
                             "minimum",
                             "maximum",
                             "minItems",
                             "maxItems",
                             "prefixItems",
                             "enum",
                             "const",
                             "minLength",
                             "maxLength",
                             "exclusiveMinimum",
                             "anyOf",
                             "oneOf",
                             "allOf",
                             "exclusiveMaximum",
                             "$ref"};

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw Error(Code::kBadInput, why, path); }

std::string below(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

std::optional<std::int32_t> count(const Json& schema, const char* word, const std::string& path) {
  const auto at = schema.find(word);
  if (at == schema.end()) return {};
  const bool whole = at->is_number() && at->get<double>() >= 0 &&
                     at->get<double>() <= static_cast<double>(kMostCount) &&
                     at->get<double>() == static_cast<double>(at->get<std::int64_t>());
  if (!whole) refuse(below(path, word), "expected an integer from 0 to " + std::to_string(kMostCount));
  return at->get<std::int32_t>();
}

// Cut to what has 18 digits, and one more on either side.
std::int64_t whole_part(const Json& number) {
  constexpr std::int64_t kBeyond = kLargest + 1;
  if (number.is_number_unsigned())
    return static_cast<std::int64_t>(std::min<std::uint64_t>(number.get<std::uint64_t>(), kBeyond));
  if (number.is_number_integer()) return std::clamp(number.get<std::int64_t>(), -kBeyond, kBeyond);
  return static_cast<std::int64_t>(
      std::clamp(number.get<double>(), -static_cast<double>(kBeyond), static_cast<double>(kBeyond)));
}

bool is_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
}

}  // namespace

void SchemaGrammar::unsupported(const Path& path, const std::string& why) const {
  if (strict_) refuse(path, why);
}

void SchemaGrammar::only(const Json& schema, const char* word, const Path& path) const {
  for (const char* other : kOwn)
    if (std::string_view(other) != word && schema.contains(other))
      unsupported(below(path, other), "is not supported beside '" + std::string(word) + "'");
}

SchemaGrammar::Node SchemaGrammar::schema(const Json& schema) {
  root_ = &schema;
  return reference("#", "");
}

// A schema that is referred to is made once, so that it may contain itself.
SchemaGrammar::Node SchemaGrammar::reference(const std::string& target, const Path& path) {
  if (const auto known = references_.find(target); known != references_.end()) return known->second;
  const Json* to = nullptr;
  if (target.starts_with("#")) {
    try {
      to = &root_->at(Json::json_pointer(target.substr(1)));
    } catch (const Json::exception&) {
    }
  }
  if (!to) refuse(path, "'" + target + "' is not in this schema");
  const Node node = g_.declare();
  references_.emplace(target, node);
  g_.define(node, value(*to, target == "#" ? path : target));
  return node;
}

SchemaGrammar::Node SchemaGrammar::value(const Json& schema, const Path& path) {
  if (schema.is_boolean()) {
    if (schema.get<bool>()) return json_.any_value();
    return g_.choice({});
  }
  if (!schema.is_object()) refuse(path.empty() ? "schema" : path, "expected an object or a boolean");
  if (depth_ >= kDeepest) refuse(path, "nests deeper than " + std::to_string(kDeepest) + " schemas");
  ++depth_;  // not taken back when something is refused: then nothing comes of the grammar
  const Node node = keywords(schema, path);
  --depth_;
  return node;
}

SchemaGrammar::Node SchemaGrammar::keywords(const Json& schema, const Path& path) {
  for (const char* word : kUnknown)
    if (schema.contains(word)) unsupported(below(path, word), "is not supported");
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    only(schema, "$ref", path);
    if (!ref->is_string()) refuse(below(path, "$ref"), "expected a string");
    return reference(ref->get<std::string>(), below(path, "$ref"));
  }
  for (const char* word : {"anyOf", "oneOf", "allOf"}) {
    const auto all = schema.find(word);
    if (all == schema.end()) continue;
    only(schema, word, path);
    if (!all->is_array() || all->empty()) refuse(below(path, word), "expected an array that is not empty");
    if (std::string_view(word) == "allOf" && all->size() > 1) {
      unsupported(below(path, word), "is supported for one schema");
      return json_.any_value();
    }
    return alternatives(*all, below(path, word));
  }
  if (const auto one = schema.find("const"); one != schema.end())
    return constants(schema, Json::array({*one}), below(path, "const"));
  if (const auto some = schema.find("enum"); some != schema.end()) {
    if (!some->is_array() || some->empty()) refuse(below(path, "enum"), "expected an array that is not empty");
    return constants(schema, *some, below(path, "enum"));
  }
  const auto type = schema.find("type");
  const auto has = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* w) { return schema.contains(w); });
  };
  if (type == schema.end()) {
    if (has({"properties", "required", "additionalProperties"})) return object(schema, path);
    if (has({"items", "prefixItems", "minItems", "maxItems"})) return array(schema, path);
    if (has({"minLength", "maxLength"})) return string(schema, path);
    if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) return number(schema, path);
    return json_.any_value();
  }
  if (type->is_string()) return of_type(schema, type->get<std::string>(), path);
  if (!type->is_array() || type->empty()) refuse(below(path, "type"), "expected a string or strings");
  std::vector<Node> nodes;
  for (const Json& t : *type) {
    if (!t.is_string()) refuse(below(path, "type"), "expected a string or strings");
    nodes.push_back(of_type(schema, t.get<std::string>(), path));
  }
  return g_.choice(std::move(nodes));
}

SchemaGrammar::Node SchemaGrammar::of_type(const Json& schema, const std::string& type, const Path& path) {
  if (type == "object") return object(schema, path);
  if (type == "array") return array(schema, path);
  if (type == "string") return string(schema, path);
  if (type == "integer") return integer(schema, path);
  if (type == "number") return number(schema, path);
  if (type == "boolean") return g_.choice({g_.text("true"), g_.text("false")});
  if (type == "null") return g_.text("null");
  refuse(below(path, "type"), "'" + type + "' is not a type of JSON");
}

SchemaGrammar::Node SchemaGrammar::alternatives(const Json& list, const Path& path) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < list.size(); ++i) nodes.push_back(value(list[i], path + "[" + std::to_string(i) + "]"));
  return g_.choice(std::move(nodes));
}

SchemaGrammar::Node SchemaGrammar::constants(const Json& schema, const Json& list, const Path& path) {
  const auto type = schema.find("type");
  const auto fits = [&](const Json& v) {
    if (type == schema.end()) return true;
    if (type->is_string()) return is_type(v, type->get<std::string>());
    return type->is_array() && std::any_of(type->begin(), type->end(), [&](const Json& t) {
             return t.is_string() && is_type(v, t.get<std::string>());
           });
  };
  std::vector<Node> nodes;
  for (const Json& v : list)
    if (fits(v)) nodes.push_back(g_.text(v.dump()));
  if (nodes.empty()) refuse(path, "has no value of the type that is asked for");
  return g_.choice(std::move(nodes));
}

// Properties in the schema's order. Whether a comma comes first depends on what was left out, so there are two nodes
// for the properties from each one on.
SchemaGrammar::Node SchemaGrammar::object(const Json& schema, const Path& path) {
  const auto properties = schema.find("properties");
  if (properties != schema.end() && !properties->is_object()) refuse(below(path, "properties"), "expected an object");
  std::vector<std::string> required;
  if (const auto list = schema.find("required"); list != schema.end()) {
    if (!list->is_array()) refuse(below(path, "required"), "expected an array of strings");
    for (const Json& name : *list) {
      if (!name.is_string()) refuse(below(path, "required"), "expected an array of strings");
      required.push_back(name.get<std::string>());
    }
  }
  const auto more = schema.find("additionalProperties");
  const bool closed = more != schema.end() && more->is_boolean() && !more->get<bool>();
  const bool named = properties != schema.end() && !properties->empty();
  if (!named && required.empty()) {
    if (closed) return g_.sequence({g_.text("{"), json_.space(), g_.text("}")});
    return more == schema.end() ? json_.any_object() : json_.map(value(*more, below(path, "additionalProperties")));
  }
  struct Member {
    Node node;
    bool required;
  };
  std::vector<Member> members;
  const auto add = [&](const std::string& name, Node of, bool must) {
    members.push_back({g_.sequence({g_.text(Json(name).dump() + ":"), json_.space(), of}), must});
  };
  const auto is_required = [&](const std::string& name) {
    return std::find(required.begin(), required.end(), name) != required.end();
  };
  if (named)
    for (const auto& [name, of] : properties->items())
      add(name, value(of, below(below(path, "properties"), name)), is_required(name));
  for (std::size_t i = 0; i < required.size(); ++i) {
    if (named && properties->contains(required[i])) continue;
    if (std::find(required.begin(), required.begin() + static_cast<std::ptrdiff_t>(i), required[i]) !=
        required.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    if (closed) refuse(below(path, "required"), "'" + required[i] + "' is no property, and others are forbidden");
    add(required[i], more == schema.end() ? json_.any_value() : value(*more, below(path, "additionalProperties")),
        true);
  }
  Node first = g_.text(""), rest = first;  // of the members from one on: none was written before, or one was
  for (std::size_t i = members.size(); i-- > 0;) {
    const Member& m = members[i];
    const Node here = g_.sequence({m.node, rest});
    const Node behind = g_.sequence({g_.text(","), json_.space(), m.node, rest});
    first = m.required ? here : g_.choice({here, first});
    rest = m.required ? behind : g_.choice({behind, rest});
  }
  return g_.sequence({g_.text("{"), json_.space(), first, json_.space(), g_.text("}")});
}

SchemaGrammar::Node SchemaGrammar::array(const Json& schema, const Path& path) {
  if (const auto unique = schema.find("uniqueItems"); unique != schema.end() && *unique != Json(false))
    unsupported(below(path, "uniqueItems"), "is not supported");
  const std::int32_t least = count(schema, "minItems", path).value_or(0);
  const std::int32_t most = count(schema, "maxItems", path).value_or(Grammar::kUnlimited);
  if (most != Grammar::kUnlimited && most < least) refuse(below(path, "maxItems"), "is less than minItems");
  const auto items = schema.find("items"), front = schema.find("prefixItems");
  const auto item = [&] { return items == schema.end() ? json_.any_value() : value(*items, below(path, "items")); };
  Node content;
  if (front == schema.end()) {
    content = json_.list(item(), least, most);
  } else {
    if (!front->is_array() || front->empty()) refuse(below(path, "prefixItems"), "expected an array that is not empty");
    std::vector<Node> parts;
    const std::size_t fixed = most == Grammar::kUnlimited
                                  ? front->size()
                                  : std::min<std::size_t>(front->size(), static_cast<std::size_t>(most));
    for (std::size_t i = 0; i < fixed; ++i) {
      if (i > 0) parts.insert(parts.end(), {g_.text(","), json_.space()});
      parts.push_back(value((*front)[i], below(path, "prefixItems") + "[" + std::to_string(i) + "]"));
    }
    const auto have = static_cast<std::int32_t>(fixed);
    const std::int32_t further = most == Grammar::kUnlimited ? most : most - have;
    const std::int32_t must = std::max(least - have, 0);
    if (further != 0 && (items != schema.end() || must > 0))
      parts.push_back(g_.repeat(g_.sequence({g_.text(","), json_.space(), item()}), must, further));
    content = g_.sequence(std::move(parts));
  }
  return g_.sequence({g_.text("["), json_.space(), content, json_.space(), g_.text("]")});
}

SchemaGrammar::Node SchemaGrammar::string(const Json& schema, const Path& path) {
  const std::int32_t least = count(schema, "minLength", path).value_or(0);
  const std::int32_t most = count(schema, "maxLength", path).value_or(Grammar::kUnlimited);
  if (most != Grammar::kUnlimited && most < least) refuse(below(path, "maxLength"), "is less than minLength");
  return json_.string(least, most);
}

SchemaGrammar::Node SchemaGrammar::integer(const Json& schema, const Path& path) {
  std::int64_t low = -kLargest, high = kLargest;
  const auto bound = [&](const char* word, bool is_low, std::int64_t beyond) {
    const auto at = schema.find(word);
    if (at == schema.end()) return;
    if (!at->is_number()) refuse(below(path, word), "expected a number");
    const bool whole = at->is_number_integer();
    std::int64_t n = whole_part(*at);
    if (whole) {
      n += is_low ? beyond : -beyond;
    } else {
      const double x = at->get<double>(), y = static_cast<double>(n);
      if (x == y) n += is_low ? beyond : -beyond;
      if (is_low && y < x) ++n;
      if (!is_low && y > x) --n;
    }
    is_low ? low = std::max(low, n) : high = std::min(high, n);
  };
  bound("minimum", true, 0);
  bound("exclusiveMinimum", true, 1);
  bound("maximum", false, 0);
  bound("exclusiveMaximum", false, 1);
  if (low > high) refuse(path.empty() ? "schema" : path, "allows no integer of at most 18 digits");
  return json_.integer(low, high);
}

SchemaGrammar::Node SchemaGrammar::number(const Json& schema, const Path& path) {
  bool negative = true;
  for (const char* word : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    const auto at = schema.find(word);
    if (at == schema.end()) continue;
    if (std::string_view(word) == "minimum" && at->is_number() && at->get<double>() == 0) {
      negative = false;
      continue;
    }
    unsupported(below(path, word), "is supported for integers alone, and as a minimum of 0");
  }
  return json_.number(negative);
}

namespace {

// Some models' first token of an answer is a word with its space.
std::shared_ptr<const Grammar> whole(std::shared_ptr<Grammar> g, Grammar::Node value) {
  g->finish(g->sequence({g->optional(g->text(" ")), value}));
  return g;
}

}  // namespace

std::shared_ptr<const Grammar> grammar_of_schema(const nlohmann::ordered_json& schema, Unknown unknown) {
  auto grammar = std::make_shared<Grammar>();
  const Grammar::Node value = SchemaGrammar(*grammar, unknown).schema(schema);
  return whole(std::move(grammar), value);
}

std::shared_ptr<const Grammar> grammar_of_objects() {
  auto grammar = std::make_shared<Grammar>();
  const Grammar::Node value = JsonGrammar(*grammar).any_object();
  return whole(std::move(grammar), value);
}

}  // namespace kvasir::text
