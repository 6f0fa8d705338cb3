// What holds at the same time: references followed, keywords beside each other joined, alternatives spread out.
#include "text/json_schema.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "text/schema/check.hpp"

namespace kvasir::text {
namespace {

constexpr int kDeepest = 256;      // values within values, references followed
constexpr int kMostLeaves = 1024;  // combinations of alternatives of one value
constexpr std::size_t kMostPath = 1024;

// Words about the value itself. A schema without any of them allows everything.
constexpr std::array kTypeless = {"enum", "const", "format", "multipleOf", "divisibleBy"};
constexpr std::array kOfObjects = {
    "properties",        "required",      "additionalProperties", "unevaluatedProperties",
    "patternProperties", "propertyNames", "minProperties",        "maxProperties"};
constexpr std::array kOfArrays = {"items",    "prefixItems", "additionalItems", "unevaluatedItems",
                                  "minItems", "maxItems",    "contains",        "uniqueItems"};
constexpr std::array kOfStrings = {"minLength", "maxLength", "pattern"};
constexpr std::array kOfNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw Error(Code::kBadInput, why, path); }

std::string below(const std::string& path, std::string_view name) {
  if (path.size() + name.size() > kMostPath) return path.size() > kMostPath ? path : path + "...";
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

template <std::size_t N>
bool has_any(const Json& schema, const std::array<const char*, N>& words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return schema.contains(w); });
}

}  // namespace

SchemaGrammar::SchemaGrammar(Grammar& grammar, Unknown unknown, const Json& root, Warnings* warnings, Work* work)
    : g_(grammar),
      json_(grammar),
      strict_(unknown == Unknown::kRefuse),
      root_(root),
      document_(root),
      work_(work ? *work : own_work_),
      checks_(document_, work_),
      warnings_(warnings) {}

void SchemaGrammar::unsupported(const Path& path, const std::string& why) {
  if (strict_) refuse(path, why);
  if (!warnings_) return;
  std::string text = path + " is not held: " + why;
  if (std::find(warnings_->begin(), warnings_->end(), text) == warnings_->end()) warnings_->push_back(std::move(text));
}

SchemaGrammar::Node SchemaGrammar::value() { return node({{.schema = &root_}}); }

SchemaGrammar::Node SchemaGrammar::object() {
  return node({{.schema = &root_}, {.kind = Kind::kTypes, .types = kObjectBit}});
}

// What is asked for again is made once, so that a schema may contain itself.
SchemaGrammar::Node SchemaGrammar::node(const Items& asked) {
  std::vector<ItemKey> key;
  for (const Item& i : asked) key.emplace_back(i.kind, i.schema, i.name, i.types);
  if (const auto known = nodes_.find(key); known != nodes_.end()) return known->second;
  const Path path = asked.empty() ? Path() : asked[0].path;
  if (depth_ >= kDeepest) refuse(path, "nests deeper than " + std::to_string(kDeepest) + " schemas");
  const Node node = g_.declare();
  nodes_.emplace(std::move(key), node);
  ++depth_;  // not taken back when something is refused: then nothing comes of the grammar
  Items items;
  std::vector<Group> groups;
  for (const Item& i : asked) gather(i, items, groups);
  // Values that are listed are looked at one by one, and exactly.
  const bool listed = std::any_of(items.begin(), items.end(), [&](const Item& i) {
    return i.kind == Kind::kHolds && i.schema->is_object() && (word(i, "const") || word(i, "enum"));
  });
  const int leaves = std::exchange(leaves_, 0);
  g_.define(node, listed ? constants(items) : expand(std::move(items), std::move(groups), path));
  leaves_ = leaves;
  --depth_;
  return node;
}

const Json* SchemaGrammar::word(const Item& item, const char* name) const {
  if (item.kind != Kind::kHolds || !item.schema->is_object()) return nullptr;
  const auto at = item.schema->find(name);
  return at == item.schema->end() ? nullptr : &*at;
}

