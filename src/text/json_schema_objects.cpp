// What the words of a JSON Schema say of objects.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "text/json_schema.hpp"
#include "text/schema/asked.hpp"
#include "text/schema/counts.hpp"

namespace kvasir::text {
namespace {

constexpr std::size_t kMostKeyPatterns = 4;

}  // namespace

// What `name` has to be: false where it may not be there.
bool SchemaGrammar::property(const AskedAll& items, const std::string& name, AskedAll& out) {
  checks_.spend(64 * items.size());
  for (const Asked& item : items) {
    if (item.kind == Asked::Kind::kAbsent && *item.name == name) return false;
    if (item.kind == Asked::Kind::kPropertyNot && *item.name == name)
      out.push_back({.kind = Asked::Kind::kNot, .schema = item.schema, .path = item.path});
    const auto add = [&](const Json& schema, Path path) {
      out.push_back({.schema = &schema, .path = std::move(path)});
      return schema != Json(false);
    };
    bool known = false;
    if (const Json* named = item.word("properties")) {
      checks_.spend(named->size() / 4);
      if (const auto at = named->find(name); at != named->end()) {
        known = true;
        if (!add(*at, below_path(below_path(item.path, "properties"), name))) return false;
      }
    }
    if (const Json* patterns = item.word("patternProperties"); patterns && patterns->is_object())
      for (const auto& [text, schema] : patterns->items()) {
        const Path path = below_path(below_path(item.path, "patternProperties"), text);
        const Automaton* of = pattern("pattern", text, path);
        checks_.spend(8 * name.size());
        if (!of || !of->matches(name)) continue;
        known = true;
        if (!add(schema, path)) return false;
      }
    if (const Json* more = item.word("additionalProperties"); more && !known) {
      known = true;
      if (!add(*more, below_path(item.path, "additionalProperties"))) return false;
    }
    if (const Json* more = item.word("unevaluatedProperties");
        more && !known && !evaluates(*item.schema, name, checks_))
      if (!add(*more, below_path(item.path, "unevaluatedProperties"))) return false;
    if (const Json* names = item.word("propertyNames"); names && !checks_.conforms(Json(name), *names)) return false;
  }
  return true;
}

// Those that are named, in the schema's order.
void SchemaGrammar::name_properties(const AskedAll& items, std::vector<std::string>& names,
                                    std::set<std::string>& required) {
  std::set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const Asked& item : items) {
    if (const Json* named = item.word("properties")) {
      if (!named->is_object()) refuse_schema(below_path(item.path, "properties"), "expected an object");
      for (const auto& p : named->items()) add(p.key());
    }
  }
  for (const Asked& item : items) {
    if (item.kind == Asked::Kind::kPresent) add(*item.name), required.insert(*item.name);
    const Json* list = item.word("required");
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

SchemaGrammar::Node SchemaGrammar::objects(const AskedAll& items, const Path& path) {
  Counts counts;
  for (const Asked& item : items)
    counts.add(item.word("minProperties"), item.word("maxProperties"), item.path, "minProperties", "maxProperties");
  std::vector<std::string> names;
  std::set<std::string> required;
  name_properties(items, names, required);
  if (counts.none()) return g_.choice({});
  if (names.empty()) return maps(items, counts.least, counts.most);
  std::vector<Member> all;
  for (const std::string& name : names) {
    AskedAll asked;
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
SchemaGrammar::Node SchemaGrammar::maps(const AskedAll& items, std::int32_t least, std::int32_t most) {
  struct KeyPattern {
    const Automaton* keys;
    const Json* schema;
    const Asked* item;
    Path path;
  };
  std::vector<KeyPattern> patterns;
  std::optional<Automaton> keys;  // all, without
  const auto only = [&](const Automaton& more) { keys = keys ? checks_.both(*keys, more) : more; };
  if (least > 1) unsupported(below_path(items[0].path, "minProperties"), "names may be written twice");
  for (const Asked& item : items) {
    if (item.kind == Asked::Kind::kAbsent) only(Automaton::literal(*item.name).complement());
    if (const Json* of = item.word("patternProperties")) {
      const Path path = below_path(item.path, "patternProperties");
      if (!of->is_object()) refuse_schema(path, "expected an object");
      for (const auto& [text, schema] : of->items())
        if (const Automaton* p = pattern("pattern", text, below_path(path, text)))
          patterns.push_back({p, &schema, &item, below_path(path, text)});
    }
    const Json* names = item.word("propertyNames");
    if (!names || *names == Json(true)) continue;
    const Path path = below_path(item.path, "propertyNames");
    AskedAll of_names;
    std::vector<Alternatives> groups;
    gatherer_.gather({.schema = names, .path = path}, of_names, groups);
    if (!groups.empty()) unsupported(path, "alternatives are not supported here");
    for (const Asked& i : of_names) {
      if (i.schema->is_boolean()) return g_.text("{}");
      for (const char* w : {"pattern", "format"})
        if (const Json* text = i.word(w); text && text->is_string())
          if (const Automaton* of = pattern(w, text->get<std::string>(), below_path(path, w))) only(*of);
      Counts lengths;
      lengths.add(i.word("minLength"), i.word("maxLength"), i.path, "minLength", "maxLength");
      if (lengths.any()) only(Automaton::lengths(lengths.least, lengths.most));
      Json listed = i.word("enum") ? *i.word("enum") : i.word("const") ? Json::array({*i.word("const")}) : Json();
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
    AskedAll asked;
    std::optional<Automaton> here = keys;
    std::set<const Asked*> known;
    bool possible = true;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const bool yes = matched >> i & 1;
      const Automaton of = yes ? *patterns[i].keys : patterns[i].keys->complement();
      here = here ? checks_.both(*here, of) : of;
      if (!yes) continue;
      known.insert(patterns[i].item);
      asked.push_back({.schema = patterns[i].schema, .path = patterns[i].path});
    }
    for (const Asked& item : items) {
      if (known.contains(&item)) continue;
      const char* const name = item.word("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
      if (const Json* more = item.word(name)) asked.push_back({.schema = more, .path = below_path(item.path, name)});
    }
    for (const Asked& i : asked) possible = possible && *i.schema != Json(false);
    free = free && asked.empty();
    if (!possible || (here && here->empty())) continue;
    pairs.push_back(json_.pair(here ? json_.string(*here) : json_.string(0, Grammar::kUnlimited), node(asked)));
  }
  if (free && least == 0 && most == Grammar::kUnlimited) return json_.any_object();
  if (pairs.empty()) return least > 0 ? g_.choice({}) : g_.sequence({g_.text("{"), json_.space(), g_.text("}")});
  return json_.map(pairs.size() == 1 ? pairs[0] : g_.choice(std::move(pairs)), least, most);
}

}  // namespace kvasir::text
