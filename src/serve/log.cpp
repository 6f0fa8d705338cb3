#include "serve/log.hpp"

#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr std::size_t kLongestValue = 200;  // bytes

bool is_plain(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  return !control && code != '"' && code < unicode::kInvalidByte;
}

}  // namespace

std::string log_value(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const unicode::Char c = unicode::decode_char(text);
    if (out.size() + c.size > kLongestValue) break;
    if (is_plain(c.code)) {
      out += text.substr(0, c.size);
    } else {
      out += '?';
    }
    text.remove_prefix(c.size);
  }
  return out.find(' ') == std::string::npos && !out.empty() ? out : '"' + out + '"';
}

}  // namespace kvasir::serve
