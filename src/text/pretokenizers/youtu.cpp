// Youtu: East Asian scripts and their punctuation, then GPT-4o's pattern with single digits.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_youtu {
namespace {

using Item = Scanner::Item;

bool hangul(const Item& c) { return c.within(0xac00, 0xd7a3) || c.within(0x3131, 0x318e); }
bool bopomofo(const Item& c) { return c.within(0x3105, 0x312f); }
bool han_or_kana(const Item& c) { return c.within(0x4e00, 0x9fa5) || c.within(0x3040, 0x30ff); }
// [！…“”‘’—：；，、-〿︰-﹏]
bool punctuation(const Item& c) {
  return c.code == 0xff01 || c.code == 0x2026 || c.within(0x201c, 0x201d) || c.within(0x2018, 0x2019) ||
         c.code == 0x2014 || c.within(0xff1a, 0xff1b) || c.code == 0xff0c || c.within(0x3001, 0x303f) ||
         c.within(0xfe30, 0xfe4f);
}

std::size_t script(const Scanner& s, std::size_t i) {
  for (const auto& accept : {hangul, punctuation, bopomofo, han_or_kana}) {
    if (const auto end = s.skip(i, accept); end > i) return end;
  }
  return i;
}

void split(std::string_view text, Emit emit) {
  constexpr Words kWords{.contraction = Words::Contraction::kBehind,
                         .letters = Words::Letters::kCased,
                         .digits = 1,
                         .behind = Words::Behind::kNewlinesAndSlashes};
  isolate(text, script, [&](std::string_view part) { split_words<kWords>(part, emit); });
}

constexpr std::string_view kNames[] = {"youtu"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split, .whole_words = true};

}  // namespace kvasir::text::pretokenizers_youtu
