// JSON Schema to a grammar of the JSON texts that conform to it.
//
// The grammar allows a part of what the schema does, never more: properties come in the order of the schema and only
// those that it names (objects without `properties` have any keys), numbers have at most 18 digits in front of the
// point and 16 behind it, and white space is at most one space or one line break with 20 spaces or tabs in a place; in
// front of all one space.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "text/grammar.hpp"

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
class JsonGrammar {
 public:
  using Json = nlohmann::ordered_json;
  using Node = Grammar::Node;

  JsonGrammar(Grammar& grammar, Unknown unknown) : g_(grammar), strict_(unknown == Unknown::kRefuse) {}

  Node schema(const Json& schema);  // the document: what $ref refers to
  Node any_object();
  Node space();  // between two parts of a JSON text

 private:
  using Path = std::string;

  Node value(const Json& schema, const Path& path);
  Node keywords(const Json& schema, const Path& path);
  Node of_type(const Json& schema, const std::string& type, const Path& path);
  Node object(const Json& schema, const Path& path);
  Node map(Node member);
  Node array(const Json& schema, const Path& path);
  Node string(const Json& schema, const Path& path);
  Node integer(const Json& schema, const Path& path);
  Node number(const Json& schema, const Path& path);
  Node alternatives(const Json& list, const Path& path);
  Node constants(const Json& schema, const Json& list, const Path& path);
  Node reference(const std::string& target, const Path& path);
  Node any_value();
  Node character();
  Node digits(std::int32_t least, std::int32_t most);
  Node quoted(Node content);
  Node list(Node item, std::int32_t least, std::int32_t most);
  Node natural(const std::string& low, const std::string& high);
  Node from(const std::string& low, std::size_t at);
  Node up_to(const std::string& high, std::size_t at);
  Node between(const std::string& low, const std::string& high, std::size_t at);

  void unsupported(const Path& path, const std::string& why) const;
  void only(const Json& schema, const char* word, const Path& path) const;

  Grammar& g_;
  const bool strict_;
  const Json* root_ = nullptr;
  int depth_ = 0;
  std::map<std::string, Node> references_;
  Node any_ = -1, any_object_ = -1, space_ = -1, character_ = -1;
};

std::shared_ptr<const Grammar> grammar_of_schema(const nlohmann::ordered_json& schema, Unknown unknown);
std::shared_ptr<const Grammar> grammar_of_objects();  // any JSON object

}  // namespace kvasir::text
