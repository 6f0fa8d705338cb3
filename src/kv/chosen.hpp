// Which tokens the rows of a step see, by the choice of an index.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kv/page.hpp"

namespace kvasir::kv {

// Words of 64 tokens that `tokens` take.
constexpr std::size_t chosen_words(std::int64_t tokens) { return static_cast<std::size_t>((tokens + 63) / 64); }

// Rows whose scores are held at once.
inline constexpr int kIndexRows = 16;

// Row r sees token t if bit t % 64 of words[r * stride + t / 64] is set. Queries at positions below `all` see
// everything, and their words say nothing.
struct Chosen {
  const std::uint64_t* words = nullptr;  // null: nothing is chosen, all rows see everything
  std::ptrdiff_t stride = 0;
  std::int64_t all = 0;

  explicit operator bool() const { return words != nullptr; }
  Chosen from(std::ptrdiff_t row) const { return {words ? words + row * stride : nullptr, stride, all}; }
  // Those of the page whose token 0 is `first`, a multiple of 128: two words.
  const std::uint64_t* page(std::ptrdiff_t row, std::int64_t first) const { return words + row * stride + first / 64; }
  // Whether row `row`, whose query is at `position`, sees any of the page's tokens.
  bool any(std::ptrdiff_t row, std::int64_t position, std::int64_t first) const {
    if (position < all) return true;
    const std::uint64_t* const w = page(row, first);
    return (w[0] | w[1]) != 0;
  }
};
static_assert(kPageTokens == 128);

}  // namespace kvasir::kv
