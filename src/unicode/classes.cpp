#include "unicode/classes.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace kvasir::unicode {
namespace {

#include "unicode/ranges.inc"

constexpr CodeRange kSpaceRanges[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                      {0x205f, 0x205f}, {0x3000, 0x3000}};

void fill(std::span<CharClass> all, std::span<const CodeRange> ranges, CharClass value) {
  for (const auto& r : ranges) std::fill(all.begin() + r.first, all.begin() + r.last + 1, value);
}

}  // namespace

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() {
  std::vector<CharClass> all(0x110000, CharClass::kOther);
  fill(all, kAccentRanges, CharClass::kAccent);
  fill(all, kMarkRanges, CharClass::kMark);
  fill(all, kSymbolRanges, CharClass::kSymbol);
  fill(all, kLetterRanges, CharClass::kLetter);
  fill(all, kUpperRanges, CharClass::kUpper);
  fill(all, kLowerRanges, CharClass::kLower);
  fill(all, kNumberRanges, CharClass::kNumber);
  fill(all, kDigitRanges, CharClass::kDigit);
  fill(all, kPunctuationRanges, CharClass::kPunctuation);
  fill(all, kSpaceRanges, CharClass::kSpace);
  std::copy_n(all.begin(), ascii_.size(), ascii_.begin());
  for (std::size_t b = 0; b < block_of_.size(); ++b) {
    const auto block = all.begin() + static_cast<std::ptrdiff_t>(b * 256);
    std::size_t known = 0;
    while (known * 256 < blocks_.size() &&
           !std::equal(block, block + 256, blocks_.begin() + static_cast<std::ptrdiff_t>(known * 256))) {
      ++known;
    }
    if (known * 256 == blocks_.size()) blocks_.insert(blocks_.end(), block, block + 256);
    block_of_[b] = static_cast<std::uint16_t>(known);
  }
}

}  // namespace kvasir::unicode
