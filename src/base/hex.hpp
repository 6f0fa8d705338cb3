// Hexadecimal digits, in either case.
#pragma once

#include <string_view>

namespace kvasir {

constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte that two digits are; -1: these are not two digits.
constexpr int hex_byte(std::string_view two) {
  const int high = two.size() == 2 ? hex_digit(two[0]) : -1, low = two.size() == 2 ? hex_digit(two[1]) : -1;
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace kvasir
