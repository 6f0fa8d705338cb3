#include "text/jinja/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "text/jinja/unescape.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word(std::uint32_t code) {
  if (code == '_') return true;
  const unicode::CharClass c = unicode::char_class(code);
  return unicode::is_letter(c) || unicode::is_number(c);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) data();
    add(TokenKind::kEof, {});
    return std::move(tokens_);
  }

 private:
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool at(std::string_view what) const { return std::string_view(source_).substr(pos_, what.size()) == what; }

  void advance(std::size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(pos_ + n), '\n'));
    pos_ += n;
  }

  // How many bytes of white space stand at `from`.
  std::size_t spaces(std::size_t from) const {
    std::size_t i = from;
    while (i < source_.size()) {
      const auto [code, size] = unicode::decode_char(std::string_view(source_).substr(i));
      if (!is_space(code)) break;
      i += size;
    }
    return i - from;
  }

  // Text up to the next tag, and that tag.
  void data() {
    const auto begin = find_tag();
    std::string_view text = std::string_view(source_).substr(pos_, begin - pos_);
    if (begin >= source_.size()) {
      if (!text.empty()) add(TokenKind::kData, std::string(text));
      advance(text.size());
      return;
    }
    const char tag = source_[begin + 1];
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    const bool signed_tag = sign == '-' || sign == '+';
    text = left_strip(text, sign, tag == '{');
    if (!text.empty()) add(TokenKind::kData, std::string(text));
    advance(begin - pos_ + (signed_tag ? 3 : 2));
    after_newline_ = false;
    if (tag == '#') return comment();
    if (tag == '%' && raw()) return;
    add(tag == '{' ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, {});
    code(tag == '{');
  }

  std::size_t find_tag() const {
    for (auto i = source_.find('{', pos_); i != source_.npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  // `-` takes all white space in front of the tag; else lstrip_blocks takes blanks between the line's begin and the
  // tag.
  std::string_view left_strip(std::string_view text, char sign, bool print) const {
    if (sign == '-') return rstrip(text);
    if (sign == '+' || print) return text;
    const auto newline = text.rfind('\n');
    const std::size_t begin = newline == text.npos ? 0 : newline + 1;
    if (begin == 0 && !after_newline_) return text;
    return rstrip(text.substr(begin)).empty() ? text.substr(0, begin) : text;
  }

  // Behind a closing tag of `size` bytes: `-` takes the white space that follows, otherwise trim_blocks one newline.
  void close(std::size_t size, bool strip, bool trim) {
    std::size_t n = size;
    if (strip) {
      n += spaces(pos_ + size);
    } else if (trim && pos_ + size < source_.size() && source_[pos_ + size] == '\n') {
      ++n;
    }
    advance(n);
    after_newline_ = source_[pos_ - 1] == '\n';
  }

  void comment() {
    const int line = line_;
    while (pos_ < source_.size()) {
      if (at("-#}")) return close(3, true, false);
      if (at("+#}")) return close(3, false, false);
      if (at("#}")) return close(2, false, true);
      advance(1);
    }
    fail_at(line, "the comment is not closed: '#}' is missing");
  }

  // Directly behind "{%": whether this is a raw block, which then is done with.
  bool raw() {
    const std::size_t name = pos_ + spaces(pos_);
    if (source_.compare(name, 3, "raw") != 0) return false;
    const std::size_t end = name + 3 + spaces(name + 3);
    const bool strip = source_.compare(end, 3, "-%}") == 0;
    if (!strip && source_.compare(end, 2, "%}") != 0) return false;
    const int line = line_;
    advance(end - pos_);
    close(strip ? 3 : 2, strip, false);
    for (auto i = source_.find("{%", pos_); i != source_.npos; i = source_.find("{%", i + 1)) {
      if (end_raw(i)) return true;
    }
    fail_at(line, "the raw block is not closed: '{% endraw %}' is missing");
  }

  bool end_raw(std::size_t begin) {
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    std::size_t i = begin + (sign == '-' || sign == '+' ? 3 : 2);
    i += spaces(i);
    if (source_.compare(i, 6, "endraw") != 0) return false;
    i += 6;
    i += spaces(i);
    const bool strip = source_.compare(i, 3, "-%}") == 0, keep = source_.compare(i, 3, "+%}") == 0;
    if (!strip && !keep && source_.compare(i, 2, "%}") != 0) return false;
    const auto text = left_strip(std::string_view(source_).substr(pos_, begin - pos_), sign, false);
    if (!text.empty()) add(TokenKind::kData, std::string(text));
    advance(i - pos_);
    close(strip || keep ? 3 : 2, strip, !keep);
    return true;
  }

  // Inside {{ }} or {% %}, to its end.
  void code(bool print) {
    const int line = line_;
    std::string open;  // brackets that are open: a closing tag inside them is none
    while (pos_ < source_.size()) {
      if (open.empty() && end_tag(print)) return;
      const auto c = source_[pos_];
      if (const auto n = spaces(pos_)) {
        advance(n);
      } else if (is_digit(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string(c);
      } else if (!name()) {
        op(open);
      }
    }
    fail_at(line, print ? "'{{' is not closed: '}}' is missing" : "'{%' is not closed: '%}' is missing");
  }

  bool end_tag(bool print) {
    const std::string_view tag = print ? "}}" : "%}";
    const bool strip = source_[pos_] == '-' && source_.compare(pos_ + 1, 2, tag) == 0;
    const bool keep = !print && source_[pos_] == '+' && source_.compare(pos_ + 1, 2, tag) == 0;
    if (!strip && !keep && !at(tag)) return false;
    add(print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, {});
    close(strip || keep ? 3 : 2, strip, !print && !keep);
    return true;
  }

  bool name() {
    std::size_t i = pos_;
    while (i < source_.size()) {
      const auto [code, size] = unicode::decode_char(std::string_view(source_).substr(i));
      if (!is_word(code)) break;
      i += size;
    }
    if (i == pos_) return false;
    add(TokenKind::kName, source_.substr(pos_, i - pos_));
    advance(i - pos_);
    return true;
  }

  // Digits with single underscores between.
  std::size_t digits(std::size_t i, bool (*accept)(char)) const {
    while (i < source_.size() &&
           (accept(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && accept(source_[i + 1]))))
      ++i;
    return i;
  }

  void number() {
    const char second = pos_ + 1 < source_.size() ? static_cast<char>(source_[pos_ + 1] | 0x20) : '\0';
    if (source_[pos_] == '0' && (second == 'x' || second == 'o' || second == 'b')) return radix(second);
    std::size_t end = digits(pos_, is_digit);
    bool real = false;
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';  // a.0.1 is two subscripts
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits(end + 1, is_digit);
      real = true;
    }
    if (!after_dot && end + 1 < source_.size() && (source_[end] | 0x20) == 'e') {
      const std::size_t sign = source_[end + 1] == '+' || source_[end + 1] == '-' ? 1 : 0;
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        end = digits(end + 1 + sign, is_digit);
        real = true;
      }
    }
    std::string text = source_.substr(pos_, end - pos_);
    std::erase(text, '_');
    if (!real && text[0] == '0' && text.find_first_not_of('0') != text.npos) {
      fail_at(line_, fmt::format("'{}' is no number: leading zeros are not allowed", text));
    }
    add(real ? TokenKind::kReal : TokenKind::kInt, std::move(text));
    advance(end - pos_);
  }

  void radix(char letter) {
    const auto accept = letter == 'x' ? +[](char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }
                        : letter == 'o' ? +[](char c) { return c >= '0' && c <= '7'; }
                                        : +[](char c) { return c == '0' || c == '1'; };
    const std::size_t end = digits(pos_ + 2, accept);
    std::string text = source_.substr(pos_, end - pos_);
    std::erase(text, '_');
    if (text.size() < 3) fail_at(line_, fmt::format("'{}' is no number", text));
    text[1] = letter;
    add(TokenKind::kInt, std::move(text));
    advance(end - pos_);
  }

  void string(char quote) {
    for (std::size_t i = pos_ + 1; i < source_.size(); ++i) {
      if (source_[i] == '\\') {
        ++i;
      } else if (source_[i] == quote) {
        add(TokenKind::kString, unescape(std::string_view(source_).substr(pos_ + 1, i - pos_ - 1), line_));
        return advance(i + 1 - pos_);
      }
    }
    fail_at(line_, "the string is not closed");
  }

  void op(std::string& open) {
    static constexpr std::string_view kOps[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                                "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found = std::find_if(std::begin(kOps), std::end(kOps), [this](auto o) { return at(o); });
    if (found == std::end(kOps)) {
      const auto size = unicode::decode_char(std::string_view(source_).substr(pos_)).size;
      fail_at(line_, fmt::format("unexpected character '{}'", source_.substr(pos_, size)));
    }
    const char c = (*found)[0];
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        fail_at(line_, open.empty() ? fmt::format("unexpected '{}'", c)
                                    : fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      }
      open.pop_back();
    }
    add(TokenKind::kOp, std::string(*found));
    advance(found->size());
  }

  std::string source_;
  std::vector<Token> tokens_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool after_newline_ = true;  // the last tag took the newline behind it, or there was none yet
};

}  // namespace

std::vector<Token> lex(std::string_view source) { return Lexer(source).run(); }

void fail_at(int line, const std::string& message) {
  throw Error(Code::kBadInput, message, fmt::format("chat template, line {}", line));
}

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) ||
         (code > 0x7f && unicode::char_class(code) == unicode::CharClass::kSpace);
}

std::string_view rstrip(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (text[begin] & 0xc0) == 0x80) --begin;
    if (!is_space(unicode::decode_char(text.substr(begin)).code)) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace kvasir::text::jinja
