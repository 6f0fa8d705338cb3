// JSON Schema to a grammar of the JSON texts that conform to it.
//
// The grammar allows a part of what the schema does, never more: properties come in the order of the schema and only
// those that it names (objects without `properties` have any keys), numbers and white space are bounded as
// text/json_grammar.hpp says, and in front of all there is at most one space.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "text/json_grammar.hpp"
#include "text/schema/asked.hpp"
#include "text/schema/document.hpp"
#include "text/schema/work.hpp"

namespace kvasir::text {

// What to do with words that would forbid something and cannot be built into a grammar.
enum class Unknown {
  kRefuse,
  kIgnore,  // texts of the grammar may not conform in what they say: there is a warning for each
};

// "properties.zip.uniqueItems is not held: ...", for people.
using Warnings = std::vector<std::string>;

// A property of the document's objects, for texts of them that are not JSON.
struct SchemaProperty {
  std::string name;
  bool required = false;
  Grammar::Node json = -1;                           // its value as JSON
  std::optional<Grammar::Node> text = std::nullopt;  // of strings, and nothing else: without quotes
};

// Keywords of the drafts 4 to 2020-12 that stand beside each other all apply, $ref among them. Built in are: type,
// properties, required, additionalProperties, unevaluatedProperties, patternProperties, propertyNames, minProperties,
// maxProperties, dependentRequired, dependentSchemas, dependencies, items, prefixItems, additionalItems,
// unevaluatedItems, minItems, maxItems, contains, minContains, enum, const, allOf, anyOf, oneOf of alternatives that
// exclude each other, not and if/then/else as far as their opposite can be said, $ref by pointer, $id and $anchor,
// minLength, maxLength, pattern, the common formats, minimum, maximum, their exclusive forms, multipleOf; true and
// false as schemas. Other words are ignored, as the standard says. Throws Error(kBadInput) whose context is the path of
// a keyword that contradicts itself or, unless those are ignored, would forbid something and cannot be held; and when
// all that takes too much work.
class SchemaGrammar {
 public:
  using Node = Grammar::Node;

  // `grammar` and `root`, the document, must outlive this; so must `warnings` and `work`, which may be null. `work` is
  // for documents that come together.
  SchemaGrammar(Grammar& grammar, Unknown unknown, const Json& root, Warnings* warnings = nullptr,
                Work* work = nullptr);

  Node value();   // the texts of the document
  Node object();  // those of them that are objects
  // In the order of the schema. Strings do not hold `end`.
  std::vector<SchemaProperty> properties(std::string_view end);

 private:
  using Path = std::string;

  Node node(const AskedAll& asked);
  void say_unheld(const Asked& item);
  Node expand(AskedAll items, std::vector<Alternatives> groups, const Path& path);
  Node leaf(const AskedAll& items, const Path& path);
  Node constants(const AskedAll& items);

  // Of one type.
  struct Member {
    std::string name;
    Node node;
    bool required;
  };
  Node objects(const AskedAll& items, const Path& path);
  Node members(const std::vector<Member>& all, std::int32_t least, std::int32_t most);
  Node maps(const AskedAll& items, std::int32_t least, std::int32_t most);
  bool property(const AskedAll& items, const std::string& name, AskedAll& out);
  Node arrays(const AskedAll& items, const Path& path);
  Node strings(const AskedAll& items, const Path& path);
  std::optional<Automaton> string_rules(const AskedAll& items, const Path& path, std::int32_t& least,
                                        std::int32_t& most);
  void name_properties(const AskedAll& items, std::vector<std::string>& names, std::set<std::string>& required);
  Node numbers(const AskedAll& items, unsigned types, const Path& path);
  const Automaton* pattern(const std::string& word, const std::string& text, const Path& path);

  void unsupported(const Path& path, const std::string& why);

  Grammar& g_;
  JsonGrammar json_;
  const bool strict_;
  const Json& root_;
  const SchemaDocument document_;
  Work own_work_;
  Work& work_;
  Checks checks_;
  AskedGatherer gatherer_;
  Warnings* const warnings_;
  int depth_ = 0;
  int leaves_ = 0;  // of the value that is expanded
  std::map<std::vector<Asked::Key>, Node> nodes_;
  std::set<std::pair<Asked::Kind, const Json*>> said_;  // of which say_unheld() has spoken
};

std::shared_ptr<const Grammar> grammar_of_schema(const Json& schema, Unknown unknown, Warnings* warnings = nullptr);

// The same as a part of a larger grammar.
Grammar::Node add_schema(Grammar& grammar, const Json& schema, Unknown unknown, Warnings* warnings);
Grammar::Node add_objects(Grammar& grammar);

}  // namespace kvasir::text
