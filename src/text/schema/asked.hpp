// What a JSON Schema asks of one value: the schemas and parts of schemas that all hold, with references followed and
// keywords beside each other joined.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/json.hpp"
#include "text/schema/check.hpp"
#include "text/schema/document.hpp"

namespace kvasir::text {

inline constexpr int kDeepestSchema = 256;  // values within values, references followed

struct Asked {
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
  using Key = std::tuple<Kind, const Json*, const std::string*, unsigned>;

  Kind kind = Kind::kHolds;
  const Json* schema = nullptr;
  const std::string* name = nullptr;
  unsigned types = 0;
  std::string path = {};
  std::shared_ptr<const Link> link = {};

  // What the schema that holds says under this keyword; null: nothing.
  const Json* word(const char* name) const;
  bool is_listed() const { return word("const") || word("enum"); }
  // Whether it holds and nothing in it says anything of a value.
  bool is_free() const;
  Key key() const { return {kind, schema, name, types}; }
};
using AskedAll = std::vector<Asked>;
using Alternatives = std::vector<AskedAll>;

// Finds what holds because something else does.
class AskedGatherer {
 public:
  // Both must outlive this.
  AskedGatherer(const SchemaDocument& document, Checks& checks) : document_(document), checks_(checks) {}

  // Adds the item and whatever holds because of it. Alternatives become groups. Throws Error(kBadInput) whose context
  // is the path of a keyword that is no schema.
  void gather(const Asked& item, AskedAll& items, std::vector<Alternatives>& groups);
  // The alternatives in which `item`, a kNot, holds. False: they cannot be said.
  bool opposite(const Asked& item, Alternatives& group);

 private:
  void gather_words(const Asked& item, AskedAll& items, std::vector<Alternatives>& groups);
  void gather_not(const Asked& item, AskedAll& items, std::vector<Alternatives>& groups);
  void gather_branches(const Asked& item, std::vector<Alternatives>& groups);

  const SchemaDocument& document_;
  Checks& checks_;
};

// Whether no value is of both, as far as that is plain to see.
bool exclusive(const Json& a, const Json& b, Checks& checks, int depth = 0);
bool fits(const Json& value, const Asked& item, Checks& checks);
// The texts of the values of the first list that all the others allow.
std::vector<std::string> constant_texts(const AskedAll& items, Checks& checks);
unsigned types_of_items(const AskedAll& items);
// Whether `schema` or what applies in its place says something about the property.
bool evaluates(const Json& schema, const std::string& name, Checks& checks, int depth = 0);

}  // namespace kvasir::text
