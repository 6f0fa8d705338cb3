// What the words of a JSON Schema say of arrays, strings and numbers.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "text/json_schema.hpp"
#include "text/schema/asked.hpp"
#include "text/schema/counts.hpp"
#include "text/schema/formats.hpp"
#include "text/schema/numbers.hpp"
#include "text/schema/pattern.hpp"

namespace kvasir::text {
namespace {

std::string shown(const std::string& path) { return path.empty() ? "schema" : path; }

}  // namespace

const Automaton* SchemaGrammar::pattern(const std::string& word, const std::string& text, const Path& path) {
  const Checks::Pattern& of = checks_.pattern(word, text);
  if (of.error.empty()) return &of.strings;
  unsupported(path, of.error);
  return nullptr;
}

SchemaGrammar::Node SchemaGrammar::arrays(const AskedAll& items, const Path& path) {
  struct Said {  // by one schema
    const Json* front = nullptr;
    const Json* rest = nullptr;
    const char* front_name = "prefixItems";
    const char* rest_name = "items";
    const Asked* item = nullptr;
  };
  std::vector<Said> said;
  Counts counts;
  std::size_t fixed = 0;
  bool has_rest = false, unique = false;
  std::vector<const Asked*> contains;  // for each of the first places, what it has to be
  std::vector<const Asked*> limited;   // what the other places must not be
  for (const Asked& item : items) {
    counts.add(item.word("minItems"), item.word("maxItems"), item.path, "minItems", "maxItems");
    Said s{.front = item.word("prefixItems"), .rest = item.word("items"), .item = &item};
    if (s.rest && s.rest->is_array()) {  // as the drafts before 2020-12 have it
      s.front = s.rest;
      s.front_name = "items";
      s.rest = item.word("additionalItems");
      s.rest_name = "additionalItems";
      if (s.front->empty()) s.front = nullptr;
    } else if (s.front && (!s.front->is_array() || s.front->empty())) {
      refuse_schema(below_path(item.path, "prefixItems"), "expected an array that is not empty");
    }
    if (!s.rest) {
      s.rest = item.word("unevaluatedItems");
      s.rest_name = "unevaluatedItems";
    }
    if (s.front) fixed = std::max(fixed, s.front->size());
    has_rest = has_rest || s.rest;
    said.push_back(s);
    if (const Json* u = item.word("uniqueItems")) unique = unique || *u != Json(false);
    if (!item.word("contains")) continue;
    const Json *low = item.word("minContains"), *high = item.word("maxContains");
    const std::int32_t need = low ? read_count(*low, below_path(item.path, "minContains")) : 1;
    if (need > static_cast<std::int32_t>(kMostCounted))
      refuse_schema(below_path(item.path, "minContains"), "is more than 64");
    contains.insert(contains.end(), static_cast<std::size_t>(need), &item);
    if (high && read_count(*high, below_path(item.path, "maxContains")) < need) return g_.choice({});
    if (high) limited.push_back(&item);
  }
  // What item `i` has to be; false: there can be none.
  const auto at = [&](std::size_t i, AskedAll& out) {
    for (const Said& s : said) {
      const bool in_front = s.front && i < s.front->size();
      const Json* schema = in_front ? &(*s.front)[i] : s.rest;
      if (!schema) continue;
      if (*schema == Json(false)) return false;
      const Path where = below_path(s.item->path, in_front ? s.front_name : s.rest_name);
      out.push_back({.schema = schema, .path = in_front ? where + "[" + std::to_string(i) + "]" : where});
    }
    const Asked* own = i < contains.size() ? contains[i] : nullptr;
    if (own) out.push_back({.schema = own->word("contains"), .path = below_path(own->path, "contains")});
    for (const Asked* no : limited)
      if (no != own)
        out.push_back(
            {.kind = Asked::Kind::kNot, .schema = no->word("contains"), .path = below_path(no->path, "contains")});
    return true;
  };
  counts.least = std::max(counts.least, static_cast<std::int32_t>(contains.size()));
  const std::size_t front = std::max(fixed, contains.size());
  AskedAll rest;
  if (!at(front, rest)) counts.at_most(static_cast<std::int32_t>(front));
  for (std::size_t i = 0; i < front; ++i)
    if (AskedAll ignored; !at(i, ignored)) counts.at_most(static_cast<std::int32_t>(i));
  if (counts.none()) return g_.choice({});
  const auto whole = [&](Node content) {
    return g_.sequence({g_.text("["), json_.space(), content, json_.space(), g_.text("]")});
  };
  if (unique && counts.most != 0 && counts.most != 1) {
    // Values that are listed are written in the order of the list: then none comes twice.
    AskedAll gathered;
    std::vector<Alternatives> groups;
    for (const Asked& i : rest) gatherer_.gather(i, gathered, groups);
    const bool listed =
        front == 0 && std::any_of(gathered.begin(), gathered.end(), [&](const Asked& i) { return i.is_listed(); });
    std::vector<Member> values;
    if (listed)
      for (const std::string& text : constant_texts(gathered, checks_)) values.push_back({text, g_.text(text), false});
    if (listed && values.size() <= kMostCounted) return whole(members(values, counts.least, counts.most));
    unsupported(below_path(path, "uniqueItems"), "items may be equal");
  }
  if (front == 0) return whole(counts.most == 0 ? g_.text("") : json_.list(node(rest), counts.least, counts.most));
  std::vector<Node> parts;
  const std::size_t n =
      counts.most == Grammar::kUnlimited ? front : std::min<std::size_t>(front, static_cast<std::size_t>(counts.most));
  for (std::size_t i = 0; i < n; ++i) {
    AskedAll here;
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
std::optional<Automaton> SchemaGrammar::string_rules(const AskedAll& items, const Path& path, std::int32_t& least,
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
  for (const Asked& item : items) {
    lengths.add(item.word("minLength"), item.word("maxLength"), item.path, "minLength", "maxLength");
    for (const char* name : {"pattern", "format"}) {
      const Json* text = item.word(name);
      if (!text) continue;
      const Path where = below_path(item.path, name);
      if (!text->is_string()) refuse_schema(where, "expected a string");
      if (std::string_view(name) == "format" && pattern_of_format(text->get_ref<const std::string&>()).empty())
        continue;
      if (const Automaton* of = pattern(name, text->get<std::string>(), where)) only(*of, where);
    }
    if (item.kind != Asked::Kind::kNot || !item.schema->is_object()) continue;
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
      unsupported(below_path(path, "maxLength"), "needs too many states beside a pattern");
    }
  }
  return all;
}

SchemaGrammar::Node SchemaGrammar::strings(const AskedAll& items, const Path& path) {
  std::int32_t least = 0, most = 0;
  const std::optional<Automaton> rules = string_rules(items, path, least, most);
  return rules ? json_.string(*rules) : json_.string(least, most);
}

std::vector<SchemaProperty> SchemaGrammar::properties(std::string_view end) {
  AskedAll items;
  std::vector<Alternatives> groups;
  gatherer_.gather({.schema = &root_}, items, groups);
  if (!groups.empty()) unsupported("parameters", "alternatives are not supported in this form of calls");
  std::vector<std::string> names;
  std::set<std::string> required;
  name_properties(items, names, required);
  std::vector<SchemaProperty> all;
  for (const std::string& name : names) {
    AskedAll asked;
    if (!property(items, name, asked)) continue;
    SchemaProperty p{.name = name, .required = required.contains(name), .json = node(asked)};
    AskedAll gathered;
    std::vector<Alternatives> ways;
    for (const Asked& i : asked) gatherer_.gather(i, gathered, ways);
    const bool listed = std::any_of(gathered.begin(), gathered.end(), [&](const Asked& i) { return i.is_listed(); });
    if (ways.empty() && listed) {
      std::vector<Node> texts;
      for (const std::string& text : constant_texts(gathered, checks_))
        if (const Json v = Json::parse(text); v.is_string()) texts.push_back(g_.text(v.get<std::string>()));
      if (!texts.empty()) p.text = g_.choice(std::move(texts));
    } else if (ways.empty() && types_of_items(gathered) == kStringBit) {
      std::int32_t least = 0, most = 0;
      std::optional<Automaton> rules = string_rules(gathered, below_path("properties", name), least, most);
      if (!rules && (least > 0 || most != Grammar::kUnlimited)) {
        try {
          rules = Automaton::lengths(least, most);
        } catch (const Error&) {
          unsupported(below_path("properties", name), "is too long to be counted in this form of calls");
        }
      }
      const Automaton free = end.empty() ? Automaton::anything() : Automaton::without(end);
      try {
        p.text = json_.number(rules ? checks_.both(*rules, free) : free);
      } catch (const Error&) {
        unsupported(below_path("properties", name), "needs too many states in this form of calls");
        p.text = json_.number(free);
      }
    }
    all.push_back(std::move(p));
  }
  return all;
}

SchemaGrammar::Node SchemaGrammar::numbers(const AskedAll& items, unsigned types, const Path& path) {
  NumberRules rules{.whole = (types & kFractionBit) == 0};
  Path multiple_path;
  for (const Asked& item : items) {
    const auto bound = [&](const char* name, bool is_low, bool open) {
      const Json* value = item.word(name);
      if (!value || value->is_boolean()) return;
      if (!value->is_number()) refuse_schema(below_path(item.path, name), "expected a number");
      NumberBound b{decimal_of(*value), open};
      if (rules.whole) b = {is_low ? ceiling(b.value, open) : floor_of(b.value, open), false};
      auto& held = is_low ? rules.low : rules.high;
      const int c = held ? compare(b.value, held->value) : 0;
      if (!held || (is_low ? c > 0 : c < 0) || (c == 0 && open)) held = b;
    };
    const auto draft4 = [&](const char* name) {
      const Json* value = item.word(name);
      return value && *value == Json(true);
    };
    bound("minimum", true, draft4("exclusiveMinimum"));
    bound("exclusiveMinimum", true, true);
    bound("maximum", false, draft4("exclusiveMaximum"));
    bound("exclusiveMaximum", false, true);
    for (const char* name : {"multipleOf", "divisibleBy"}) {
      const Json* value = item.word(name);
      if (!value) continue;
      multiple_path = below_path(item.path, name);
      if (!value->is_number() || !(value->get<double>() > 0)) refuse_schema(multiple_path, "expected a number above 0");
      rules.multiples.push_back(decimal_of(*value));
    }
  }
  const auto none = [&]() -> Node {
    if (items.size() == 1) refuse_schema(shown(items[0].path), rules.whole ? "allows no integer" : "allows no number");
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
