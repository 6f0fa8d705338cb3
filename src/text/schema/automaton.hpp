// Sets of strings as finite automata over Unicode characters: what patterns, formats and lengths of a JSON Schema say
// of one string at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text {

// First and last character, both included.
struct CharRange {
  char32_t low, high;
  bool operator==(const CharRange&) const = default;
};

// Deterministic, and every state leads to an end: a string that has come so far can be completed. Values.
class Automaton {
 public:
  static constexpr char32_t kLastChar = 0x10ffff;
  static constexpr std::size_t kMostStates = 4096;
  static constexpr std::size_t kMostEdges = std::size_t{1} << 21;

  struct Edge {
    char32_t low, high;
    std::int32_t to;
    bool operator==(const Edge&) const = default;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  // ascending, they do not overlap
  };

  Automaton() = default;  // no string at all
  // `states`, the first one the start; trimmed to what leads to an end. Throws Error(kBadInput) above kMostStates or
  // kMostEdges, as everything here that makes one.
  explicit Automaton(std::vector<State> states);

  static Automaton anything();
  static Automaton literal(std::string_view utf8);
  static Automaton without(std::string_view utf8);                  // strings that do not hold it. REQUIRES: not empty
  static Automaton lengths(std::int32_t least, std::int32_t most);  // most -1: no limit

  const std::vector<State>& states() const { return states_; }  // the first one is the start
  bool empty() const { return states_.empty(); }
  bool matches(std::string_view utf8) const;

  Automaton complement() const;
  friend Automaton operator&(const Automaton& a, const Automaton& b) {
    std::uint64_t steps = 0;
    return both(a, b, steps);
  }
  // a & b; adds to `steps` what that costs, in edges looked at, also when it throws.
  static Automaton both(const Automaton& a, const Automaton& b, std::uint64_t& steps);
  std::size_t edges() const;

 private:
  void trim();
  void merge_equal();

  std::vector<State> states_;
};

}  // namespace kvasir::text
