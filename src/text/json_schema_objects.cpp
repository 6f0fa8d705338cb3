// What the words of a JSON Schema say of objects.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "text/json_schema.hpp"
#include "text/schema/check.hpp"
#include "text/schema/counts.hpp"

namespace kvasir::text {
namespace {

constexpr std::size_t kMostKeyPatterns = 4;

[[noreturn]] void refuse_schema(const std::string& path, const std::string& why) {
  throw Error(Code::kBadInput, why, path);
}

}  // namespace

// What `name` has to be: false where it may not be there.
bool SchemaGrammar::property(const Items& items, const std::string& name, Items& out) {
  checks_.spend(64 * items.size());
  for (const Item& item : items) {
    if (item.kind == Kind::kAbsent && *item.name == name) return false;
    if (item.kind == Kind::kPropertyNot && *item.name == name)
      out.push_back({.kind = Kind::kNot, .schema = item.schema, .path = item.path});
    const auto add = [&](const Json& schema, Path path) {
      out.push_back({.schema = &schema, .path = std::move(path)});
      return schema != Json(false);
    };
    bool known = false;
    if (const Json* named = word(item, "properties")) {
      checks_.spend(named->size() / 4);
      if (const auto at = named->find(name); at != named->end()) {
        known = true;
        if (!add(*at, below_path(below_path(item.path, "properties"), name))) return false;
      }
    }
    if (const Json* patterns = word(item, "patternProperties"); patterns && patterns->is_object())
      for (const auto& [text, schema] : patterns->items()) {
        const Path path = below_path(below_path(item.path, "patternProperties"), text);
        const Automaton* of = pattern("pattern", text, path);
        checks_.spend(8 * name.size());
        if (!of || !of->matches(name)) continue;
        known = true;
        if (!add(schema, path)) return false;
      }
    if (const Json* more = word(item, "additionalProperties"); more && !known) {
      known = true;
      if (!add(*more, below_path(item.path, "additionalProperties"))) return false;
    }
    if (const Json* more = word(item, "unevaluatedProperties"); more && !known && !evaluates(*item.schema, name, 0))
      if (!add(*more, below_path(item.path, "unevaluatedProperties"))) return false;
    if (const Json* names = word(item, "propertyNames"); names && !checks_.conforms(Json(name), *names)) return false;
  }
  return true;
}

// Whether `schema` or what applies in its place says something about the property.
bool SchemaGrammar::evaluates(const Json& schema, const std::string& name, int depth) {
  checks_.spend(64);
  if (!schema.is_object() || depth > 32) return false;
  checks_.spend(8 * schema.size());
  const auto find = [&](const char* word) -> const Json* {
    const auto at = schema.find(word);
    return at == schema.end() ? nullptr : &*at;
  };
  if (const Json* named = find("properties"); named && named->is_object()) {
    checks_.spend(named->size());
    if (named->contains(name)) return true;
  }
  if (find("additionalProperties")) return true;
  if (const Json* patterns = find("patternProperties"); patterns && patterns->is_object())
    for (const auto& item : patterns->items()) {
      const Checks::Pattern& of = checks_.pattern("pattern", item.key());
      checks_.spend(8 * name.size());
      if (of.error.empty() && of.strings.matches(name)) return true;
    }
  for (const char* word : {"allOf", "anyOf", "oneOf"})
    if (const Json* all = find(word); all && all->is_array())
      for (const Json& s : *all)
        if (evaluates(s, name, depth + 1)) return true;
  for (const char* word : {"if", "then", "else"})
    if (const Json* s = find(word); s && evaluates(*s, name, depth + 1)) return true;
  if (const Json* all = find("dependentSchemas"); all && all->is_object())
    for (const Json& s : *all)
      if (evaluates(s, name, depth + 1)) return true;
  for (const char* word : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const Json* ref = find(word); ref && ref->is_string()) {
      const Json* to = checks_.find(schema, ref->get_ref<const std::string&>());
      if (to && evaluates(*to, name, depth + 1)) return true;
    }
  return false;
}

// Those that are named, in the schema's order.
void SchemaGrammar::name_properties(const Items& items, std::vector<std::string>& names,
                                    std::set<std::string>& required) {
  std::set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const Item& item : items) {
    if (const Json* named = word(item, "properties")) {
      if (!named->is_object()) refuse_schema(below_path(item.path, "properties"), "expected an object");
      for (const auto& p : named->items()) add(p.key());
    }
  }
  for (const Item& item : items) {
    if (item.kind == Kind::kPresent) add(*item.name), required.insert(*item.name);
    const Json* list = word(item, "required");
    if (!list) continue;
    const Path at = below_path(item.path, "required");
    if (list->is_boolean()) {
      unsupported(at, "expected an array of strings");  // draft 3, inside the property
      continue;
    }
    if (!list->is_array()) refuse_schema(at, "expected an array of strings");
    for (const Json& name : *list) {
      if (!name.is_string()) refuse_schema(at, "expected an array of strings");
      add(name.get<std::string>());
      required.insert(name.get<std::string>());
    }
  }
}

