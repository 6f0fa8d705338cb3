#include "text/json_grammar.hpp"

#include <algorithm>
#include <bitset>
#include <string_view>

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

JsonGrammar::Node JsonGrammar::pair(Node key, Node value) { return g_.sequence({key, g_.text(":"), space(), value}); }

JsonGrammar::Node JsonGrammar::map(Node pair, std::int32_t least, std::int32_t most) {
  return g_.sequence({g_.text("{"), space(), list(pair, least, most), space(), g_.text("}")});
}

JsonGrammar::Node JsonGrammar::any_value() {
  if (any_ >= 0) return any_;
  any_ = g_.declare();
  const Node object = any_map(any_);
  const Node array = g_.sequence({g_.text("["), space(), list(any_, 0, Grammar::kUnlimited), space(), g_.text("]")});
  any_object_ = object;
  g_.define(any_, g_.choice({object, array, string(0, Grammar::kUnlimited), number(), g_.text("true"), g_.text("false"),
                             g_.text("null")}));
  return any_;
}

JsonGrammar::Node JsonGrammar::any_object() {
  any_value();
  return any_object_;
}

JsonGrammar::Node JsonGrammar::number() {
  const Node whole = g_.choice({g_.text("0"), g_.sequence({g_.byte({{'1', '9'}}), digits(0, 17)})});
  const Node sign = g_.optional(g_.byte({{'+', '+'}, {'-', '-'}}));
  return g_.sequence({g_.optional(g_.text("-")), whole, g_.optional(g_.sequence({g_.text("."), digits(1, 16)})),
                      g_.optional(g_.sequence({g_.byte({{'e', 'e'}, {'E', 'E'}}), sign, digits(1, 2)}))});
}

JsonGrammar::Node JsonGrammar::integer() {
  return g_.choice({g_.text("0"), g_.sequence({g_.optional(g_.text("-")), g_.byte({{'1', '9'}}), digits(0, 17)})});
}

JsonGrammar::Node JsonGrammar::string(const Automaton& of) { return g_.sequence({g_.text("\""), walk(of, true)}); }

JsonGrammar::Node JsonGrammar::number(const Automaton& of) { return walk(of, false); }

// A node per state: what may follow it, and in strings the closing quote.
JsonGrammar::Node JsonGrammar::walk(const Automaton& of, bool in_string) {
  const auto& states = of.states();
  if (states.empty()) return g_.choice({});
  std::vector<Node> nodes(states.size());
  for (Node& n : nodes) n = g_.declare();
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::map<std::int32_t, std::vector<CharRange>> by_target;
    for (const Automaton::Edge& e : states[i].edges) by_target[e.to].push_back({e.low, e.high});
    std::vector<Node> ways;
    if (states[i].accepts) ways.push_back(g_.text(in_string ? "\"" : ""));
    for (const auto& [to, ranges] : by_target)
      ways.push_back(g_.sequence({characters(ranges, in_string), nodes[static_cast<std::size_t>(to)]}));
    g_.define(nodes[i], ways.size() == 1 ? ways[0] : g_.choice(std::move(ways)));
  }
  return nodes[0];
}

// One of these characters, as UTF-8 or, in strings, as the escape that JSON has for it.
JsonGrammar::Node JsonGrammar::characters(const std::vector<CharRange>& ranges, bool in_string) {
  std::vector<std::pair<char32_t, char32_t>> key;
  for (const CharRange& r : ranges) key.emplace_back(r.low, r.high);
  const auto known = classes_.find({in_string, key});
  if (known != classes_.end()) return known->second;
  std::vector<Node> ways;
  std::bitset<256> ascii;
  constexpr char kHex[] = "0123456789abcdef";
  constexpr std::string_view kEscaped = "\b\f\n\r\t", kLetters = "bfnrt";
  for (const CharRange& r : ranges) {
    for (char32_t c = r.low; c <= std::min<char32_t>(r.high, 0x7f); ++c) {
      if (!in_string || (c >= 0x20 && c != '"' && c != '\\')) {
        ascii.set(c);
        continue;
      }
      std::string escape = "\\";
      if (const auto at = kEscaped.find(static_cast<char>(c)); at != kEscaped.npos) {
        escape += kLetters[at];
      } else if (c < 0x20) {
        escape += std::string("u00") + kHex[c >> 4] + kHex[c & 15];
      } else {
        escape += static_cast<char>(c);
      }
      ways.push_back(g_.text(escape));
    }
    // Surrogates are no characters.
    if (r.high >= 0x80) {
      const char32_t low = std::max<char32_t>(r.low, 0x80);
      if (low < 0xd800) utf8(low, std::min<char32_t>(r.high, 0xd7ff), ways);
      if (r.high > 0xdfff) utf8(std::max<char32_t>(low, 0xe000), r.high, ways);
    }
  }
  if (ascii.any()) ways.push_back(g_.byte(ascii));
  const Node node = ways.size() == 1 ? ways[0] : g_.choice(std::move(ways));
  classes_.emplace(std::pair{in_string, std::move(key)}, node);
  return node;
}

// Sequences of ranges of bytes. REQUIRES: 0x80 <= low <= high, no surrogates in between.
void JsonGrammar::utf8(char32_t low, char32_t high, std::vector<Node>& out) {
  for (const char32_t most : {U'\x7ff', U'\xffff'})
    if (low <= most && high > most) {
      utf8(low, most, out);
      return utf8(most + 1, high, out);
    }
  const int more = high <= 0x7ff ? 1 : high <= 0xffff ? 2 : 3;
  // Cut so that below the first byte that differs all values are allowed.
  for (int i = 1; i <= more; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      utf8(low, low | mask, out);
      return utf8((low | mask) + 1, high, out);
    }
    if ((high & mask) != mask) {
      utf8(low, (high & ~mask) - 1, out);
      return utf8(high & ~mask, high, out);
    }
  }
  std::vector<Node> bytes;
  for (int i = more; i >= 0; --i) {
    const char32_t head = i < more ? 0x80 : more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
    const auto byte = [&](char32_t c) {
      return static_cast<std::uint8_t>(head | (i < more ? (c >> (6 * i)) & 0x3f : c >> (6 * i)));
    };
    bytes.push_back(g_.byte({{byte(low), byte(high)}}));
  }
  out.push_back(g_.sequence(std::move(bytes)));
}

}  // namespace kvasir::text
