// Stop strings in a stream of text pieces: what may be shown now, what must wait, and when to stop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::run {

// Ends the text before a stop string.
//
// Which one: the stop string whose last byte comes first. If several end at that byte, the one that begins first. So
// the result does not depend on how the text is cut into pieces, and no text after a complete stop string is waited
// for.
//
// Held back: the longest suffix of the text that is the beginning of a stop string, and no more. If stop strings and
// text are UTF-8, the released text ends at a character boundary.
class StopMatcher {
 public:
  // Throws Error(kBadInput) when a stop string is empty. None at all is fine: everything is released at once.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Step {
    std::string_view text;  // release this; valid until the next call
    bool stopped = false;
    int which = -1;  // index of the stop string that was hit
  };

  // The next piece. REQUIRES: has not stopped. O(piece * stop strings).
  Step feed(std::string_view piece);

  // The end of the text without a stop string: what was still held back.
  std::string_view finish();

  bool stopped() const { return stopped_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t>
        border;                 // border[i]: longest proper prefix of text that ends at i (Knuth, Morris, Pratt)
    std::uint32_t matched = 0;  // length of the longest prefix that ends at the current byte
  };
  static void advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string pending_;       // released in the last step, then held back
  std::size_t released_ = 0;  // how much of pending_ the last step released
  bool stopped_ = false;
};

}  // namespace kvasir::run
