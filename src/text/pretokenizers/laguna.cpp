// Laguna: lines and what separates them, then Llama 3's pattern with single digits.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_laguna {
namespace {

std::size_t newlines(const Scanner& s, std::size_t i) {
  return s.skip(i, [](const Scanner::Item& c) { return c.is('\n'); });
}

void split(std::string_view text, Emit emit) {
  isolate(text, newlines, [&](std::string_view line) { split_words<Words{.digits = 1}>(line, emit); });
}

constexpr std::string_view kNames[] = {"laguna"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_laguna
