#include "text/json_grammar.hpp"

#include <algorithm>

namespace kvasir::text {

JsonGrammar::Node JsonGrammar::space() {
  if (space_ < 0)
    space_ = g_.choice({g_.text(""), g_.text(" "),
                        g_.sequence({g_.text("\n"), g_.repeat(g_.byte({{' ', ' '}, {'\t', '\t'}}), 0, 20)})});
  return space_;
}

// A character of a string: UTF-8 as Unicode's table 3-7 has it, or an escape. Surrogates come in pairs, or parsers
// refuse the text.
JsonGrammar::Node JsonGrammar::character() {
  if (character_ >= 0) return character_;
  const Node more = g_.byte({{0x80, 0xbf}}), hex = g_.byte({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
  const Node d = g_.byte({{'d', 'd'}, {'D', 'D'}});
  const auto escape = [&](std::vector<Node> code) {
    code.insert(code.begin(), g_.text("\\u"));
    return g_.sequence(std::move(code));
  };
  character_ = g_.choice(
      {g_.byte({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}}), g_.sequence({g_.byte({{0xc2, 0xdf}}), more}),
       g_.sequence({g_.text("\xe0"), g_.byte({{0xa0, 0xbf}}), more}),
       g_.sequence({g_.byte({{0xe1, 0xec}, {0xee, 0xef}}), more, more}),
       g_.sequence({g_.text("\xed"), g_.byte({{0x80, 0x9f}}), more}),
       g_.sequence({g_.text("\xf0"), g_.byte({{0x90, 0xbf}}), more, more}),
       g_.sequence({g_.byte({{0xf1, 0xf3}}), more, more, more}),
       g_.sequence({g_.text("\xf4"), g_.byte({{0x80, 0x8f}}), more, more}),
       g_.sequence(
           {g_.text("\\"),
            g_.byte(
                {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}})}),
       escape({g_.byte({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex, hex, hex}),
       escape({d, g_.byte({{'0', '7'}}), hex, hex}),
       escape({d, g_.byte({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), hex, hex,
               escape({d, g_.byte({{'c', 'f'}, {'C', 'F'}}), hex, hex})})});
  return character_;
}

JsonGrammar::Node JsonGrammar::string(std::int32_t least, std::int32_t most) {
  return g_.sequence({g_.text("\""), g_.repeat(character(), least, most), g_.text("\"")});
}

JsonGrammar::Node JsonGrammar::digits(std::int32_t least, std::int32_t most) {
  return g_.repeat(g_.byte({{'0', '9'}}), least, most);
}

JsonGrammar::Node JsonGrammar::list(Node item, std::int32_t least, std::int32_t most) {
  if (most == 0) return g_.text("");
  const Node rest = g_.repeat(g_.sequence({g_.text(","), space(), item}), std::max(least - 1, 0),
                              most == Grammar::kUnlimited ? most : most - 1);
  const Node some = g_.sequence({item, rest});
  return least > 0 ? some : g_.optional(some);
}

JsonGrammar::Node JsonGrammar::map(Node value) {
  const Node pair = g_.sequence({string(0, Grammar::kUnlimited), g_.text(":"), space(), value});
  return g_.sequence({g_.text("{"), space(), list(pair, 0, Grammar::kUnlimited), space(), g_.text("}")});
}

JsonGrammar::Node JsonGrammar::any_value() {
  if (any_ >= 0) return any_;
  any_ = g_.declare();
  const Node object = map(any_);
  const Node array = g_.sequence({g_.text("["), space(), list(any_, 0, Grammar::kUnlimited), space(), g_.text("]")});
  any_object_ = object;
  g_.define(any_, g_.choice({object, array, string(0, Grammar::kUnlimited), number(true), g_.text("true"),
                             g_.text("false"), g_.text("null")}));
  return any_;
}

JsonGrammar::Node JsonGrammar::any_object() {
  any_value();
  return any_object_;
}

// Numbers of as many digits as `low`, from it on: those that differ first in digit `at` or behind.
JsonGrammar::Node JsonGrammar::from(const std::string& low, std::size_t at) {
  if (at == low.size()) return g_.text("");
  const auto left = static_cast<std::int32_t>(low.size() - at - 1);
  std::vector<Node> nodes = {g_.sequence({g_.text(low.substr(at, 1)), from(low, at + 1)})};
  if (low[at] < '9')
    nodes.push_back(g_.sequence({g_.byte({{static_cast<std::uint8_t>(low[at] + 1), '9'}}), digits(left, left)}));
  return g_.choice(std::move(nodes));
}

JsonGrammar::Node JsonGrammar::up_to(const std::string& high, std::size_t at) {
  if (at == high.size()) return g_.text("");
  const auto left = static_cast<std::int32_t>(high.size() - at - 1);
  std::vector<Node> nodes = {g_.sequence({g_.text(high.substr(at, 1)), up_to(high, at + 1)})};
  if (high[at] > '0')
    nodes.push_back(g_.sequence({g_.byte({{'0', static_cast<std::uint8_t>(high[at] - 1)}}), digits(left, left)}));
  return g_.choice(std::move(nodes));
}

// REQUIRES: as many digits in both, low <= high.
JsonGrammar::Node JsonGrammar::between(const std::string& low, const std::string& high, std::size_t at) {
  if (at == low.size()) return g_.text("");
  if (low[at] == high[at]) return g_.sequence({g_.text(low.substr(at, 1)), between(low, high, at + 1)});
  const auto left = static_cast<std::int32_t>(low.size() - at - 1);
  std::vector<Node> nodes = {g_.sequence({g_.text(low.substr(at, 1)), from(low, at + 1)}),
                             g_.sequence({g_.text(high.substr(at, 1)), up_to(high, at + 1)})};
  if (high[at] - low[at] > 1)
    nodes.push_back(
        g_.sequence({g_.byte({{static_cast<std::uint8_t>(low[at] + 1), static_cast<std::uint8_t>(high[at] - 1)}}),
                     digits(left, left)}));
  return g_.choice(std::move(nodes));
}

// Without a sign and without leading zeros.
JsonGrammar::Node JsonGrammar::natural(const std::string& low, const std::string& high) {
  std::vector<Node> nodes;
  for (std::size_t n = low.size(); n <= high.size(); ++n) {
    const std::string least = n == 1 ? "0" : "1" + std::string(n - 1, '0');
    nodes.push_back(between(n == low.size() ? low : least, n == high.size() ? high : std::string(n, '9'), 0));
  }
  return g_.choice(std::move(nodes));
}

JsonGrammar::Node JsonGrammar::integer(std::int64_t low, std::int64_t high) {
  std::vector<Node> nodes;
  if (high >= 0) nodes.push_back(natural(std::to_string(std::max<std::int64_t>(low, 0)), std::to_string(high)));
  if (low < 0)
    nodes.push_back(
        g_.sequence({g_.text("-"), natural(std::to_string(std::max<std::int64_t>(-high, 1)), std::to_string(-low))}));
  return g_.choice(std::move(nodes));
}

JsonGrammar::Node JsonGrammar::number(bool negative) {
  const Node whole = g_.choice({g_.text("0"), g_.sequence({g_.byte({{'1', '9'}}), digits(0, 17)})});
  const Node sign = g_.optional(g_.byte({{'+', '+'}, {'-', '-'}}));
  std::vector<Node> parts = {whole, g_.optional(g_.sequence({g_.text("."), digits(1, 16)})),
                             g_.optional(g_.sequence({g_.byte({{'e', 'e'}, {'E', 'E'}}), sign, digits(1, 2)}))};
  if (negative) parts.insert(parts.begin(), g_.optional(g_.text("-")));
  return g_.sequence(std::move(parts));
}

}  // namespace kvasir::text
