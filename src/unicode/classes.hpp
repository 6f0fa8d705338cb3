// The few character classes that pre-tokenizers distinguish.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kvasir::unicode {

// The general categories C (kOther: control characters, unassigned codes, ill-formed bytes), Mn (kAccent), Mc and Me
// (kMark), S, P, Nl and No (kNumber), Nd (kDigit), the White_Space property, and letters: Lu and Lt, Ll, those without
// case (Lm, Lo). White_Space comes first: it takes all of Z and a few control characters.
enum class CharClass : std::uint8_t {
  kOther,
  kAccent,
  kMark,
  kSymbol,
  kPunctuation,
  kNumber,
  kDigit,
  kSpace,
  kUpper,
  kLower,
  kLetter,
};

// \p{L}
constexpr bool is_letter(CharClass c) { return c >= CharClass::kUpper; }
// \p{N}
constexpr bool is_number(CharClass c) { return c == CharClass::kNumber || c == CharClass::kDigit; }
// \p{M}
constexpr bool is_mark(CharClass c) { return c == CharClass::kAccent || c == CharClass::kMark; }

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
