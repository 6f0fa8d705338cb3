// A JSON Schema document: what its references lead to.
#pragma once

#include <map>
#include <string>

#include "base/json.hpp"

namespace kvasir::text {

// $ref, $dynamicRef and $recursiveRef by JSON pointer (percent-encoded or not), $id (`id` in draft 4), $anchor and
// $dynamicAnchor, within the document. A dynamic reference is read as a plain one.
class SchemaDocument {
 public:
  explicit SchemaDocument(const Json& root);  // must outlive this

  struct Target {
    const Json* schema = nullptr;
    std::string path;  // "#/$defs/a"
  };
  // What `reference` in `from`, a schema of this document, refers to. Throws Error(kBadInput) when it is not here.
  Target find(const Json& from, const std::string& reference) const;

 private:
  void read(const Json& json, const std::string& base, const std::string& pointer, int depth);

  const Json& root_;
  std::map<const Json*, std::string> bases_;  // of objects with another base than the root's
  std::map<std::string, Target> by_uri_;      // "uri" of resources, "uri#name" of anchors
};

}  // namespace kvasir::text