// Adds the item and whatever holds because of it. Alternatives become groups.
void SchemaGrammar::gather(const Item& item, Items& items, std::vector<Group>& groups) {
  checks_.spend(64 + 4 * items.size() + 4 * static_cast<std::uint64_t>(item.link ? item.link->depth : 0));
  if (item.kind == Kind::kNot) return gather_not(item, items, groups);
  if (item.kind == Kind::kHolds) {
    const Json& schema = *item.schema;
    if (schema.is_boolean() && schema.get<bool>()) return;
    if (!schema.is_boolean() && !schema.is_object())
      refuse(item.path.empty() ? "schema" : item.path, "expected an object or a boolean");
    if (item.link && item.link->depth >= kDeepest)
      refuse(item.path, "nests deeper than " + std::to_string(kDeepest) + " schemas");
    for (const Link* l = item.link.get(); l; l = l->before.get())
      if (l->schema == item.schema)
        refuse(item.path.empty() ? "schema" : item.path, "refers to itself before anything else");
  }
  for (const Item& i : items)
    if (i.kind == item.kind && i.schema == item.schema && i.name == item.name && i.types == item.types) return;
  items.push_back(item);
  if (item.kind == Kind::kHolds && item.schema->is_object()) gather_words(item, items, groups);
}

void SchemaGrammar::gather_words(const Item& item, Items& items, std::vector<Group>& groups) {
  const auto link = std::make_shared<const Link>(Link{item.schema, item.link, item.link ? item.link->depth + 1 : 1});
  for (const char* name : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Json* ref = word(item, name);
    if (!ref) continue;
    const Path path = below(item.path, name);
    if (!ref->is_string()) refuse(path, "expected a string");
    const auto& reference = ref->get_ref<const std::string&>();
    const SchemaDocument::Target& target = document_.find(*item.schema, reference, work_);
    if (!target.schema) refuse(path, "'" + SchemaDocument::shortened(reference) + "' is not in this schema");
    gather({.schema = target.schema, .path = target.path == "#" ? path : target.path, .link = link}, items, groups);
  }
  for (const char* name : {"allOf", "anyOf", "oneOf"}) {
    const Json* all = word(item, name);
    if (!all) continue;
    const Path path = below(item.path, name);
    if (!all->is_array() || all->empty()) refuse(path, "expected an array that is not empty");
    Group group;
    checks_.spend((64 + path.size()) * all->size());  // they take memory
    for (std::size_t i = 0; i < all->size(); ++i) {
      Item one{.schema = &(*all)[i], .path = path + "[" + std::to_string(i) + "]", .link = link};
      if (std::string_view(name) == "allOf") {
        gather(one, items, groups);
      } else {
        group.push_back({std::move(one)});
      }
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  if (const Json* no = word(item, "not"))
    gather({.kind = Kind::kNot, .schema = no, .path = below(item.path, "not"), .link = link}, items, groups);
  gather_branches(item, groups);
  gather_dependencies(item, groups);
}

void SchemaGrammar::gather_branches(const Item& item, std::vector<Group>& groups) {
  const Json *test = word(item, "if"), *then = word(item, "then"), *otherwise = word(item, "else");
  if (!test || (!then && !otherwise)) return;
  const Path path = below(item.path, "if");
  const Item no{.kind = Kind::kNot, .schema = test, .path = path};
  Group opposites;
  if (!test->is_boolean() && !test->is_object()) refuse(path, "expected an object or a boolean");
  if (!opposite(no, opposites)) return;  // say_unheld
  Items yes{{.schema = test, .path = path}}, other{no};
  if (then) yes.push_back({.schema = then, .path = below(item.path, "then")});
  if (otherwise) other.push_back({.schema = otherwise, .path = below(item.path, "else")});
  groups.push_back({std::move(yes), std::move(other)});
}

void SchemaGrammar::gather_dependencies(const Item& item, std::vector<Group>& groups) {
  for (const char* name : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* all = word(item, name);
    if (!all) continue;
    const Path path = below(item.path, name);
    if (!all->is_object()) refuse(path, "expected an object");
    for (const auto& [key, what] : all->items()) {
      const Path at = below(path, key);
      const auto& k = item.schema->at(name).find(key).key();
      Items there{{.kind = Kind::kPresent, .name = &k, .path = at}};
      if (what.is_array()) {
        for (const Json& n : what) {
          if (!n.is_string()) refuse(at, "expected strings");
          there.push_back({.kind = Kind::kPresent, .name = n.get_ptr<const std::string*>(), .path = at});
        }
      } else {
        there.push_back({.schema = &what, .path = at});
      }
      groups.push_back({{{.kind = Kind::kAbsent, .name = &k, .path = at}}, std::move(there)});
    }
  }
}

void SchemaGrammar::gather_not(const Item& item, Items& items, std::vector<Group>& groups) {
  const Json& schema = *item.schema;
  if (schema.is_boolean() && !schema.get<bool>()) return;
  if (!schema.is_boolean() && !schema.is_object()) refuse(item.path, "expected an object or a boolean");
  for (const Item& i : items)
    if (i.kind == Kind::kNot && i.schema == item.schema) return;
  items.push_back(item);  // for values that are listed, and patterns
  Group group;
  if (opposite(item, group)) groups.push_back(std::move(group));  // otherwise: say_unheld
}

// What of the item is not held by a grammar of values that are not listed.
void SchemaGrammar::say_unheld(const Item& item) {
  if (item.schema && !said_.emplace(item.kind, item.schema).second) return;
  constexpr const char* kNoOpposite = "its opposite cannot be said";
  Group group;
  if (item.kind == Kind::kNot && !opposite(item, group)) unsupported(item.path, kNoOpposite);
  const Json* test = word(item, "if");
  if (test && (word(item, "then") || word(item, "else")) && !opposite({.kind = Kind::kNot, .schema = test}, group))
    unsupported(below(item.path, "if"), kNoOpposite);
  const Json* one = word(item, "oneOf");
  if (!one || !one->is_array()) return;
  for (std::size_t i = 0; i < one->size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!exclusive((*one)[j], (*one)[i]))
        return unsupported(below(item.path, "oneOf"),
                           "two of its alternatives may hold at the same time, it is read as anyOf");
}

// The alternatives in which `item`, a kNot, holds. False: they cannot be said.
bool SchemaGrammar::opposite(const Item& item, Group& group) {
  const Json& schema = *item.schema;
  checks_.spend(64 * (1 + schema.size()));
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) group.push_back({});
    return true;  // of `true` no alternative is left
  }
  constexpr std::array kSilent = {"title", "description", "$comment", "default", "examples", "deprecated", "format"};
  for (const auto& [name, what] : schema.items()) {
    const Path path = below(item.path, name);
    const auto add_not = [&](const Json& s) {
      group.push_back({{.kind = Kind::kNot, .schema = &s, .path = path, .link = item.link}});
    };
    if (name == "type") {
      unsigned types = 0;
      try {
        types = kAllBits & ~types_of(what);
      } catch (const Error&) {
        return false;
      }
      group.push_back({{.kind = Kind::kTypes, .types = types, .path = path}});
    } else if (name == "required") {
      if (!what.is_array()) return false;
      checks_.spend(64 * what.size());
      for (const Json& n : what) {
        if (!n.is_string()) return false;
        group.push_back({{.kind = Kind::kTypes, .types = kObjectBit, .path = path},
                         {.kind = Kind::kAbsent, .name = n.get_ptr<const std::string*>(), .path = path}});
      }
    } else if (name == "properties") {
      if (!what.is_object()) return false;
      for (auto p = what.begin(); p != what.end(); ++p) {
        const Item there{.kind = Kind::kPresent, .name = &p.key(), .path = path};
        const Item no{.kind = Kind::kPropertyNot, .schema = &p.value(), .name = &p.key(), .path = below(path, p.key())};
        Group inside;
        if (!opposite({.kind = Kind::kNot, .schema = &p.value(), .path = no.path}, inside)) return false;
        group.push_back({{.kind = Kind::kTypes, .types = kObjectBit, .path = path}, there, no});
      }
    } else if (name == "pattern") {
      group.push_back({{.kind = Kind::kTypes, .types = kStringBit, .path = path}});  // strings() asks the item itself
    } else if (name == "const" || name == "enum") {
      if (name == "enum" && !what.is_array()) return false;
      const auto plain = [](const Json& v) { return v.is_string() || v.is_boolean() || v.is_null(); };
      checks_.spend(what.size());
      if (name == "enum" ? !std::all_of(what.begin(), what.end(), plain) : !plain(what)) return false;
      group.push_back({});  // leaf() and strings() ask the item itself
    } else if (name == "anyOf") {
      Items all;
      checks_.spend(64 * what.size());
      for (const Json& s : what) all.push_back({.kind = Kind::kNot, .schema = &s, .path = path, .link = item.link});
      group.push_back(std::move(all));
    } else if (name == "allOf") {
      checks_.spend(64 * what.size());
      for (const Json& s : what) add_not(s);
    } else if (name == "not") {
      group.push_back({{.schema = &what, .path = path, .link = item.link}});
    } else if (std::find(kSilent.begin(), kSilent.end(), name) == kSilent.end()) {
      return false;
    }
  }
  return true;
}

