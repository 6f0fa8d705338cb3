// JSON Schema to a grammar of the JSON texts that conform to it.
//
// The grammar allows a part of what the schema does, never more: properties come in the order of the schema and only
// those that it names (objects without `properties` have any keys), numbers and white space are bounded as
// text/json_grammar.hpp says, and in front of all there is at most one space.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/json.hpp"
#include "text/json_grammar.hpp"

namespace kvasir::text {

// What to do with words that would forbid something and cannot be built into a grammar.
enum class Unknown {
  kRefuse,
  kIgnore,  // texts of the grammar may not conform in what they say
};

// Of these: type (one or a list), properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
// enum, const, anyOf, oneOf (read as anyOf), allOf of one, $ref within the document, minLength, maxLength, and of
// integers minimum, maximum, exclusiveMinimum, exclusiveMaximum; true and false as schemas. Annotations, `format` among
// them, and words that are not JSON Schema's are ignored, as the standard says. Throws Error(kBadInput) whose context
// is the path of a keyword that contradicts itself or, unless those are ignored, would forbid something and is not
// known here.
class SchemaGrammar {
 public:
  using Node = Grammar::Node;

  // `grammar` must outlive this.
  SchemaGrammar(Grammar& grammar, Unknown unknown)
      : g_(grammar), json_(grammar), strict_(unknown == Unknown::kRefuse) {}

  Node schema(const Json& schema);  // the document: what $ref refers to

 private:
  using Path = std::string;

  Node value(const Json& schema, const Path& path);
  Node keywords(const Json& schema, const Path& path);
  Node of_type(const Json& schema, const std::string& type, const Path& path);
  Node object(const Json& schema, const Path& path);
  Node array(const Json& schema, const Path& path);
  Node string(const Json& schema, const Path& path);
  Node integer(const Json& schema, const Path& path);
  Node number(const Json& schema, const Path& path);
  Node alternatives(const Json& list, const Path& path);
  Node constants(const Json& schema, const Json& list, const Path& path);
  Node reference(const std::string& target, const Path& path);

  void unsupported(const Path& path, const std::string& why) const;
  void only(const Json& schema, const char* word, const Path& path) const;

  Grammar& g_;
  JsonGrammar json_;
  const bool strict_;
  const Json* root_ = nullptr;
  int depth_ = 0;
  std::map<std::string, Node> references_;
};

std::shared_ptr<const Grammar> grammar_of_schema(const Json& schema, Unknown unknown);
std::shared_ptr<const Grammar> grammar_of_objects();  // any JSON object

}  // namespace kvasir::text
