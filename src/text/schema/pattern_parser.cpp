#include "text/schema/pattern_parser.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

constexpr std::int32_t kMostCount = 1000;
constexpr int kDeepestPattern = 100;

[[noreturn]] void bad(const std::string& what) { throw Error(Code::kBadInput, what, "pattern"); }
[[noreturn]] void unknown_syntax(const std::string& what) { throw Error(Code::kUnsupported, what, "pattern"); }

using Set = CharSet;
using PatternParserPart = PatternPart;
using Ahead = PatternAhead;

Set normal(Set set) {
  std::sort(set.begin(), set.end(), [](const CharRange& a, const CharRange& b) { return a.low < b.low; });
  Set out;
  for (const CharRange& r : set) {
    if (!out.empty() && r.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, r.high);
    } else {
      out.push_back(r);
    }
  }
  return out;
}

Set opposite(const Set& set) {
  Set out;
  char32_t next = 0;
  for (const CharRange& r : set) {
    if (r.low > next) out.push_back({next, r.low - 1});
    next = r.high + 1;
  }
  if (next <= Automaton::kLastChar) out.push_back({next, Automaton::kLastChar});
  return out;
}

const Set kDigits{{'0', '9'}};
const Set kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Set kSpace{{9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                 {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
const Set kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// By the classes that the tokenizers know; upper and lower case by ASCII and Latin-1 alone, which is a part.
Set property(std::string_view name) {
  if (const auto equals = name.find('='); equals != name.npos) name.remove_prefix(equals + 1);
  using unicode::CharClass;
  const auto find = [](CharClass wanted) {
    Set set;
    for (char32_t c = 0; c <= Automaton::kLastChar; ++c)
      if (unicode::char_class(c) == wanted) {
        if (!set.empty() && set.back().high + 1 == c) {
          set.back().high = c;
        } else {
          set.push_back({c, c});
        }
      }
    return set;
  };
  static const Set letters = find(CharClass::kLetter), numbers = find(CharClass::kNumber),
                   punctuation = find(CharClass::kPunctuation), spaces = find(CharClass::kSpace);
  if (name == "L" || name == "Letter" || name == "Alphabetic") return letters;
  if (name == "N" || name == "Number") return numbers;
  if (name == "P" || name == "Punctuation") return punctuation;
  if (name == "White_Space" || name == "Z" || name == "Zs" || name == "Separator") return spaces;
  if (name == "Nd" || name == "Decimal_Number") return kDigits;
  if (name == "Lu" || name == "Uppercase_Letter" || name == "Uppercase")
    return {{'A', 'Z'}, {0xc0, 0xd6}, {0xd8, 0xde}};
  if (name == "Ll" || name == "Lowercase_Letter" || name == "Lowercase")
    return {{'a', 'z'}, {0xdf, 0xf6}, {0xf8, 0xff}};
  unknown_syntax("\\p{" + std::string(name) + "} is not supported");
}

class Parser {
 public:
  explicit Parser(std::string_view text) {
    while (!text.empty()) {
      const unicode::Char c = unicode::decode_char(text);
      if (c.code >= unicode::kInvalidByte) bad("is not UTF-8");
      text_.push_back(c.code);
      text.remove_prefix(c.size);
    }
  }

  PatternParserPart parse(std::vector<Ahead>& aheads) {
    // Look-ahead at the begin holds of the whole string.
    if (text_.starts_with(U"^(?=") || text_.starts_with(U"^(?!")) {
      at_ = 1;
      while (here(U"(?=") || here(U"(?!")) {
        const bool positive = text_[at_ + 2] == '=';
        at_ += 3;
        aheads.push_back({choice(), positive});
        expect(')');
      }
      if (text_.find(U'|', at_) != text_.npos && !whole_alternatives_inside()) unknown_syntax("look-ahead beside '|'");
      PatternParserPart rest = choice();
      finish();
      PatternParserPart begin{.kind = PatternParserPart::Kind::kBegin};
      return {.parts = {std::move(begin), std::move(rest)}};
    }
    PatternParserPart all = choice();
    finish();
    return all;
  }

 private:
  bool done() const { return at_ == text_.size(); }
  char32_t peek() const { return text_[at_]; }
  bool here(std::u32string_view what) const { return std::u32string_view(text_).substr(at_).starts_with(what); }
  bool take(char32_t c) {
    if (done() || peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(static_cast<char32_t>(c))) bad(std::string("'") + c + "' is missing");
  }
  void finish() const {
    if (!done()) bad("')' without '('");
  }
  // Whether every '|' behind here stands in a group or class.
  bool whole_alternatives_inside() const {
    int depth = 0;
    bool in_class = false;
    for (std::size_t i = at_; i < text_.size(); ++i) {
      const char32_t c = text_[i];
      if (c == '\\') {
        ++i;
      } else if (in_class) {
        in_class = c != ']';
      } else if (c == '[') {
        in_class = true;
      } else if (c == '(') {
        ++depth;
      } else if (c == ')') {
        --depth;
      } else if (c == '|' && depth == 0) {
        return false;
      }
    }
    return true;
  }

  PatternParserPart choice() {
    if (++depth_ > kDeepestPattern) bad("nests too deep");
    PatternParserPart out{.kind = PatternParserPart::Kind::kChoice};
    do out.parts.push_back(sequence());
    while (take('|'));
    --depth_;
    return out.parts.size() == 1 ? std::move(out.parts[0]) : std::move(out);
  }

  PatternParserPart sequence() {
    PatternParserPart out;
    while (!done() && peek() != '|' && peek() != ')') out.parts.push_back(quantified());
    return out;
  }

  PatternParserPart quantified() {
    PatternParserPart part = atom();
    std::int32_t least = 1, most = 1;
    if (take('*')) {
      least = 0, most = -1;
    } else if (take('+')) {
      most = -1;
    } else if (take('?')) {
      least = 0;
    } else if (done() || peek() != '{' || !counts(least, most)) {
      return part;
    }
    take('?');  // lazy
    if (part.kind == PatternParserPart::Kind::kBegin || part.kind == PatternParserPart::Kind::kEnd)
      bad("nothing to repeat");
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '?')) bad("nothing to repeat");
    PatternParserPart out{.kind = PatternParserPart::Kind::kRepeat, .least = least, .most = most};
    out.parts.push_back(std::move(part));
    return out;
  }

  // {n}, {n,}, {n,m}; anything else is text.
  bool counts(std::int32_t& least, std::int32_t& most) {
    std::size_t i = at_ + 1;
    const auto number = [&](std::int32_t& n) {
      const std::size_t begin = i;
      n = 0;
      for (; i < text_.size() && text_[i] >= '0' && text_[i] <= '9'; ++i)
        n = std::min<std::int32_t>(n * 10 + static_cast<std::int32_t>(text_[i] - '0'), kMostCount + 1);
      return i > begin;
    };
    if (!number(least)) return false;
    most = least;
    if (i < text_.size() && text_[i] == ',') {
      ++i;
      if (!number(most)) most = -1;
    }
    if (i >= text_.size() || text_[i] != '}') return false;
    at_ = i + 1;
    if (most >= 0 && most < least) bad("numbers of {} out of order");
    if (least > kMostCount || most > kMostCount) unknown_syntax("more than " + std::to_string(kMostCount) + " times");
    return true;
  }

  static PatternParserPart chars(Set set) { return {.kind = PatternParserPart::Kind::kChars, .set = std::move(set)}; }

  PatternParserPart atom() {
    const char32_t c = peek();
    ++at_;
    switch (c) {
      case '^':
        return {.kind = PatternParserPart::Kind::kBegin};
      case '$':
        return {.kind = PatternParserPart::Kind::kEnd};
      case '.':
        return chars(opposite(kLineEnds));
      case '(':
        return group();
      case '[':
        return chars(char_class());
      case '\\':
        return escaped();
      case '*':
      case '+':
      case '?':
        bad("nothing to repeat");
      default:
        return chars({{c, c}});
    }
  }

  PatternParserPart group() {
    if (take('?')) {
      if (take(':')) {
      } else if (here(U"<") && !here(U"<=") && !here(U"<!")) {
        while (!done() && peek() != '>') ++at_;
        expect('>');
      } else {
        unknown_syntax("look-ahead is supported behind a ^ that begins the pattern, and look-behind is not");
      }
    }
    PatternParserPart inside = choice();
    expect(')');
    return inside;
  }

  PatternParserPart escaped() {
    if (done()) bad("ends with '\\'");
    if (peek() == 'b' || peek() == 'B') unknown_syntax("\\b is not supported");
    if ((peek() >= '1' && peek() <= '9') || peek() == 'k') unknown_syntax("back references are not supported");
    return chars(escape());
  }

  // Behind the backslash: one character, or a class.
  Set escape() {
    const char32_t c = peek();
    ++at_;
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return opposite(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return opposite(kWord);
      case 's':
        return kSpace;
      case 'S':
        return opposite(kSpace);
      case 'p':
      case 'P': {
        std::string name;
        expect('{');
        while (!done() && peek() != '}') {
          name += static_cast<char>(peek() < 128 ? peek() : U'?');
          ++at_;
        }
        expect('}');
        const Set set = property(name);
        return c == 'p' ? set : opposite(set);
      }
      default:
        return {{one(c), last_}};
    }
  }

  // The character that an escape stands for; in last_ too.
  char32_t one(char32_t c) {
    const auto hex = [&](std::size_t digits) {
      char32_t n = 0;
      for (std::size_t i = 0; i < digits; ++i, ++at_) {
        if (done()) bad("an escape is not complete");
        const char32_t d = peek() | 0x20;
        if (peek() >= '0' && peek() <= '9') {
          n = n * 16 + (peek() - '0');
        } else if (d >= 'a' && d <= 'f') {
          n = n * 16 + (d - 'a' + 10);
        } else {
          bad("an escape is not complete");
        }
      }
      return n;
    };
    switch (c) {
      case 'n':
        return last_ = '\n';
      case 'r':
        return last_ = '\r';
      case 't':
        return last_ = '\t';
      case 'f':
        return last_ = '\f';
      case 'v':
        return last_ = '\v';
      case '0':
        return last_ = 0;
      case 'x':
        return last_ = hex(2);
      case 'u': {
        if (take('{')) {
          char32_t n = 0;
          while (!done() && peek() != '}' && n <= Automaton::kLastChar) n = n * 16 + hex(1);
          expect('}');
          if (n > Automaton::kLastChar) bad("an escape is no character");
          return last_ = n;
        }
        const char32_t n = hex(4);
        if (n >= 0xd800 && n < 0xdc00 && here(U"\\u")) {
          at_ += 2;
          const char32_t low = hex(4);
          if (low >= 0xdc00 && low < 0xe000) return last_ = 0x10000 + ((n - 0xd800) << 10) + (low - 0xdc00);
          bad("an escape is no character");
        }
        return last_ = n;
      }
      case 'c':
        if (done()) bad("an escape is not complete");
        return last_ = text_[at_++] & 31;
      default:
        return last_ = c;
    }
  }

  Set char_class() {
    const bool negated = take('^');
    Set set;
    while (!done() && peek() != ']') {
      Set first = class_item();
      const bool single = first.size() == 1 && first[0].low == first[0].high;
      if (single && at_ + 1 < text_.size() && peek() == '-' && text_[at_ + 1] != ']') {
        ++at_;
        const Set last = class_item();
        if (last.size() != 1 || last[0].low != last[0].high || last[0].low < first[0].low) bad("a range out of order");
        first[0].high = last[0].low;
      }
      set.insert(set.end(), first.begin(), first.end());
    }
    expect(']');
    set = normal(std::move(set));
    return negated ? opposite(set) : set;
  }

  Set class_item() {
    if (!take('\\')) {
      const char32_t c = peek();
      ++at_;
      return {{c, c}};
    }
    if (done()) bad("ends with '\\'");
    if (take('b')) return {{8, 8}};
    return escape();
  }

  std::u32string text_;
  std::size_t at_ = 0;
  char32_t last_ = 0;
  int depth_ = 0;
};

}  // namespace

PatternPart parse_pattern(std::string_view pattern, std::vector<PatternAhead>& aheads) {
  return Parser(pattern).parse(aheads);
}

}  // namespace kvasir::text
