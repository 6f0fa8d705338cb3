// Cohere's newer models: digits by threes from the right where no word goes on behind them, then GPT-4o's pattern, on
// composed characters.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_tiny_aya {
namespace {

using Item = Scanner::Item;

bool digit(const Item& c) { return c.kind == unicode::CharClass::kDigit; }
// \w but for decimal digits: letters, marks, numbers and the connectors among punctuation.
bool word(const Item& c) {
  return c.letter() || c.mark() || c.number() || c.is('_') || c.within(0x203f, 0x2040) || c.code == 0x2054 ||
         c.within(0xfe33, 0xfe34) || c.within(0xfe4d, 0xfe4f) || c.code == 0xff3f;
}

// \d{1,3}(?=(?:\d{3})*\b) isolated: a match needs a word boundary behind the run.
void split_digits(std::string_view text, Emit emit) {
  const Scanner s(text);
  std::size_t gap = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = s.skip(i, digit);
    if (end == i) {
      i += s.at(i).size;
      continue;
    }
    const Item next = s.at(end);
    if (!word(next)) {
      if (gap < i) emit(s.slice(gap, i));
      split_thousands(s.slice(i, end), emit);
      gap = end;
    }
    i = end;
  }
  if (gap < text.size()) emit(s.slice(gap, text.size()));
}

void split(std::string_view text, Emit emit) {
  constexpr Words kWords{.contraction = Words::Contraction::kBehind,
                         .letters = Words::Letters::kCased,
                         .behind = Words::Behind::kNewlinesAndSlashes};
  split_digits(text, [&](std::string_view part) { split_words<kWords>(part, emit); });
}

constexpr std::string_view kNames[] = {"tiny_aya", "cohere2moe"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split, .nfc = true};

}  // namespace kvasir::text::pretokenizers_tiny_aya
