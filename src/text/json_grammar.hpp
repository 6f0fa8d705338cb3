// The parts of JSON texts as nodes of a grammar.
//
// They allow a part of what RFC 8259 does, never more: numbers have at most 18 digits in front of the point and 16
// behind it, and white space is at most one space or one line break with 20 spaces or tabs in a place.
#pragma once

#include <cstdint>
#include <string>

#include "text/grammar.hpp"

namespace kvasir::text {

// Nodes of `grammar`, which must outlive this. Parts that every JSON text shares are added to it once.
class JsonGrammar {
 public:
  using Node = Grammar::Node;
  static constexpr std::int64_t kLargest = 999'999'999'999'999'999;  // 18 digits fit 64 bits

  explicit JsonGrammar(Grammar& grammar) : g_(grammar) {}

  Node space();  // between two parts of a text
  Node any_value();
  Node any_object();
  // Counts are of characters, not bytes; an escape, or a pair of escaped surrogates, is one. REQUIRES here and of
  // list: 0 <= least, and most is Grammar::kUnlimited or no less.
  Node string(std::int32_t least, std::int32_t most);
  Node number(bool negative);  // false: none with a sign in front
  // From low to high. REQUIRES: -kLargest <= low <= high <= kLargest.
  Node integer(std::int64_t low, std::int64_t high);
  Node list(Node item, std::int32_t least, std::int32_t most);  // items with commas between them, without brackets
  Node map(Node value);                                         // an object with any keys

 private:
  Node character();
  Node digits(std::int32_t least, std::int32_t most);
  Node natural(const std::string& low, const std::string& high);
  Node from(const std::string& low, std::size_t at);
  Node up_to(const std::string& high, std::size_t at);
  Node between(const std::string& low, const std::string& high, std::size_t at);

  Grammar& g_;
  Node any_ = -1, any_object_ = -1, space_ = -1, character_ = -1;
};

}  // namespace kvasir::text
