// JSON Schema to a grammar of the JSON texts that conform to it.
//
// The grammar allows a part of what the schema does, never more: properties come in the order of the schema and only
// those that it names (objects without `properties` have any keys), numbers and white space are bounded as
// text/json_grammar.hpp says, and in front of all there is at most one space.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "text/json_grammar.hpp"
#include "text/schema/check.hpp"
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

  // What is asked of one value: the schemas and parts of schemas that all hold.
  enum class Kind {
    kHolds,       // the schema
    kNot,         // not the schema
    kTypes,       // one of these types
    kPresent,     // the property `name` is there ...
    kAbsent,      // ... is not
    kPropertyNot  // and what it holds is not of the schema
  };
  struct Link {  // the schemas that led here without going into the value
    const Json* schema;
    std::shared_ptr<const Link> before;
    int depth;
  };
  struct Item {
    Kind kind = Kind::kHolds;
    const Json* schema = nullptr;
    const std::string* name = nullptr;
    unsigned types = 0;
    Path path = {};
    std::shared_ptr<const Link> link = {};
  };
  using Items = std::vector<Item>;
  using Group = std::vector<Items>;  // alternatives
  using ItemKey = std::tuple<Kind, const Json*, const std::string*, unsigned>;

  // json_schema.cpp: what holds at the same time.
  Node node(const Items& asked);
  void gather(const Item& item, Items& items, std::vector<Group>& groups);
  void gather_words(const Item& item, Items& items, std::vector<Group>& groups);
  void gather_not(const Item& item, Items& items, std::vector<Group>& groups);
  bool opposite(const Item& item, Group& group);
  void gather_branches(const Item& item, std::vector<Group>& groups);
  void say_unheld(const Item& item);
  void gather_dependencies(const Item& item, std::vector<Group>& groups);
  bool exclusive(const Json& a, const Json& b, int depth = 0);
  Node expand(Items items, std::vector<Group> groups, const Path& path);
  Node leaf(const Items& items, const Path& path);
  Node constants(const Items& items);
  std::vector<std::string> constant_texts(const Items& items);
  bool fits(const Json& value, const Item& item);
  unsigned types_of_items(const Items& items) const;

  // json_schema_values.cpp: one type.
  struct Member {
    std::string name;
    Node node;
    bool required;
  };
  Node objects(const Items& items, const Path& path);
  Node members(const std::vector<Member>& all, std::int32_t least, std::int32_t most);
  Node maps(const Items& items, std::int32_t least, std::int32_t most);
  bool property(const Items& items, const std::string& name, Items& out);
  bool evaluates(const Json& schema, const std::string& name, int depth);
  Node arrays(const Items& items, const Path& path);
  Node strings(const Items& items, const Path& path);
  std::optional<Automaton> string_rules(const Items& items, const Path& path, std::int32_t& least, std::int32_t& most);
  void name_properties(const Items& items, std::vector<std::string>& names, std::set<std::string>& required);
  Node numbers(const Items& items, unsigned types, const Path& path);
  const Automaton* pattern(const std::string& word, const std::string& text, const Path& path);

  void unsupported(const Path& path, const std::string& why);
  const Json* word(const Item& item, const char* name) const;

  Grammar& g_;
  JsonGrammar json_;
  const bool strict_;
  const Json& root_;
  const SchemaDocument document_;
  Work own_work_;
  Work& work_;
  Checks checks_;
  Warnings* const warnings_;
  int depth_ = 0;
  int leaves_ = 0;  // of the value that is expanded
  std::map<std::vector<ItemKey>, Node> nodes_;
  std::set<std::pair<Kind, const Json*>> said_;  // of which say_unheld() has spoken
};

std::shared_ptr<const Grammar> grammar_of_schema(const Json& schema, Unknown unknown, Warnings* warnings = nullptr);
std::shared_ptr<const Grammar> grammar_of_objects();  // any JSON object

// The same as a part of a larger grammar.
Grammar::Node add_schema(Grammar& grammar, const Json& schema, Unknown unknown, Warnings* warnings);
Grammar::Node add_objects(Grammar& grammar);

}  // namespace kvasir::text
