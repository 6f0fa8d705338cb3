// The few character classes that pre-tokenizers distinguish.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kvasir::unicode {

// \p{L}, \p{N}, \p{P} and \s (the White_Space property); kOther is everything else, ill-formed bytes included. The
// classes are disjoint: no White_Space character has one of the three general categories.
enum class CharClass : std::uint8_t { kOther, kLetter, kNumber, kPunctuation, kSpace };

// First and last code point, both included.
struct CodeRange {
  std::uint32_t first, last;
};

// Code point -> class by two look-ups. Built once (about a millisecond), immutable afterwards.
class CharClasses {
 public:
  static const CharClasses& get();

  // Any 32-bit value is allowed; beyond Unicode is kOther.
  CharClass of(std::uint32_t code) const {
    if (code < 128) return ascii_[code];
    if (code >= 0x110000) return CharClass::kOther;
    return blocks_[block_of_[code >> 8] * 256u + (code & 255)];
  }

 private:
  CharClasses();

  std::array<CharClass, 128> ascii_{};
  std::array<std::uint16_t, 0x1100> block_of_{};
  std::vector<CharClass> blocks_;  // (distinct blocks, 256)
};

inline CharClass char_class(std::uint32_t code) { return CharClasses::get().of(code); }

}  // namespace kvasir::unicode
