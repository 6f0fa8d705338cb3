#include "text/jinja/unescape.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "text/jinja/lexer.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

class Reader {
 public:
  Reader(std::string_view text, int line) : text_(text), line_(line) {}

  std::string run() {
    while (i_ < text_.size()) {
      if (text_[i_] != '\\') {
        out_ += text_[i_++];
      } else {
        ++i_;
        escape();
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    const char c = text_[i_++];  // the lexer lets no literal end in a single backslash
    static constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeaning = "\a\b\f\n\r\t\v\\'\"";
    if (const auto k = kLetters.find(c); k != kLetters.npos) {
      out_ += kMeaning[k];
    } else if (c >= '0' && c <= '7') {
      octal(c);
    } else if (c == 'x') {
      unicode::append_utf8(out_, hex(2));
    } else if (c == 'u' || c == 'U') {
      code_point(c);
    } else if (c == 'N') {
      fail_at(line_, "\\N{...} is not supported in strings");
    } else if (c != '\n') {
      out_ += '\\';
      out_ += c;
    }
  }

  void octal(char first) {
    std::uint32_t code = static_cast<std::uint32_t>(first - '0');
    for (int k = 0; k < 2 && i_ < text_.size() && text_[i_] >= '0' && text_[i_] <= '7'; ++k)
      code = code * 8 + static_cast<std::uint32_t>(text_[i_++] - '0');
    unicode::append_utf8(out_, code);
  }

  // A pair of surrogates is the character that it stands for in JSON and JavaScript.
  void code_point(char letter) {
    std::uint32_t code = hex(letter == 'u' ? 4 : 8);
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(i_, 2) == "\\u") {
      i_ += 2;
      const std::uint32_t low = hex(4);
      if (low < 0xdc00 || low > 0xdfff) fail_at(line_, "a string holds half a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      fail_at(line_, fmt::format("U+{:04X} in a string is no character", code));
    }
    unicode::append_utf8(out_, code);
  }

  std::uint32_t hex(int digits) {
    std::uint32_t code = 0;
    for (int k = 0; k < digits; ++k) {
      const char c = i_ < text_.size() ? text_[i_++] : '\0';
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9') {
        code = code * 16 + static_cast<std::uint32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
      } else {
        fail_at(line_, fmt::format("an escape in a string needs {} hexadecimal digits", digits));
      }
    }
    return code;
  }

  std::string_view text_;
  int line_;
  std::size_t i_ = 0;
  std::string out_;
};

}  // namespace

std::string unescape(std::string_view literal, int line) { return Reader(literal, line).run(); }

}  // namespace kvasir::text::jinja
