// The one loop that holds draft tokens against what is drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvasir::run {

// draw(i) draws a token by the row behind i draft tokens, all of them right, and returns it; -1: the text is over. Ends
// with the first token that was not drafted. Returns how many draft tokens were right and followed by a draw. Each draw
// is the one that the text would have had without draft tokens, so they change no distribution.
template <class Draw>
std::size_t verify_drafts(std::span<const std::int32_t> draft_tokens, Draw&& draw) {
  for (std::size_t right = 0;; ++right) {
    const std::int32_t id = draw(right);
    if (id < 0 || right == draft_tokens.size() || id != draft_tokens[right]) return right;
  }
}

}  // namespace kvasir::run
