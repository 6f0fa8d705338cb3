// Whether a JSON value conforms to a JSON Schema.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.hpp"
#include "text/schema/automaton.hpp"
#include "text/schema/document.hpp"

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

// A pattern or a known format as an automaton; that of all strings for other formats. Throws as automaton_of_pattern.
Automaton automaton_of_word(const std::string& word, const std::string& value);

// All keywords that SchemaGrammar knows, and those that it cannot hold: uniqueItems, oneOf, multipleOf, `not`. Words
// of wrong types hold; so do patterns that cannot be read and references that lead in circles.
bool conforms_to(const Json& value, const Json& schema, const SchemaDocument& document, int depth = 0);

// Equal as JSON Schema means it: 1 and 1.0 are, whatever the order of keys.
bool equal_values(const Json& a, const Json& b);

}  // namespace kvasir::text