// Whether no value is of both, as far as that is plain to see.
bool SchemaGrammar::exclusive(const Json& a, const Json& b, int depth) {
  if (depth > 8) return false;
  checks_.spend(64 + 4 * (a.is_object() ? a.size() : 0) + 4 * (b.is_object() ? b.size() : 0));
  if (a == Json(false) || b == Json(false)) return true;
  if (!a.is_object() || !b.is_object()) return false;
  const auto follow = [&](const Json& s) -> const Json& {
    const auto ref = s.find("$ref");
    if (ref == s.end() || !ref->is_string()) return s;
    const Json* to = checks_.find(s, ref->get_ref<const std::string&>());
    return to ? *to : s;
  };
  const Json &x = follow(a), &y = follow(b);
  if (&x != &a || &y != &b) return exclusive(x, y, depth + 1);
  // Whether `p` lists its values, and none is of `q`.
  const auto none_of = [&](const Json& p, const Json& q) {
    if (const auto one = p.find("const"); one != p.end()) return !checks_.conforms(*one, q);
    const auto some = p.find("enum");
    return some != p.end() && some->is_array() && !some->empty() &&
           std::none_of(some->begin(), some->end(), [&](const Json& v) { return checks_.conforms(v, q); });
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
    return list != s.end() && list->is_array() && checks_.lists(*list, name);
  };
  const auto tells = [&](const Json& p, const Json& q) {
    const auto list = p.find("required");
    if (list == p.end() || !list->is_array()) return false;
    for (const Json& n : *list) {
      if (!n.is_string()) continue;
      const auto& name = n.get_ref<const std::string&>();
      const auto props = q.find("properties");
      checks_.spend(64 + 4 * (props != q.end() ? props->size() : 0) + 4 * q.size());
      const bool named = props != q.end() && props->is_object() && props->contains(name);
      // The other one forbids it, or gives it other values.
      if (!named && q.contains("additionalProperties") && q["additionalProperties"] == Json(false)) return true;
      if (named && p.contains("properties") && p["properties"].contains(name) && requires_it(q, name) &&
          exclusive(p["properties"][name], (*props)[name], depth + 1))
        return true;
    }
    return false;
  };
  return tells(x, y) || tells(y, x);
}

