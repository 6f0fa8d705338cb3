// How tests and the fuzz target run texts through grammars.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/splitmix.hpp"
#include "text/grammar.hpp"

namespace kvasir::text {

// The state behind `text`, kDead when it is no beginning of a text of the grammar.
inline Matcher::State behind(Matcher& m, std::string_view text) {
  Matcher::State state = m.start();
  for (std::size_t i = 0; i < text.size() && state != Matcher::kDead; ++i)
    state = m.next(state, static_cast<std::uint8_t>(text[i]));
  return state;
}

// Whether `text` as a whole is of the grammar.
inline bool conforms(Matcher& m, std::string_view text) {
  const Matcher::State state = behind(m, text);
  return state != Matcher::kDead && m.accepts(state);
}

// A byte that may follow, chosen by `seed`; none when no byte may. What closes something is preferred, or walks would
// stay in strings for ever.
inline std::optional<std::uint8_t> random_byte(Matcher& m, Matcher::State state, std::uint64_t& seed) {
  std::vector<std::uint8_t> allowed;
  for (int b = 0; b < 256; ++b)
    if (m.next(state, static_cast<std::uint8_t>(b)) != Matcher::kDead) allowed.push_back(static_cast<std::uint8_t>(b));
  if (allowed.empty()) return {};
  std::uint8_t byte = allowed[splitmix64(seed) % allowed.size()];
  for (const char close : {'"', '}', ']'})
    if (splitmix64(seed) % 3 == 0 && m.next(state, static_cast<std::uint8_t>(close)) != Matcher::kDead)
      byte = static_cast<std::uint8_t>(close);
  return byte;
}

}  // namespace kvasir::text
