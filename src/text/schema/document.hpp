// A JSON Schema document: what its references lead to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "text/schema/work.hpp"

namespace kvasir::text {

// $ref, $dynamicRef and $recursiveRef by JSON pointer (percent-encoded or not), $id (`id` in draft 4), $anchor and
// $dynamicAnchor, within the document. A dynamic reference is read as a plain one.
class SchemaDocument {
 public:
  // `root` must outlive this. Throws Error(kBadInput) for names of more than 2048 bytes, and of more than 4 MiB
  // together.
  explicit SchemaDocument(const Json& root);

  struct Target {
    const Json* schema = nullptr;
    std::string path;  // "#/$defs/a", shortened when it is very long
  };
  // What `reference` in `from`, a schema of this document, refers to; without a schema when that is not here. The
  // result is kept; the way to it is paid with `work`.
  const Target& find(const Json& from, const std::string& reference, Work& work) const;

  static std::string shortened(std::string path);  // to about 1024 bytes, whole characters

 private:
  using Base = std::shared_ptr<const std::string>;
  struct Place;  // where a value stands, as long as its parents are being read
  void name(std::string uri, const Json& json, const Place& place);
  void read(const Json& json, const Base& base, const Place& place, int depth);

  const Json& root_;
  std::map<const Json*, Base> bases_;     // of objects with another base than the root's
  std::map<std::string, Target> by_uri_;  // "uri" of resources, "uri#name" of anchors
  std::size_t named_ = 0;                 // bytes of the names above
  mutable std::map<std::pair<const std::string*, std::string>, Target> found_;  // by base and reference
};

}  // namespace kvasir::text