// One grammar per way through the groups.
SchemaGrammar::Node SchemaGrammar::expand(Items items, std::vector<Group> groups, const Path& path) {
  if (groups.empty()) {
    ++leaves_;
    return leaf(items, path);
  }
  if (std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.empty(); })) return g_.choice({});
  const Group group = std::move(groups.back());
  groups.pop_back();
  std::vector<Node> nodes;
  std::uint64_t copied = items.size();
  for (const Group& g : groups)
    for (const Items& alternative : g) copied += 1 + alternative.size();
  for (const Items& alternative : group) {
    if (leaves_ >= kMostLeaves) {  // what is beyond is left out: a part of what the schema allows
      unsupported(path.empty() ? "schema" : path,
                  "more than " + std::to_string(kMostLeaves) + " combinations of its alternatives");
      break;
    }
    checks_.spend(16 * copied);
    Items with = items;
    std::vector<Group> more = groups;
    for (const Item& i : alternative) gather(i, with, more);
    nodes.push_back(expand(std::move(with), std::move(more), path));
  }
  return nodes.size() == 1 ? nodes[0] : g_.choice(std::move(nodes));
}

bool SchemaGrammar::fits(const Json& value, const Item& item) {
  checks_.spend(8 + (item.name && value.is_object() ? value.size() : 0));
  switch (item.kind) {
    case Kind::kHolds:
      return checks_.conforms(value, *item.schema);
    case Kind::kNot:
      return !checks_.conforms(value, *item.schema);
    case Kind::kTypes:
      return (type_of(value) & item.types) != 0;
    case Kind::kPresent:
      return !value.is_object() || value.contains(*item.name);
    case Kind::kAbsent:
      return !value.is_object() || !value.contains(*item.name);
    case Kind::kPropertyNot:
      return !value.is_object() || !value.contains(*item.name) || !checks_.conforms(value.at(*item.name), *item.schema);
  }
  return true;
}

