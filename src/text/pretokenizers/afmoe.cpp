// AFMoE: digits by threes from the right, scripts without spaces, then words and signs.
#include <algorithm>
#include <iterator>

#include "text/signs.hpp"

namespace kvasir::text::pretokenizers_afmoe {
namespace {

// Han, kana, half-width katakana, Thai, Lao, Khmer, Myanmar and Hangul, as the vocabulary lists them.
constexpr unicode::CodeRange kScripts[] = {
    {0x0e40, 0x0e7f}, {0x0e80, 0x0eff}, {0x1000, 0x109f}, {0x1100, 0x11ff}, {0x1780, 0x17ff},
    {0x2f00, 0x2fdf}, {0x3040, 0x30ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xa9e0, 0xa9ff},
    {0xaa60, 0xaa7f}, {0xac00, 0xd7af}, {0xf900, 0xfaff}, {0xff65, 0xff9f},
};

std::size_t script(const Scanner& s, std::size_t i) {
  return s.skip(i, [](const Scanner::Item& c) {
    return std::any_of(std::begin(kScripts), std::end(kScripts),
                       [&](const unicode::CodeRange& r) { return c.within(r.first, r.last); });
  });
}

void split(std::string_view text, Emit emit) {
  const auto match = [](const Scanner& s, std::size_t i) { return signs_match(s, i); };
  split_thousands(
      text, [&](std::string_view a) { isolate(a, script, [&](std::string_view b) { isolate(b, match, emit); }); });
}

constexpr std::string_view kNames[] = {"afmoe"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_afmoe
