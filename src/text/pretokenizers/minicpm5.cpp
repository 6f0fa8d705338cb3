// MiniCPM 5: numbers by threes first, then Llama 3's pattern on what lies between.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {
namespace {

void split(std::string_view text, Emit emit) {
  isolate(text, three_numbers, [&](std::string_view part) { split_words<Words{}>(part, emit); });
}

constexpr std::string_view kNames[] = {"minicpm5"};

}  // namespace

extern const Pretokenizer minicpm5;
const Pretokenizer minicpm5{.serves = kNames, .split = split, .whole_words = true};

}  // namespace kvasir::text::entries::pretokenizers
