// What holds at the same time: references followed, keywords beside each other joined, alternatives spread out.
#include "text/json_schema.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "text/schema/asked.hpp"
#include "text/schema/counts.hpp"

namespace kvasir::text {
namespace {

constexpr int kMostLeaves = 1024;  // combinations of alternatives of one value

}  // namespace

SchemaGrammar::SchemaGrammar(Grammar& grammar, Unknown unknown, const Json& root, Warnings* warnings, Work* work)
    : g_(grammar),
      json_(grammar),
      strict_(unknown == Unknown::kRefuse),
      root_(root),
      document_(root),
      work_(work ? *work : own_work_),
      checks_(document_, work_),
      gatherer_(document_, checks_),
      warnings_(warnings) {}

void SchemaGrammar::unsupported(const Path& path, const std::string& why) {
  if (strict_) refuse_schema(path, why);
  if (!warnings_) return;
  std::string text = path + " is not held: " + why;
  if (std::find(warnings_->begin(), warnings_->end(), text) == warnings_->end()) warnings_->push_back(std::move(text));
}

SchemaGrammar::Node SchemaGrammar::value() { return node({{.schema = &root_}}); }

SchemaGrammar::Node SchemaGrammar::object() {
  return node({{.schema = &root_}, {.kind = Asked::Kind::kTypes, .types = kObjectBit}});
}

// What is asked for again is made once, so that a schema may contain itself.
SchemaGrammar::Node SchemaGrammar::node(const AskedAll& asked) {
  std::vector<Asked::Key> key;
  for (const Asked& i : asked) key.push_back(i.key());
  if (const auto known = nodes_.find(key); known != nodes_.end()) return known->second;
  const Path path = asked.empty() ? Path() : asked[0].path;
  if (depth_ >= kDeepestSchema) refuse_schema(path, "nests deeper than " + std::to_string(kDeepestSchema) + " schemas");
  const Node node = g_.declare();
  nodes_.emplace(std::move(key), node);
  ++depth_;  // not taken back when something is refused: then nothing comes of the grammar
  AskedAll items;
  std::vector<Alternatives> groups;
  for (const Asked& i : asked) gatherer_.gather(i, items, groups);
  // Values that are listed are looked at one by one, and exactly.
  const bool listed = std::any_of(items.begin(), items.end(), [&](const Asked& i) { return i.is_listed(); });
  const int leaves = std::exchange(leaves_, 0);
  g_.define(node, listed ? constants(items) : expand(std::move(items), std::move(groups), path));
  leaves_ = leaves;
  --depth_;
  return node;
}

// What of the item is not held by a grammar of values that are not listed.
void SchemaGrammar::say_unheld(const Asked& item) {
  if (item.schema && !said_.emplace(item.kind, item.schema).second) return;
  constexpr const char* kNoOpposite = "its opposite cannot be said";
  Alternatives group;
  if (item.kind == Asked::Kind::kNot && !gatherer_.opposite(item, group)) unsupported(item.path, kNoOpposite);
  const Json* test = item.word("if");
  if (test && (item.word("then") || item.word("else")) &&
      !gatherer_.opposite({.kind = Asked::Kind::kNot, .schema = test}, group))
    unsupported(below_path(item.path, "if"), kNoOpposite);
  const Json* one = item.word("oneOf");
  if (!one || !one->is_array()) return;
  for (std::size_t i = 0; i < one->size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!exclusive((*one)[j], (*one)[i], checks_))
        return unsupported(below_path(item.path, "oneOf"),
                           "two of its alternatives may hold at the same time, it is read as anyOf");
}

// One grammar per way through the groups.
SchemaGrammar::Node SchemaGrammar::expand(AskedAll items, std::vector<Alternatives> groups, const Path& path) {
  if (groups.empty()) {
    ++leaves_;
    return leaf(items, path);
  }
  if (std::any_of(groups.begin(), groups.end(), [](const Alternatives& g) { return g.empty(); })) return g_.choice({});
  const Alternatives group = std::move(groups.back());
  groups.pop_back();
  std::vector<Node> nodes;
  std::uint64_t copied = items.size();
  for (const Alternatives& g : groups)
    for (const AskedAll& alternative : g) copied += 1 + alternative.size();
  for (const AskedAll& alternative : group) {
    if (leaves_ >= kMostLeaves) {  // what is beyond is left out: a part of what the schema allows
      unsupported(path.empty() ? "schema" : path,
                  "more than " + std::to_string(kMostLeaves) + " combinations of its alternatives");
      break;
    }
    checks_.spend(16 * copied);
    AskedAll with = items;
    std::vector<Alternatives> more = groups;
    for (const Asked& i : alternative) gatherer_.gather(i, with, more);
    nodes.push_back(expand(std::move(with), std::move(more), path));
  }
  return nodes.size() == 1 ? nodes[0] : g_.choice(std::move(nodes));
}

SchemaGrammar::Node SchemaGrammar::constants(const AskedAll& items) {
  std::vector<Node> nodes;
  for (std::string& text : constant_texts(items, checks_)) nodes.push_back(g_.text(std::move(text)));
  return nodes.size() == 1 ? nodes[0] : g_.choice(std::move(nodes));
}

// REQUIRES: no alternatives are left.
SchemaGrammar::Node SchemaGrammar::leaf(const AskedAll& items, const Path& path) {
  bool listed = false, free = true;
  checks_.spend(256 * (1 + items.size()));
  for (const Asked& item : items) {
    if (item.kind == Asked::Kind::kHolds && item.schema->is_boolean()) return g_.choice({});
    listed = listed || item.is_listed();
    free = free && item.is_free();
  }
  if (listed) return constants(items);
  for (const Asked& item : items) say_unheld(item);
  if (free) return json_.any_value();
  const unsigned types = types_of_items(items);
  std::vector<Node> nodes;
  if (types & kObjectBit) nodes.push_back(objects(items, path));
  if (types & kArrayBit) nodes.push_back(arrays(items, path));
  if (types & kStringBit) nodes.push_back(strings(items, path));
  if (types & (kIntegerBit | kFractionBit)) nodes.push_back(numbers(items, types, path));
  const auto forbidden = [&](const Json& v) {
    return std::any_of(items.begin(), items.end(),
                       [&](const Asked& i) { return i.kind == Asked::Kind::kNot && !fits(v, i, checks_); });
  };
  for (const Json& v : {Json(true), Json(false), Json()})
    if ((types & type_of(v)) && !forbidden(v)) nodes.push_back(g_.text(v.dump()));
  return nodes.size() == 1 ? nodes[0] : g_.choice(std::move(nodes));
}

Grammar::Node add_schema(Grammar& grammar, const Json& schema, Unknown unknown, Warnings* warnings) {
  return SchemaGrammar(grammar, unknown, schema, warnings).value();
}

Grammar::Node add_objects(Grammar& grammar) { return JsonGrammar(grammar).any_object(); }

std::shared_ptr<const Grammar> grammar_of_schema(const Json& schema, Unknown unknown, Warnings* warnings) {
  auto grammar = std::make_shared<Grammar>();
  const Grammar::Node value = add_schema(*grammar, schema, unknown, warnings);
  // Some models' first token of an answer is a word with its space.
  grammar->finish(grammar->sequence({grammar->optional(grammar->text(" ")), value}));
  return grammar;
}

}  // namespace kvasir::text
