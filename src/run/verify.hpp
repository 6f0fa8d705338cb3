// The one loop that holds guesses against what is drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvasir::run {

// draw(i) draws a token by the row behind i guesses, all of them right, and returns it; -1: the text is over. Ends with
// the first token that was not guessed. Returns how many guesses were right and followed by a draw. Each draw is the
// one that the text would have had without guesses, so they change no distribution.
template <class Draw>
std::size_t verify_guesses(std::span<const std::int32_t> guesses, Draw&& draw) {
  for (std::size_t right = 0;; ++right) {
    const std::int32_t id = draw(right);
    if (id < 0 || right == guesses.size() || id != guesses[right]) return right;
  }
}

}  // namespace kvasir::run
