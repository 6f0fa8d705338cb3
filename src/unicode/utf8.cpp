#include "unicode/utf8.hpp"

#include <algorithm>

namespace kvasir::unicode {
namespace {

struct Lead {
  std::uint32_t size;      // 0: cannot lead
  std::uint8_t low, high;  // allowed second byte: excludes overlong forms, surrogates and codes above U+10FFFF
};

constexpr Lead lead(std::uint8_t b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xc2) return {0, 0, 0};
  if (b < 0xe0) return {2, 0x80, 0xbf};
  if (b == 0xe0) return {3, 0xa0, 0xbf};
  if (b == 0xed) return {3, 0x80, 0x9f};
  if (b < 0xf0) return {3, 0x80, 0xbf};
  if (b == 0xf0) return {4, 0x90, 0xbf};
  if (b < 0xf4) return {4, 0x80, 0xbf};
  if (b == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

std::uint8_t byte(std::string_view text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }

// The length of the longest prefix of `text` that begins a well-formed character, and whether it is a whole one.
struct Prefix {
  std::uint32_t size;
  bool whole;
};

Prefix prefix(std::string_view text) {
  const Lead l = lead(byte(text, 0));
  if (l.size == 0) return {0, false};
  const auto available = std::min<std::size_t>(l.size, text.size());
  std::uint32_t n = 1;
  while (n < available) {
    const auto b = byte(text, n);
    if (n == 1 ? (b < l.low || b > l.high) : (b < 0x80 || b > 0xbf)) break;
    ++n;
  }
  return {n, n == l.size};
}

}  // namespace

Char decode_wide_char(std::string_view text) {
  const auto first = byte(text, 0);
  const Prefix p = prefix(text);
  if (!p.whole) return {kInvalidByte + first, 1};
  std::uint32_t code = first & (0x7fu >> p.size);
  for (std::uint32_t i = 1; i < p.size; ++i) code = code << 6 | (byte(text, i) & 0x3fu);
  return {code, p.size};
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto tail = text.substr(text.size() - back);
    if ((byte(tail, 0) & 0xc0) == 0x80) continue;  // a continuation byte: its lead is further left
    const Prefix p = prefix(tail);
    return !p.whole && p.size == back ? back : 0;
  }
  return 0;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Prefix p = prefix(text);
    if (p.whole) {
      out.append(text.substr(0, p.size));
    } else {
      out.append("\xef\xbf\xbd");
    }
    text.remove_prefix(std::max<std::uint32_t>(1, p.size));
  }
  return out;
}

}  // namespace kvasir::unicode
