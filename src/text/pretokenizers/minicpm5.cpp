// MiniCPM 5: numbers by threes first, then Llama 3's pattern on what lies between.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_minicpm5 {
namespace {

void split(std::string_view text, Emit emit) {
  isolate(text, three_numbers, [&](std::string_view part) { split_words<Words{}>(part, emit); });
}

constexpr std::string_view kNames[] = {"minicpm5"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split, .whole_words = true};

}  // namespace kvasir::text::pretokenizers_minicpm5
