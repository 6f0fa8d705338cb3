#include "unicode/case.hpp"

#include <algorithm>
#include <iterator>

#include "unicode/utf8.hpp"

namespace kvasir::unicode {
namespace {

// Every `stride`-th code point of first .. last maps to itself + delta.
struct CaseRange {
  std::uint32_t first, last;
  std::int32_t delta;
  std::uint32_t stride;
};

struct CaseString {
  std::uint32_t code;
  const char* text;
};

#include "unicode/case.inc"

template <std::size_t n, std::size_t m>
void append_mapped(std::string& out, std::uint32_t code, const CaseRange (&ranges)[n], const CaseString (&strings)[m]) {
  const auto* s = std::lower_bound(std::begin(strings), std::end(strings), code,
                                   [](const CaseString& a, std::uint32_t c) { return a.code < c; });
  if (s != std::end(strings) && s->code == code) {
    out += s->text;
    return;
  }
  const auto* r = std::lower_bound(std::begin(ranges), std::end(ranges), code,
                                   [](const CaseRange& a, std::uint32_t c) { return a.last < c; });
  const bool mapped = r != std::end(ranges) && code >= r->first && (code - r->first) % r->stride == 0;
  append_utf8(out, mapped ? static_cast<std::uint32_t>(static_cast<std::int32_t>(code) + r->delta) : code);
}

}  // namespace

void append_upper(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code);
  } else {
    append_mapped(out, code, kUpperCases, kUpperStrings);
  }
}

void append_lower(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else {
    append_mapped(out, code, kLowerCases, kLowerStrings);
  }
}

}  // namespace kvasir::unicode
