// Whether a JSON value conforms to a JSON Schema.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.hpp"
#include "text/schema/automaton.hpp"
#include "text/schema/document.hpp"
#include "text/schema/work.hpp"

namespace kvasir::text {

// The types that JSON Schema names, integers and other numbers apart.
enum TypeBit : unsigned {
  kNullBit = 1,
  kBooleanBit = 2,
  kObjectBit = 4,
  kArrayBit = 8,
  kStringBit = 16,
  kIntegerBit = 32,
  kFractionBit = 64,
  kAllBits = 127,
};

// Of "object" and the like; 0: it is no type of JSON.
unsigned type_bits(const std::string& name);
// What a `type` of one or several names allows. Throws Error(kBadInput) for what is neither.
unsigned types_of(const Json& type);
unsigned type_of(const Json& value);

// The characters of UTF-8 text.
std::int64_t count_characters(const std::string& text);

// What the checks of one document share: how much they may cost, and what was read once.
class Checks {
 public:
  // Both must outlive this.
  Checks(const SchemaDocument& document, Work& work) : document_(document), work_(work) {}

  void spend(std::uint64_t units) { work_.spend(units); }
  Work& work() { return work_; }

  struct Pattern {
    Automaton strings;
    std::string error = {};  // not empty: it cannot be read
  };
  // Of `pattern` or a known format; all strings for other formats.
  const Pattern& pattern(const std::string& word, const std::string& value);
  Automaton both(const Automaton& a, const Automaton& b);

  // All keywords that SchemaGrammar knows, and those that it cannot hold: uniqueItems, oneOf, multipleOf, `not`. Words
  // of wrong types hold; so do patterns that cannot be read and references that lead in circles.
  bool conforms(const Json& value, const Json& schema, int depth = 0);
  // Equal as JSON Schema means it: 1 and 1.0 are, whatever the order of keys.
  bool equal(const Json& a, const Json& b);
  bool lists(const Json& list, const Json& value);  // whether one of the array is equal
  // What a reference leads to; null: nothing.
  const Json* find(const Json& from, const std::string& reference);

  // All throw Error(kBadInput) when nothing of the work is left.

 private:
  const SchemaDocument& document_;
  Work& work_;
  std::map<std::pair<std::string, std::string>, Pattern> patterns_;
  std::map<const Json*, std::set<std::string_view>> strings_;  // of lists
};

}  // namespace kvasir::text
