#include "text/bert_text.hpp"

#include <algorithm>
#include <iterator>

#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

using unicode::CharClass;

// Unassigned codes are not among them.
constexpr unicode::CodeRange kDropped[] = {
    {0x0, 0x8},         {0xb, 0xc},         {0xe, 0x1f},          {0x7f, 0x9f},       {0xad, 0xad},
    {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},       {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},     {0x202a, 0x202e},   {0x2060, 0x2064},
    {0x2066, 0x206f},   {0xe000, 0xf8ff},   {0xfeff, 0xfeff},     {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x13438}, {0x1bca0, 0x1bca3},   {0x1d173, 0x1d17a}, {0xe0001, 0xe0001},
    {0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd},
};

}  // namespace

bool is_blank(std::uint32_t code) {
  return code == '\t' || code == '\n' || code == '\r' ||
         (unicode::char_class(code) == CharClass::kSpace && code >= 0x20 && code != 0x85);
}

bool is_dropped(std::uint32_t code) {
  const auto* r = std::lower_bound(std::begin(kDropped), std::end(kDropped), code,
                                   [](const unicode::CodeRange& a, std::uint32_t c) { return a.last < c; });
  return code == 0xfffd || code >= unicode::kInvalidByte || (r != std::end(kDropped) && r->first <= code);
}

bool is_punctuation(std::uint32_t code) {
  const CharClass c = unicode::char_class(code);
  return c == CharClass::kPunctuation || (c == CharClass::kSymbol && code < 0x80);
}

bool is_ideograph(std::uint32_t code) {
  const auto within = [&](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  return within(0x4e00, 0x9fff) || within(0x3400, 0x4dbf) || within(0x20000, 0x2a6df) || within(0x2a700, 0x2b73f) ||
         within(0x2b740, 0x2b81f) || within(0x2b920, 0x2ceaf) || within(0xf900, 0xfaff) || within(0x2f800, 0x2fa1f);
}

}  // namespace kvasir::text
