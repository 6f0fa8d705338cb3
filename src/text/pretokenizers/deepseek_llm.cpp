// DeepSeek LLM (2023): a sequence of patterns, each applied to every part that the ones before it left, matched or not.
#include <algorithm>
#include <iterator>

#include "text/split.hpp"

namespace kvasir::text::pretokenizers_deepseek_llm {
namespace {

using Item = Scanner::Item;

// The vocabulary's own list of letters: those with case, as of an earlier Unicode version.
constexpr unicode::CodeRange kCasedLetters[] = {
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},       {0xd8, 0xf6},
    {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},     {0x295, 0x2af},     {0x370, 0x373},
    {0x376, 0x377},     {0x37b, 0x37d},     {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},
    {0x38c, 0x38c},     {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
    {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},   {0x1c90, 0x1cba},
    {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},   {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},   {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},
    {0x1f5b, 0x1f5b},   {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},   {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210a, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},   {0x2c7e, 0x2ce4},
    {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},   {0xa680, 0xa69b},   {0xa722, 0xa76f},
    {0xa771, 0xa787},   {0xa78b, 0xa78e},   {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},
    {0xff21, 0xff3a},   {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};

bool cased_letter(const Item& c) {
  if (c.code < 128) return c.letter();
  const auto* r =
      std::lower_bound(std::begin(kCasedLetters), std::end(kCasedLetters), c.code,
                       [](const unicode::CodeRange& range, std::uint32_t code) { return range.last < code; });
  return r != std::end(kCasedLetters) && r->first <= c.code;
}

// [!-/:-~！-／：-～‘-‟　-。] as the vocabulary has it: ':' to '~' holds the ASCII letters, in both widths.
bool mark(const Item& c) {
  const auto in = [&](std::uint32_t first, std::uint32_t last) { return c.code >= first && c.code <= last; };
  return in('!', '/') || in(':', '~') || in(0xff01, 0xff0f) || in(0xff1a, 0xff5e) || in(0x2018, 0x201f) ||
         in(0x3000, 0x3002);
}

// [一-龥ࠀ-一가-퟿]: U+0800 to U+9FA5 and from the first Hangul syllable to the last code below the surrogates.
bool east_asian(const Item& c) {
  return (c.code >= 0x800 && c.code <= 0x9fa5) || (c.code >= 0xac00 && c.code <= 0xd7ff);
}

// \s?[accept]+
template <class Accept>
std::size_t spaced_run(const Scanner& s, std::size_t i, Accept accept) {
  const Item c = s.at(i);
  if (c.size == 0) return i;
  if (accept(c)) return s.skip(i, accept);
  if (!c.space()) return i;
  const std::size_t end = s.skip(i + c.size, accept);
  return end > i + c.size ? end : i;
}

// \s+$ : cuts the white space off the end.
void trailing_space(std::string_view text, Emit emit) {
  const Scanner s(text);
  std::size_t end = 0;  // behind the last character that is no space
  for (std::size_t i = 0; i < text.size();) {
    const Item c = s.at(i);
    i += c.size;
    if (!c.space()) end = i;
  }
  if (end > 0) emit(s.slice(0, end));
  if (end < text.size()) emit(s.slice(end, text.size()));
}

std::size_t newline(const Scanner& s, std::size_t i) { return s.at(i).newline() ? i + 1 : i; }
std::size_t word(const Scanner& s, std::size_t i) { return spaced_run(s, i, cased_letter); }
std::size_t marks(const Scanner& s, std::size_t i) { return spaced_run(s, i, mark); }
std::size_t script(const Scanner& s, std::size_t i) { return s.skip(i, east_asian); }
std::size_t numbers(const Scanner& s, std::size_t i) {
  return s.skip(i, [](const Item& c) { return c.number(); });
}

void split(std::string_view text, Emit emit) {
  const auto scripts = [&](std::string_view t) {
    isolate(t, script, [&](std::string_view part) { isolate(part, numbers, emit); });
  };
  const auto spaces = [&](std::string_view t) { trailing_space(t, scripts); };
  const auto words = [&](std::string_view t) {
    isolate(t, word, [&](std::string_view part) { isolate(part, marks, spaces); });
  };
  isolate(text, newline, words);
}

constexpr std::string_view kNames[] = {"deepseek-llm"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_deepseek_llm
