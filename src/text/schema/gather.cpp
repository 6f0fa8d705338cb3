#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "text/schema/asked.hpp"
#include "text/schema/counts.hpp"

namespace kvasir::text {
namespace {

void gather_dependencies(const Asked& item, std::vector<Alternatives>& groups) {
  for (const char* name : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* all = item.word(name);
    if (!all) continue;
    const std::string path = below_path(item.path, name);
    if (!all->is_object()) refuse_schema(path, "expected an object");
    for (const auto& [key, what] : all->items()) {
      const std::string at = below_path(path, key);
      const auto& k = item.schema->at(name).find(key).key();
      AskedAll there{{.kind = Asked::Kind::kPresent, .name = &k, .path = at}};
      if (what.is_array()) {
        for (const Json& n : what) {
          if (!n.is_string()) refuse_schema(at, "expected strings");
          there.push_back({.kind = Asked::Kind::kPresent, .name = n.get_ptr<const std::string*>(), .path = at});
        }
      } else {
        there.push_back({.schema = &what, .path = at});
      }
      groups.push_back({{{.kind = Asked::Kind::kAbsent, .name = &k, .path = at}}, std::move(there)});
    }
  }
}

}  // namespace

void AskedGatherer::gather(const Asked& item, AskedAll& items, std::vector<Alternatives>& groups) {
  checks_.spend(64 + 4 * items.size() + 4 * static_cast<std::uint64_t>(item.link ? item.link->depth : 0));
  if (item.kind == Asked::Kind::kNot) return gather_not(item, items, groups);
  if (item.kind == Asked::Kind::kHolds) {
    const Json& schema = *item.schema;
    if (schema.is_boolean() && schema.get<bool>()) return;
    if (!schema.is_boolean() && !schema.is_object())
      refuse_schema(item.path.empty() ? "schema" : item.path, "expected an object or a boolean");
    if (item.link && item.link->depth >= kDeepestSchema)
      refuse_schema(item.path, "nests deeper than " + std::to_string(kDeepestSchema) + " schemas");
    for (const Asked::Link* l = item.link.get(); l; l = l->before.get())
      if (l->schema == item.schema)
        refuse_schema(item.path.empty() ? "schema" : item.path, "refers to itself before anything else");
  }
  for (const Asked& i : items)
    if (i.kind == item.kind && i.schema == item.schema && i.name == item.name && i.types == item.types) return;
  items.push_back(item);
  if (item.kind == Asked::Kind::kHolds && item.schema->is_object()) gather_words(item, items, groups);
}

void AskedGatherer::gather_words(const Asked& item, AskedAll& items, std::vector<Alternatives>& groups) {
  const auto link =
      std::make_shared<const Asked::Link>(Asked::Link{item.schema, item.link, item.link ? item.link->depth + 1 : 1});
  for (const char* name : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Json* ref = item.word(name);
    if (!ref) continue;
    const std::string path = below_path(item.path, name);
    if (!ref->is_string()) refuse_schema(path, "expected a string");
    const auto& reference = ref->get_ref<const std::string&>();
    const SchemaDocument::Target& target = document_.find(*item.schema, reference, checks_.work());
    if (!target.schema) refuse_schema(path, "'" + SchemaDocument::shortened(reference) + "' is not in this schema");
    gather({.schema = target.schema, .path = target.path == "#" ? path : target.path, .link = link}, items, groups);
  }
  for (const char* name : {"allOf", "anyOf", "oneOf"}) {
    const Json* all = item.word(name);
    if (!all) continue;
    const std::string path = below_path(item.path, name);
    if (!all->is_array() || all->empty()) refuse_schema(path, "expected an array that is not empty");
    Alternatives group;
    checks_.spend((64 + path.size()) * all->size());  // they take memory
    for (std::size_t i = 0; i < all->size(); ++i) {
      Asked one{.schema = &(*all)[i], .path = path + "[" + std::to_string(i) + "]", .link = link};
      if (std::string_view(name) == "allOf") {
        gather(one, items, groups);
      } else {
        group.push_back({std::move(one)});
      }
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  if (const Json* no = item.word("not"))
    gather({.kind = Asked::Kind::kNot, .schema = no, .path = below_path(item.path, "not"), .link = link}, items,
           groups);
  gather_branches(item, groups);
  gather_dependencies(item, groups);
}

void AskedGatherer::gather_branches(const Asked& item, std::vector<Alternatives>& groups) {
  const Json *test = item.word("if"), *then = item.word("then"), *otherwise = item.word("else");
  if (!test || (!then && !otherwise)) return;
  const std::string path = below_path(item.path, "if");
  const Asked no{.kind = Asked::Kind::kNot, .schema = test, .path = path};
  Alternatives opposites;
  if (!test->is_boolean() && !test->is_object()) refuse_schema(path, "expected an object or a boolean");
  if (!opposite(no, opposites)) return;  // say_unheld
  AskedAll yes{{.schema = test, .path = path}}, other{no};
  if (then) yes.push_back({.schema = then, .path = below_path(item.path, "then")});
  if (otherwise) other.push_back({.schema = otherwise, .path = below_path(item.path, "else")});
  groups.push_back({std::move(yes), std::move(other)});
}

void AskedGatherer::gather_not(const Asked& item, AskedAll& items, std::vector<Alternatives>& groups) {
  const Json& schema = *item.schema;
  if (schema.is_boolean() && !schema.get<bool>()) return;
  if (!schema.is_boolean() && !schema.is_object()) refuse_schema(item.path, "expected an object or a boolean");
  for (const Asked& i : items)
    if (i.kind == Asked::Kind::kNot && i.schema == item.schema) return;
  items.push_back(item);  // for values that are listed, and patterns
  Alternatives group;
  if (opposite(item, group)) groups.push_back(std::move(group));  // otherwise: say_unheld
}

bool AskedGatherer::opposite(const Asked& item, Alternatives& group) {
  const Json& schema = *item.schema;
  checks_.spend(64 * (1 + schema.size()));
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) group.push_back({});
    return true;  // of `true` no alternative is left
  }
  constexpr std::array kSilent = {"title", "description", "$comment", "default", "examples", "deprecated", "format"};
  for (const auto& [name, what] : schema.items()) {
    const std::string path = below_path(item.path, name);
    const auto add_not = [&](const Json& s) {
      group.push_back({{.kind = Asked::Kind::kNot, .schema = &s, .path = path, .link = item.link}});
    };
    if (name == "type") {
      unsigned types = 0;
      try {
        types = kAllBits & ~types_of(what);
      } catch (const Error&) {
        return false;
      }
      group.push_back({{.kind = Asked::Kind::kTypes, .types = types, .path = path}});
    } else if (name == "required") {
      if (!what.is_array()) return false;
      checks_.spend(64 * what.size());
      for (const Json& n : what) {
        if (!n.is_string()) return false;
        group.push_back({{.kind = Asked::Kind::kTypes, .types = kObjectBit, .path = path},
                         {.kind = Asked::Kind::kAbsent, .name = n.get_ptr<const std::string*>(), .path = path}});
      }
    } else if (name == "properties") {
      if (!what.is_object()) return false;
      for (auto p = what.begin(); p != what.end(); ++p) {
        const Asked there{.kind = Asked::Kind::kPresent, .name = &p.key(), .path = path};
        const Asked no{.kind = Asked::Kind::kPropertyNot,
                       .schema = &p.value(),
                       .name = &p.key(),
                       .path = below_path(path, p.key())};
        Alternatives inside;
        if (!opposite({.kind = Asked::Kind::kNot, .schema = &p.value(), .path = no.path}, inside)) return false;
        group.push_back({{.kind = Asked::Kind::kTypes, .types = kObjectBit, .path = path}, there, no});
      }
    } else if (name == "pattern") {
      group.push_back(
          {{.kind = Asked::Kind::kTypes, .types = kStringBit, .path = path}});  // strings() asks the item itself
    } else if (name == "const" || name == "enum") {
      if (name == "enum" && !what.is_array()) return false;
      const auto plain = [](const Json& v) { return v.is_string() || v.is_boolean() || v.is_null(); };
      checks_.spend(what.size());
      if (name == "enum" ? !std::all_of(what.begin(), what.end(), plain) : !plain(what)) return false;
      group.push_back({});  // leaf() and strings() ask the item itself
    } else if (name == "anyOf") {
      AskedAll all;
      checks_.spend(64 * what.size());
      for (const Json& s : what)
        all.push_back({.kind = Asked::Kind::kNot, .schema = &s, .path = path, .link = item.link});
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

}  // namespace kvasir::text
