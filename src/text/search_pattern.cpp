#include "text/search_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

using PatternOp = SearchPattern::Op;
using PatternKind = PatternOp::Kind;
using PatternCode = std::vector<PatternOp>;

constexpr std::size_t kMostCode = 20000;
constexpr int kMostNested = 50, kMostRepeats = 1000;
constexpr std::size_t kNowhere = std::string_view::npos;

bool in_class(char name, std::uint32_t code) {
  const auto c = unicode::CharClasses::get().of(code);
  const char low = static_cast<char>(name | 0x20);
  const bool has = low == 'w'   ? SearchPattern::is_word(code)
                   : low == 'd' ? c == unicode::CharClass::kDigit
                                : c == unicode::CharClass::kSpace || (code >= 9 && code <= 13);
  return has == (name == low);
}

void append_code(PatternCode& to, const PatternCode& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

bool SearchPattern::is_word(std::uint32_t code) {
  const auto c = unicode::CharClasses::get().of(code);
  return code == '_' || unicode::is_letter(c) || unicode::is_number(c);
}

bool SearchPattern::Set::has(std::uint32_t code) const {
  const bool in =
      std::any_of(ranges.begin(), ranges.end(), [&](auto r) { return r.first <= code && code <= r.second; }) ||
      std::any_of(classes.begin(), classes.end(), [&](char c) { return in_class(c, code); });
  return in != negated;
}

class SearchPattern::Parser {
 public:
  Parser(std::string_view text, SearchPattern& out) : text_(text), out_(out) {}

  void parse() {
    PatternCode all = alternatives(0);
    if (at_ < text_.size()) bad("a ')' too many");
    all.push_back({PatternKind::kDone});
    out_.code_ = std::move(all);
  }

 private:
  [[noreturn]] void bad(std::string_view what) const {
    throw Error(Code::kBadInput, fmt::format("pattern '{}', byte {}: {}", text_, at_, what));
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    throw Error(Code::kUnsupported, fmt::format("pattern '{}', byte {}: {} is not supported", text_, at_, what));
  }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  bool more() const { return at_ < text_.size(); }

  PatternCode alternatives(int depth) {
    if (depth > kMostNested) bad("nested too deep");
    PatternCode first = sequence(depth);
    if (!take("|")) return first;
    const PatternCode rest = alternatives(depth + 1);
    PatternCode all{{PatternKind::kSplit, 1, static_cast<int>(first.size()) + 2}};
    append_code(all, first);
    all.push_back({PatternKind::kJump, static_cast<int>(rest.size()) + 1});
    append_code(all, rest);
    return checked(std::move(all));
  }

  PatternCode sequence(int depth) {
    PatternCode all;
    while (more() && text_[at_] != '|' && text_[at_] != ')') append_code(all, repeated(depth));
    return checked(std::move(all));
  }

  PatternCode checked(PatternCode code) const {
    if (code.size() > kMostCode) unsupported("an expression of this size");
    return code;
  }

  std::optional<int> number() {
    int n = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc() || n < 0 || n > kMostRepeats) return {};
    at_ = static_cast<std::size_t>(end - text_.data());
    return n;
  }

  PatternCode repeated(int depth) {
    PatternCode one = atom(depth);
    int least = 1, most = 1;  // -1: any
    if (take("*")) {
      least = 0, most = -1;
    } else if (take("+")) {
      most = -1;
    } else if (take("?")) {
      least = 0;
    } else if (const std::size_t before = at_; take("{")) {
      const auto low = number();
      const bool comma = take(",");
      const auto high = comma ? number() : low;
      if (!take("}") || (!low && !high)) {  // a bracket like any other
        at_ = before;
        return one;
      }
      least = low.value_or(0);
      most = high ? *high : -1;
    } else {
      return one;
    }
    if (more() && text_[at_] == '+') unsupported("a possessive repeat");
    const bool lazy = take("?");
    const auto split = [&](int in, int out) {
      return lazy ? PatternOp{PatternKind::kSplit, out, in} : PatternOp{PatternKind::kSplit, in, out};
    };
    const int size = static_cast<int>(one.size());
    PatternCode all;
    for (int i = 0; i < least; ++i) append_code(all, one), checked(all);
    if (most < 0) {
      const int slot = out_.slots_++;
      all.push_back(split(1, size + 4));
      all.push_back({PatternKind::kMark, slot});
      append_code(all, one);
      all.push_back({PatternKind::kMoved, slot});
      all.push_back({PatternKind::kJump, -(size + 3)});
    }
    for (int i = most - least; i > 0; --i) {
      all.push_back(split(1, i * (size + 1)));
      append_code(all, one), checked(all);
    }
    return checked(std::move(all));
  }

  PatternCode atom(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return set(char_class());
    if (take(".")) return set({.negated = true});
    if (take("^")) return {{PatternKind::kBegin}};
    if (take("$")) return {{PatternKind::kLastEnd}};
    if (take("\\")) return escape();
    if (std::string_view("*+?").find(text_[at_]) != kNowhere) bad("nothing to repeat");
    return literal(next());
  }

  PatternCode set(Set s) {
    out_.sets_.push_back(std::move(s));
    return {{PatternKind::kSet, static_cast<int>(out_.sets_.size()) - 1}};
  }
  PatternCode literal(std::uint32_t code) { return set({.ranges = {{code, code}}}); }

  std::uint32_t next() {
    if (!more()) bad("ends too early");
    const unicode::Char c = unicode::decode_char(text_.substr(at_));
    at_ += c.size;
    return c.code;
  }

  PatternCode escape() {
    if (!more()) bad("ends with '\\'");
    const char c = text_[at_];
    if (std::string_view("wWdDsS").find(c) != kNowhere) return ++at_, set({.classes = std::string(1, c)});
    if (take("A")) return {{PatternKind::kBegin}};
    if (take("Z") || take("z")) return {{PatternKind::kEnd}};
    if (take("b")) return {{PatternKind::kEdge}};
    if (take("B")) return {{PatternKind::kInner}};
    if (c >= '1' && c <= '9') unsupported("a reference back");
    return literal(escaped());
  }

  std::uint32_t escaped() {
    const std::uint32_t c = next();
    const auto hex = [&](std::size_t digits) {
      std::uint32_t code = 0;
      const std::string_view text = text_.substr(at_, digits);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
      if (text.size() < digits || error != std::errc() || end != text.data() + digits) bad("no number");
      at_ += digits;
      return code;
    };
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case '0':
        return 0;
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      default:
        if (c < 128 && std::isalpha(static_cast<int>(c)) != 0) unsupported(fmt::format("\\{}", static_cast<char>(c)));
        return c;
    }
  }

  Set char_class() {
    Set s;
    s.negated = take("^");
    for (bool first = true; first || !take("]"); first = false) {
      if (take("[:")) unsupported("a class in [: :]");
      std::uint32_t low = 0;
      if (take("\\")) {
        if (more() && std::string_view("wWdDsS").find(text_[at_]) != kNowhere) {
          s.classes += text_[at_++];
          continue;
        }
        low = take("b") ? '\b' : escaped();
      } else {
        low = next();
      }
      std::uint32_t high = low;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        high = take("\\") ? escaped() : next();
        if (high < low) bad("a range that is empty");
      }
      s.ranges.emplace_back(low, high);
    }
    return s;
  }

  PatternCode group(int depth) {
    PatternKind ahead = PatternKind::kDone;
    std::string name;
    if (take("?")) {
      if (take("=")) {
        ahead = PatternKind::kAhead;
      } else if (take("!")) {
        ahead = PatternKind::kNotAhead;
      } else if (take("<=") || take("<!")) {
        unsupported("look-behind");
      } else if (take("P<") || take("<")) {
        const std::size_t end = std::min(text_.find('>', at_), text_.size());
        name = text_.substr(at_, end - at_);
        at_ = end;
        if (name.empty() || !take(">")) bad("a group without a name");
      } else if (take("s)")) {
        return {};  // as it is anyway
      } else if (!take(":") && !take("s:")) {
        unsupported("this kind of group");
      }
    }
    const int slot = out_.slots_;
    if (!name.empty()) out_.slots_ += 2, out_.names_.emplace_back(name, slot);
    PatternCode inner = alternatives(depth + 1);
    if (!take(")")) bad("a ')' is missing");
    PatternCode all;
    if (ahead != PatternKind::kDone) {
      all.push_back({ahead, static_cast<int>(inner.size()) + 2});
      inner.push_back({PatternKind::kDone});
    }
    if (!name.empty()) all.push_back({PatternKind::kSave, slot});
    append_code(all, inner);
    if (!name.empty()) all.push_back({PatternKind::kSave, slot + 1});
    return all;
  }

  std::string_view text_;
  SearchPattern& out_;
  std::size_t at_ = 0;
};

SearchPattern::SearchPattern(std::string_view expression) { Parser(expression, *this).parse(); }

SearchPattern SearchPattern::of_texts(std::vector<std::string> texts) {
  std::stable_sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::string expression;
  for (const std::string& text : texts) {
    if (!expression.empty()) expression += '|';
    for (const char c : text) {
      if (std::string_view("\\^$.|?*+()[]{}").find(c) != kNowhere) expression += '\\';
      expression += c;
    }
  }
  return SearchPattern(expression);
}

}  // namespace kvasir::text
