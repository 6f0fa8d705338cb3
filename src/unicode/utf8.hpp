// UTF-8, one character at a time, over bytes that may be anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir::unicode {

// `code` is a Unicode scalar value, or kInvalidByte + the byte when `text` does not start with a well-formed character;
// an ill-formed byte is always one Char of one byte, so that every byte of a text belongs to exactly one Char.
struct Char {
  std::uint32_t code = 0;
  std::uint32_t size = 0;  // in bytes, 1 to 4
};

inline constexpr std::uint32_t kInvalidByte = 0x110000;

Char decode_wide_char(std::string_view text);  // decode_char of a text that begins with a byte above 0x7f

// REQUIRES: !text.empty()
inline Char decode_char(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  return first < 0x80 ? Char{first, 1} : decode_wide_char(text);
}

void append_utf8(std::string& out, std::uint32_t code);

// How many bytes at the end of `text` could be the beginning of a well-formed character that is cut off: 0 to 3.
std::size_t incomplete_tail(std::string_view text);

// `text` with each maximal run of bytes that begins a character but does not complete it, and each other ill-formed
// byte, replaced by U+FFFD (the Unicode standard's section 3.9, "substitution of maximal subparts").
std::string to_valid_utf8(std::string_view text);

}  // namespace kvasir::unicode