SchemaGrammar::Node SchemaGrammar::objects(const Items& items, const Path& path) {
  Counts counts;
  for (const Item& item : items)
    counts.add(word(item, "minProperties"), word(item, "maxProperties"), item.path, "minProperties", "maxProperties");
  std::vector<std::string> names;
  std::set<std::string> required;
  name_properties(items, names, required);
  if (counts.none()) return g_.choice({});
  if (names.empty()) return maps(items, counts.least, counts.most);
  std::vector<Member> all;
  for (const std::string& name : names) {
    Items asked;
    const bool must = required.contains(name);
    if (!property(items, name, asked)) {
      if (!must) continue;
      if (items.size() == 1)
        refuse_schema(below_path(items[0].path, "required"), "'" + name + "' is no property, and others are forbidden");
      return g_.choice({});
    }
    checks_.spend(64 + 4 * name.size());  // it is copied into the grammar
    all.push_back({name, g_.sequence({g_.text(Json(name).dump() + ":"), json_.space(), node(asked)}), must});
  }
  const auto size = static_cast<std::int32_t>(all.size());
  if (counts.least > size) {
    unsupported(below_path(path, "minProperties"), "asks for more properties than are named");
    counts.least = 0;
  }
  return g_.sequence(
      {g_.text("{"), json_.space(), members(all, counts.least, counts.most), json_.space(), g_.text("}")});
}

// A choice of them in their order, with commas. Whether a comma comes first depends on what was left out, so there are
// nodes for the members from each one on, one for every number of those before as far as that matters.
SchemaGrammar::Node SchemaGrammar::members(const std::vector<Member>& all, std::int32_t least, std::int32_t most) {
  const auto size = static_cast<std::int32_t>(all.size());
  const auto must =
      static_cast<std::int32_t>(std::count_if(all.begin(), all.end(), [](const Member& m) { return m.required; }));
  if (most == Grammar::kUnlimited || most > size) most = size;
  if (most < must || most < least) return g_.choice({});
  const bool counted = least > must || most < size;
  if (counted && all.size() > kMostCounted)
    refuse_schema("properties", "more than " + std::to_string(kMostCounted) + " whose number is bounded");
  const std::int32_t states = counted ? most + 1 : 2;  // members before: 0, 1 (or more, where it does not matter) ...
  std::vector<Node> from(static_cast<std::size_t>(states));
  for (std::int32_t n = 0; n < states; ++n)
    from[static_cast<std::size_t>(n)] = counted && n < least ? g_.choice({}) : g_.text("");
  for (std::size_t i = all.size(); i-- > 0;) {
    std::vector<Node> here(from.size());
    for (std::int32_t n = 0; n < states; ++n) {
      const auto k = static_cast<std::size_t>(n);
      const std::int32_t next = counted ? n + 1 : 1;
      std::vector<Node> ways;
      if (next < states) {
        std::vector<Node> parts;
        if (n > 0) parts = {g_.text(","), json_.space()};
        parts.insert(parts.end(), {all[i].node, from[static_cast<std::size_t>(next)]});
        ways.push_back(g_.sequence(std::move(parts)));
      }
      if (!all[i].required) ways.push_back(from[k]);
      here[k] = ways.size() == 1 ? ways[0] : g_.choice(std::move(ways));
    }
    from = std::move(here);
  }
  return from[0];
}

