// What the words of a JSON Schema say of objects, arrays, strings and numbers.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "text/json_schema.hpp"
#include "text/schema/check.hpp"
#include "text/schema/formats.hpp"
#include "text/schema/numbers.hpp"
#include "text/schema/pattern.hpp"

namespace kvasir::text {
namespace {

constexpr std::int64_t kMostCount = 1'000'000;  // of items, characters and properties
constexpr std::size_t kMostCounted = 64;        // properties and values whose number is bounded
constexpr std::size_t kMostKeyPatterns = 4;
constexpr std::size_t kMostPath = 1024;

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw Error(Code::kBadInput, why, path); }

std::string below(const std::string& path, std::string_view name) {
  if (path.size() + name.size() > kMostPath) return path.size() > kMostPath ? path : path + "...";
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

std::string shown(const std::string& path) { return path.empty() ? "schema" : path; }

std::optional<std::int32_t> count(const Json& value, const std::string& path) {
  const bool whole = value.is_number() && value.get<double>() >= 0 &&
                     value.get<double>() <= static_cast<double>(kMostCount) &&
                     value.get<double>() == static_cast<double>(value.get<std::int64_t>());
  if (!whole) refuse(path, "expected an integer from 0 to " + std::to_string(kMostCount));
  return value.get<std::int32_t>();
}

// The strictest of what several schemas say of a number of things.
struct Counts {
  std::int32_t least = 0, most = Grammar::kUnlimited;
  std::string most_path;

  bool none() const { return most != Grammar::kUnlimited && most < least; }
  bool any() const { return least > 0 || most != Grammar::kUnlimited; }
  void at_most(std::int32_t n) {
    if (most == Grammar::kUnlimited || n < most) most = n;
  }
  void add(const Json* low, const Json* high, const std::string& path, const char* low_name, const char* high_name) {
    std::optional<std::int32_t> own_low, own_high;
    if (low) own_low = count(*low, below(path, low_name));
    if (high) own_high = count(*high, below(path, high_name));
    if (own_low && own_high && *own_high < *own_low)
      refuse(below(path, high_name), std::string("is less than ") + low_name);
    if (own_low) least = std::max(least, *own_low);
    if (own_high) at_most(*own_high);
  }
};

}  // namespace

const Automaton* SchemaGrammar::pattern(const std::string& word, const std::string& text, const Path& path) {
  const Checks::Pattern& of = checks_.pattern(word, text);
  if (of.error.empty()) return &of.strings;
  unsupported(path, of.error);
  return nullptr;
}

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
        if (!add(*at, below(below(item.path, "properties"), name))) return false;
      }
    }
    if (const Json* patterns = word(item, "patternProperties"); patterns && patterns->is_object())
      for (const auto& [text, schema] : patterns->items()) {
        const Path path = below(below(item.path, "patternProperties"), text);
        const Automaton* of = pattern("pattern", text, path);
        checks_.spend(8 * name.size());
        if (!of || !of->matches(name)) continue;
        known = true;
        if (!add(schema, path)) return false;
      }
    if (const Json* more = word(item, "additionalProperties"); more && !known) {
      known = true;
      if (!add(*more, below(item.path, "additionalProperties"))) return false;
    }
    if (const Json* more = word(item, "unevaluatedProperties"); more && !known && !evaluates(*item.schema, name, 0))
      if (!add(*more, below(item.path, "unevaluatedProperties"))) return false;
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
      if (!named->is_object()) refuse(below(item.path, "properties"), "expected an object");
      for (const auto& p : named->items()) add(p.key());
    }
  }
  for (const Item& item : items) {
    if (item.kind == Kind::kPresent) add(*item.name), required.insert(*item.name);
    const Json* list = word(item, "required");
    if (!list) continue;
    const Path at = below(item.path, "required");
    if (list->is_boolean()) {
      unsupported(at, "expected an array of strings");  // draft 3, inside the property
      continue;
    }
    if (!list->is_array()) refuse(at, "expected an array of strings");
    for (const Json& name : *list) {
      if (!name.is_string()) refuse(at, "expected an array of strings");
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
        refuse(below(items[0].path, "required"), "'" + name + "' is no property, and others are forbidden");
      return g_.choice({});
    }
    checks_.spend(64 + 4 * name.size());  // it is copied into the grammar
    all.push_back({name, g_.sequence({g_.text(Json(name).dump() + ":"), json_.space(), node(asked)}), must});
  }
  const auto size = static_cast<std::int32_t>(all.size());
  if (counts.least > size) {
    unsupported(below(path, "minProperties"), "asks for more properties than are named");
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
    refuse("properties", "more than " + std::to_string(kMostCounted) + " whose number is bounded");
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
  if (least > 1) unsupported(below(items[0].path, "minProperties"), "names may be written twice");
  for (const Item& item : items) {
    if (item.kind == Kind::kAbsent) only(Automaton::literal(*item.name).complement());
    if (const Json* of = word(item, "patternProperties")) {
      const Path path = below(item.path, "patternProperties");
      if (!of->is_object()) refuse(path, "expected an object");
      for (const auto& [text, schema] : of->items())
        if (const Automaton* p = pattern("pattern", text, below(path, text)))
          patterns.push_back({p, &schema, &item, below(path, text)});
    }
    const Json* names = word(item, "propertyNames");
    if (!names || *names == Json(true)) continue;
    const Path path = below(item.path, "propertyNames");
    Items of_names;
    std::vector<Group> groups;
    gather({.schema = names, .path = path}, of_names, groups);
    if (!groups.empty()) unsupported(path, "alternatives are not supported here");
    for (const Item& i : of_names) {
      if (i.schema->is_boolean()) return g_.text("{}");
      for (const char* w : {"pattern", "format"})
        if (const Json* text = word(i, w); text && text->is_string())
          if (const Automaton* of = pattern(w, text->get<std::string>(), below(path, w))) only(*of);
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
    unsupported(below(items[0].path, "patternProperties"),
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
      if (const Json* more = word(item, name)) asked.push_back({.schema = more, .path = below(item.path, name)});
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

SchemaGrammar::Node SchemaGrammar::arrays(const Items& items, const Path& path) {
  struct Said {  // by one schema
    const Json* front = nullptr;
    const Json* rest = nullptr;
    const char* front_name = "prefixItems";
    const char* rest_name = "items";
    const Item* item = nullptr;
  };
  std::vector<Said> said;
  Counts counts;
  std::size_t fixed = 0;
  bool has_rest = false, unique = false;
  std::vector<const Item*> contains;  // for each of the first places, what it has to be
  std::vector<const Item*> limited;   // what the other places must not be
  for (const Item& item : items) {
    counts.add(word(item, "minItems"), word(item, "maxItems"), item.path, "minItems", "maxItems");
    Said s{.front = word(item, "prefixItems"), .rest = word(item, "items"), .item = &item};
    if (s.rest && s.rest->is_array()) {  // as the drafts before 2020-12 have it
      s.front = s.rest;
      s.front_name = "items";
      s.rest = word(item, "additionalItems");
      s.rest_name = "additionalItems";
      if (s.front->empty()) s.front = nullptr;
    } else if (s.front && (!s.front->is_array() || s.front->empty())) {
      refuse(below(item.path, "prefixItems"), "expected an array that is not empty");
    }
    if (!s.rest) {
      s.rest = word(item, "unevaluatedItems");
      s.rest_name = "unevaluatedItems";
    }
    if (s.front) fixed = std::max(fixed, s.front->size());
    has_rest = has_rest || s.rest;
    said.push_back(s);
    if (const Json* u = word(item, "uniqueItems")) unique = unique || *u != Json(false);
    if (!word(item, "contains")) continue;
    const Json *low = word(item, "minContains"), *high = word(item, "maxContains");
    const std::int32_t need = low ? *count(*low, below(item.path, "minContains")) : 1;
    if (need > static_cast<std::int32_t>(kMostCounted)) refuse(below(item.path, "minContains"), "is more than 64");
    contains.insert(contains.end(), static_cast<std::size_t>(need), &item);
    if (high && *count(*high, below(item.path, "maxContains")) < need) return g_.choice({});
    if (high) limited.push_back(&item);
  }
  // What item `i` has to be; false: there can be none.
  const auto at = [&](std::size_t i, Items& out) {
    for (const Said& s : said) {
      const bool in_front = s.front && i < s.front->size();
      const Json* schema = in_front ? &(*s.front)[i] : s.rest;
      if (!schema) continue;
      if (*schema == Json(false)) return false;
      const Path where = below(s.item->path, in_front ? s.front_name : s.rest_name);
      out.push_back({.schema = schema, .path = in_front ? where + "[" + std::to_string(i) + "]" : where});
    }
    const Item* own = i < contains.size() ? contains[i] : nullptr;
    if (own) out.push_back({.schema = word(*own, "contains"), .path = below(own->path, "contains")});
    for (const Item* no : limited)
      if (no != own)
        out.push_back({.kind = Kind::kNot, .schema = word(*no, "contains"), .path = below(no->path, "contains")});
    return true;
  };
  counts.least = std::max(counts.least, static_cast<std::int32_t>(contains.size()));
  const std::size_t front = std::max(fixed, contains.size());
  Items rest;
  if (!at(front, rest)) counts.at_most(static_cast<std::int32_t>(front));
  for (std::size_t i = 0; i < front; ++i)
    if (Items ignored; !at(i, ignored)) counts.at_most(static_cast<std::int32_t>(i));
  if (counts.none()) return g_.choice({});
  const auto whole = [&](Node content) {
    return g_.sequence({g_.text("["), json_.space(), content, json_.space(), g_.text("]")});
  };
  if (unique && counts.most != 0 && counts.most != 1) {
    // Values that are listed are written in the order of the list: then none comes twice.
    Items gathered;
    std::vector<Group> groups;
    for (const Item& i : rest) gather(i, gathered, groups);
    const bool listed = front == 0 && std::any_of(gathered.begin(), gathered.end(),
                                                  [&](const Item& i) { return word(i, "const") || word(i, "enum"); });
    std::vector<Member> values;
    if (listed)
      for (const std::string& text : constant_texts(gathered)) values.push_back({text, g_.text(text), false});
    if (listed && values.size() <= kMostCounted) return whole(members(values, counts.least, counts.most));
    unsupported(below(path, "uniqueItems"), "items may be equal");
  }
  if (front == 0) return whole(counts.most == 0 ? g_.text("") : json_.list(node(rest), counts.least, counts.most));
  std::vector<Node> parts;
  const std::size_t n =
      counts.most == Grammar::kUnlimited ? front : std::min<std::size_t>(front, static_cast<std::size_t>(counts.most));
  for (std::size_t i = 0; i < n; ++i) {
    Items here;
    at(i, here);
    if (i > 0) parts.insert(parts.end(), {g_.text(","), json_.space()});
    parts.push_back(node(here));
  }
  const auto have = static_cast<std::int32_t>(n);
  const std::int32_t further = counts.most == Grammar::kUnlimited ? counts.most : counts.most - have;
  const std::int32_t must = std::max(counts.least - have, 0);
  if (further != 0 && (has_rest || fixed == 0 || must > 0))
    parts.push_back(g_.repeat(g_.sequence({g_.text(","), json_.space(), node(rest)}), must, further));
  return whole(g_.sequence(std::move(parts)));
}

// What patterns, formats and exceptions say of strings together; nothing where they say nothing.
std::optional<Automaton> SchemaGrammar::string_rules(const Items& items, const Path& path, std::int32_t& least,
                                                     std::int32_t& most) {
  Counts lengths;
  std::optional<Automaton> all;
  const auto only = [&](const Automaton& more, const Path& where) {
    try {
      all = all ? checks_.both(*all, more) : more;
    } catch (const Error&) {
      unsupported(where, "needs too many states beside the others");
    }
  };
  for (const Item& item : items) {
    lengths.add(word(item, "minLength"), word(item, "maxLength"), item.path, "minLength", "maxLength");
    for (const char* name : {"pattern", "format"}) {
      const Json* text = word(item, name);
      if (!text) continue;
      const Path where = below(item.path, name);
      if (!text->is_string()) refuse(where, "expected a string");
      if (std::string_view(name) == "format" && pattern_of_format(text->get_ref<const std::string&>()).empty())
        continue;
      if (const Automaton* of = pattern(name, text->get<std::string>(), where)) only(*of, where);
    }
    if (item.kind != Kind::kNot || !item.schema->is_object()) continue;
    const auto find = [&](const char* name) -> const Json* {
      const auto at = item.schema->find(name);
      return at == item.schema->end() ? nullptr : &*at;
    };
    if (const Json* text = find("pattern"); text && text->is_string())
      if (const Automaton* of = pattern("pattern", text->get<std::string>(), item.path))
        only(of->complement(), item.path);
    const auto not_this = [&](const Json& v) {
      if (v.is_string()) only(Automaton::literal(v.get<std::string>()).complement(), item.path);
    };
    if (const Json* one = find("const")) not_this(*one);
    if (const Json* some = find("enum"); some && some->is_array())
      for (const Json& v : *some) not_this(v);
  }
  least = lengths.least;
  most = lengths.most;
  if (lengths.none()) return Automaton();
  if (all && lengths.any()) {
    try {
      all = checks_.both(*all, Automaton::lengths(lengths.least, lengths.most));
    } catch (const Error&) {
      unsupported(below(path, "maxLength"), "needs too many states beside a pattern");
    }
  }
  return all;
}

SchemaGrammar::Node SchemaGrammar::strings(const Items& items, const Path& path) {
  std::int32_t least = 0, most = 0;
  const std::optional<Automaton> rules = string_rules(items, path, least, most);
  return rules ? json_.string(*rules) : json_.string(least, most);
}

std::vector<SchemaProperty> SchemaGrammar::properties(std::string_view end) {
  Items items;
  std::vector<Group> groups;
  gather({.schema = &root_}, items, groups);
  if (!groups.empty()) unsupported("parameters", "alternatives are not supported in this form of calls");
  std::vector<std::string> names;
  std::set<std::string> required;
  name_properties(items, names, required);
  std::vector<SchemaProperty> all;
  for (const std::string& name : names) {
    Items asked;
    if (!property(items, name, asked)) continue;
    SchemaProperty p{.name = name, .required = required.contains(name), .json = node(asked)};
    Items gathered;
    std::vector<Group> ways;
    for (const Item& i : asked) gather(i, gathered, ways);
    const bool listed = std::any_of(gathered.begin(), gathered.end(),
                                    [&](const Item& i) { return word(i, "const") || word(i, "enum"); });
    if (ways.empty() && listed) {
      std::vector<Node> texts;
      for (const std::string& text : constant_texts(gathered))
        if (const Json v = Json::parse(text); v.is_string()) texts.push_back(g_.text(v.get<std::string>()));
      if (!texts.empty()) p.text = g_.choice(std::move(texts));
    } else if (ways.empty() && types_of_items(gathered) == kStringBit) {
      std::int32_t least = 0, most = 0;
      std::optional<Automaton> rules = string_rules(gathered, below("properties", name), least, most);
      if (!rules && (least > 0 || most != Grammar::kUnlimited)) {
        try {
          rules = Automaton::lengths(least, most);
        } catch (const Error&) {
          unsupported(below("properties", name), "is too long to be counted in this form of calls");
        }
      }
      const Automaton free = end.empty() ? Automaton::anything() : Automaton::without(end);
      try {
        p.text = json_.number(rules ? checks_.both(*rules, free) : free);
      } catch (const Error&) {
        unsupported(below("properties", name), "needs too many states in this form of calls");
        p.text = json_.number(free);
      }
    }
    all.push_back(std::move(p));
  }
  return all;
}

SchemaGrammar::Node SchemaGrammar::numbers(const Items& items, unsigned types, const Path& path) {
  NumberRules rules{.whole = (types & kFractionBit) == 0};
  Path multiple_path;
  for (const Item& item : items) {
    const auto bound = [&](const char* name, bool is_low, bool open) {
      const Json* value = word(item, name);
      if (!value || value->is_boolean()) return;
      if (!value->is_number()) refuse(below(item.path, name), "expected a number");
      NumberBound b{decimal_of(*value), open};
      if (rules.whole) b = {is_low ? ceiling(b.value, open) : floor_of(b.value, open), false};
      auto& held = is_low ? rules.low : rules.high;
      const int c = held ? compare(b.value, held->value) : 0;
      if (!held || (is_low ? c > 0 : c < 0) || (c == 0 && open)) held = b;
    };
    const auto draft4 = [&](const char* name) {
      const Json* value = word(item, name);
      return value && *value == Json(true);
    };
    bound("minimum", true, draft4("exclusiveMinimum"));
    bound("exclusiveMinimum", true, true);
    bound("maximum", false, draft4("exclusiveMaximum"));
    bound("exclusiveMaximum", false, true);
    for (const char* name : {"multipleOf", "divisibleBy"}) {
      const Json* value = word(item, name);
      if (!value) continue;
      multiple_path = below(item.path, name);
      if (!value->is_number() || !(value->get<double>() > 0)) refuse(multiple_path, "expected a number above 0");
      rules.multiples.push_back(decimal_of(*value));
    }
  }
  const auto none = [&]() -> Node {
    if (items.size() == 1) refuse(shown(items[0].path), rules.whole ? "allows no integer" : "allows no number");
    return g_.choice({});
  };
  if (rules.low && rules.high && compare(rules.low->value, rules.high->value) > 0) return none();
  if (types & kIntegerBit && !rules.any()) return rules.whole ? json_.integer() : json_.number();
  Automaton all;
  std::uint64_t steps = 0;
  try {
    all = automaton_of_numbers(rules, &steps);
    checks_.spend(steps);
  } catch (const Error& e) {
    checks_.spend(steps);
    unsupported(multiple_path.empty() ? shown(path) : multiple_path, e.message());
    rules.multiples.clear();
    all = automaton_of_numbers(rules);
  }
  if (!(types & kIntegerBit)) all = all & automaton_of_pattern("^[^.]*\\.\\d*[1-9]$");
  return all.empty() ? none() : json_.number(all);
}

}  // namespace kvasir::text
