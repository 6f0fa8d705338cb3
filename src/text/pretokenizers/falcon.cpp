// Falcon: punctuation and every ASCII sign, GPT-2's pattern, then digits by threes.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_falcon {
namespace {

std::size_t punctuation(const Scanner& s, std::size_t i) {
  return s.skip(i, [](const Scanner::Item& c) {
    return c.kind == unicode::CharClass::kPunctuation || (c.sign() && c.code < 0x80);
  });
}

void split(std::string_view text, Emit emit) {
  isolate(text, punctuation,
          [&](std::string_view a) { split_gpt2(a, [&](std::string_view b) { isolate(b, three_digits, emit); }); });
}

constexpr std::string_view kNames[] = {"falcon"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_falcon
