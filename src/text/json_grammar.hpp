// The parts of JSON texts as nodes of a grammar.
//
// They allow a part of what RFC 8259 does, never more: numbers have at most 18 digits in front of the point and 16
// behind it, and white space is at most one space or one line break with 20 spaces or tabs in a place.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar.hpp"
#include "text/schema/automaton.hpp"

namespace kvasir::text {

// Nodes of `grammar`, which must outlive this. Parts that every JSON text shares are added to it once.
class JsonGrammar {
 public:
  using Node = Grammar::Node;
  explicit JsonGrammar(Grammar& grammar) : g_(grammar) {}

  Node space();  // between two parts of a text
  Node any_value();
  Node any_object();
  // Counts are of characters, not bytes; an escape, or a pair of escaped surrogates, is one. REQUIRES here and of
  // list: 0 <= least, and most is Grammar::kUnlimited or no less.
  Node string(std::int32_t least, std::int32_t most);
  Node string(const Automaton& of);  // those of the automaton, with escapes where JSON wants them
  Node number();
  Node integer();
  Node number(const Automaton& of);                             // texts of numbers as they are
  Node list(Node item, std::int32_t least, std::int32_t most);  // items with commas between them, without brackets
  Node pair(Node key, Node value);                              // "key": value
  Node map(Node pair, std::int32_t least = 0, std::int32_t most = Grammar::kUnlimited);  // an object of such
  Node any_map(Node value) { return map(pair(string(0, Grammar::kUnlimited), value)); }

 private:
  Node character();
  Node digits(std::int32_t least, std::int32_t most);
  Node walk(const Automaton& of, bool in_string);
  Node characters(const std::vector<CharRange>& ranges, bool in_string);
  void utf8(char32_t low, char32_t high, std::vector<Node>& out);

  Grammar& g_;
  Node any_ = -1, any_object_ = -1, space_ = -1, character_ = -1;
  std::map<std::pair<bool, std::vector<std::pair<char32_t, char32_t>>>, Node> classes_;
};

}  // namespace kvasir::text