// The values of the first list that all the others allow.
std::vector<std::string> SchemaGrammar::constant_texts(const Items& items) {
  std::vector<std::string> texts;
  for (const Item& item : items) {
    const Json *one = word(item, "const"), *some = word(item, "enum");
    if (!one && !some) continue;
    if (!one && (!some->is_array() || some->empty()))
      refuse(below(item.path, "enum"), "expected an array that is not empty");
    types_of_items(items);  // refuses what is no type
    const auto add = [&](const Json& v) {
      if (!std::all_of(items.begin(), items.end(), [&](const Item& i) { return fits(v, i); })) return;
      texts.push_back(v.dump());
      checks_.spend(64 + 4 * texts.back().size());
    };
    if (one) {
      add(*one);
    } else {
      for (const Json& v : *some) add(v);
    }
    if (texts.empty() && items.size() == 1)
      refuse(below(item.path, one ? "const" : "enum"), "has no value of the type that is asked for");
    break;
  }
  return texts;
}

SchemaGrammar::Node SchemaGrammar::constants(const Items& items) {
  std::vector<Node> nodes;
  for (std::string& text : constant_texts(items)) nodes.push_back(g_.text(std::move(text)));
  return nodes.size() == 1 ? nodes[0] : g_.choice(std::move(nodes));
}

unsigned SchemaGrammar::types_of_items(const Items& items) const {
  unsigned types = kAllBits;
  bool said = false;
  unsigned hinted = 0;
  for (const Item& item : items) {
    if (item.kind == Kind::kTypes) {
      types &= item.types;
      said = true;
    }
    if (item.kind == Kind::kPresent || item.kind == Kind::kPropertyNot) hinted |= kObjectBit;
    if (item.kind != Kind::kHolds) continue;
    if (const Json* type = word(item, "type")) {
      try {
        types &= types_of(*type);
        said = true;
      } catch (const Error& e) {
        refuse(below(item.path, "type"), e.message());
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

// REQUIRES: no alternatives are left.
SchemaGrammar::Node SchemaGrammar::leaf(const Items& items, const Path& path) {
  bool listed = false, free = true;
  checks_.spend(256 * (1 + items.size()));
  for (const Item& item : items) {
    if (item.kind == Kind::kHolds && item.schema->is_boolean()) return g_.choice({});
    listed = listed || word(item, "const") || word(item, "enum");
    free = free && item.kind == Kind::kHolds && !item.schema->contains("type") && !has_any(*item.schema, kTypeless) &&
           !has_any(*item.schema, kOfObjects) && !has_any(*item.schema, kOfArrays) &&
           !has_any(*item.schema, kOfStrings) && !has_any(*item.schema, kOfNumbers);
  }
  if (listed) return constants(items);
  for (const Item& item : items) say_unheld(item);
  if (free) return json_.any_value();
  const unsigned types = types_of_items(items);
  std::vector<Node> nodes;
  if (types & kObjectBit) nodes.push_back(objects(items, path));
  if (types & kArrayBit) nodes.push_back(arrays(items, path));
  if (types & kStringBit) nodes.push_back(strings(items, path));
  if (types & (kIntegerBit | kFractionBit)) nodes.push_back(numbers(items, types, path));
  const auto forbidden = [&](const Json& v) {
    return std::any_of(items.begin(), items.end(), [&](const Item& i) { return i.kind == Kind::kNot && !fits(v, i); });
  };
  for (const Json& v : {Json(true), Json(false), Json()})
    if ((types & type_of(v)) && !forbidden(v)) nodes.push_back(g_.text(v.dump()));
  return nodes.size() == 1 ? nodes[0] : g_.choice(std::move(nodes));
}

namespace {

// Some models' first token of an answer is a word with its space.
std::shared_ptr<const Grammar> whole(std::shared_ptr<Grammar> g, Grammar::Node value) {
  g->finish(g->sequence({g->optional(g->text(" ")), value}));
  return g;
}

}  // namespace

Grammar::Node add_schema(Grammar& grammar, const Json& schema, Unknown unknown, Warnings* warnings) {
  return SchemaGrammar(grammar, unknown, schema, warnings).value();
}

Grammar::Node add_objects(Grammar& grammar) { return JsonGrammar(grammar).any_object(); }

std::shared_ptr<const Grammar> grammar_of_schema(const Json& schema, Unknown unknown, Warnings* warnings) {
  auto grammar = std::make_shared<Grammar>();
  const Grammar::Node value = add_schema(*grammar, schema, unknown, warnings);
  return whole(std::move(grammar), value);
}

std::shared_ptr<const Grammar> grammar_of_objects() {
  auto grammar = std::make_shared<Grammar>();
  const Grammar::Node value = add_objects(*grammar);
  return whole(std::move(grammar), value);
}

}  // namespace kvasir::text