// Objects whose properties have no names in the schema: their keys are sorted by the patterns that they match.
SchemaGrammar::Node SchemaGrammar::maps(const Items& items, std::int32_t least, std::int32_t most) {
  struct KeyPattern {
    const Automaton* keys;
    const Json* schema;
    const Item* item;
    Path path;
  };
  std::vector<KeyPattern> patterns;
  std::optional<Automaton> keys;  // all, without
  const auto only = [&](const Automaton& more) { keys = keys ? checks_.both(*keys, more) : more; };
  if (least > 1) unsupported(below_path(items[0].path, "minProperties"), "names may be written twice");
  for (const Item& item : items) {
    if (item.kind == Kind::kAbsent) only(Automaton::literal(*item.name).complement());
    if (const Json* of = word(item, "patternProperties")) {
      const Path path = below_path(item.path, "patternProperties");
      if (!of->is_object()) refuse_schema(path, "expected an object");
      for (const auto& [text, schema] : of->items())
        if (const Automaton* p = pattern("pattern", text, below_path(path, text)))
          patterns.push_back({p, &schema, &item, below_path(path, text)});
    }
    const Json* names = word(item, "propertyNames");
    if (!names || *names == Json(true)) continue;
    const Path path = below_path(item.path, "propertyNames");
    Items of_names;
    std::vector<Group> groups;
    gather({.schema = names, .path = path}, of_names, groups);
    if (!groups.empty()) unsupported(path, "alternatives are not supported here");
    for (const Item& i : of_names) {
      if (i.schema->is_boolean()) return g_.text("{}");
      for (const char* w : {"pattern", "format"})
        if (const Json* text = word(i, w); text && text->is_string())
          if (const Automaton* of = pattern(w, text->get<std::string>(), below_path(path, w))) only(*of);
      Counts lengths;
      lengths.add(word(i, "minLength"), word(i, "maxLength"), i.path, "minLength", "maxLength");
      if (lengths.any()) only(Automaton::lengths(lengths.least, lengths.most));
      Json listed = word(i, "enum") ? *word(i, "enum") : word(i, "const") ? Json::array({*word(i, "const")}) : Json();
      if (!listed.is_array()) continue;
      Automaton none = Automaton::anything();  // of those that are listed
      for (const Json& v : listed)
        if (v.is_string()) none = checks_.both(none, Automaton::literal(v.get<std::string>()).complement());
      only(none.complement());
    }
  }
  if (patterns.size() > kMostKeyPatterns) {
    unsupported(below_path(items[0].path, "patternProperties"),
                "more than " + std::to_string(kMostKeyPatterns) + " patterns");
    patterns.resize(kMostKeyPatterns);
  }
  std::vector<Node> pairs;
  bool free = patterns.empty() && !keys;
  for (std::size_t matched = 0; matched < std::size_t{1} << patterns.size(); ++matched) {
    Items asked;
    std::optional<Automaton> here = keys;
    std::set<const Item*> known;
    bool possible = true;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const bool yes = matched >> i & 1;
      const Automaton of = yes ? *patterns[i].keys : patterns[i].keys->complement();
      here = here ? checks_.both(*here, of) : of;
      if (!yes) continue;
      known.insert(patterns[i].item);
      asked.push_back({.schema = patterns[i].schema, .path = patterns[i].path});
    }
    for (const Item& item : items) {
      if (known.contains(&item)) continue;
      const char* const name = word(item, "additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
      if (const Json* more = word(item, name)) asked.push_back({.schema = more, .path = below_path(item.path, name)});
    }
    for (const Item& i : asked) possible = possible && *i.schema != Json(false);
    free = free && asked.empty();
    if (!possible || (here && here->empty())) continue;
    pairs.push_back(json_.pair(here ? json_.string(*here) : json_.string(0, Grammar::kUnlimited), node(asked)));
  }
  if (free && least == 0 && most == Grammar::kUnlimited) return json_.any_object();
  if (pairs.empty()) return least > 0 ? g_.choice({}) : g_.sequence({g_.text("{"), json_.space(), g_.text("}")});
  return json_.map(pairs.size() == 1 ? pairs[0] : g_.choice(std::move(pairs)), least, most);
}

}  // namespace kvasir::text
