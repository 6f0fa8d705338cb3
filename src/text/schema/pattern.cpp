#include "text/schema/pattern.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

constexpr std::int32_t kMostCount = 1000;
constexpr std::size_t kMostNodes = 1 << 16;
constexpr int kDeepest = 100;
constexpr std::size_t kMostBytes = 4096;
constexpr std::uint64_t kMostSteps = 16'000'000;  // edges and states looked at
constexpr std::size_t kMostEntries = 2'000'000;   // of all sets of states

[[noreturn]] void bad(const std::string& what) { throw Error(Code::kBadInput, what, "pattern"); }
[[noreturn]] void unknown(const std::string& what) { throw Error(Code::kUnsupported, what, "pattern"); }

// Sets of characters: ascending ranges that do not touch.
using Set = std::vector<CharRange>;

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
  unknown("\\p{" + std::string(name) + "} is not supported");
}

struct Part {
  enum class Kind { kChars, kBegin, kEnd, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  Set set = {};
  std::vector<Part> parts = {};
  std::int32_t least = 0, most = 0;  // most -1: no limit
};

struct Ahead {
  Part part;
  bool positive;
};

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

  Part parse(std::vector<Ahead>& aheads) {
    // Look-ahead at the begin holds of the whole string.
    if (text_.starts_with(U"^(?=") || text_.starts_with(U"^(?!")) {
      at_ = 1;
      while (here(U"(?=") || here(U"(?!")) {
        const bool positive = text_[at_ + 2] == '=';
        at_ += 3;
        aheads.push_back({choice(), positive});
        expect(')');
      }
      if (text_.find(U'|', at_) != text_.npos && !whole_alternatives_inside()) unknown("look-ahead beside '|'");
      Part rest = choice();
      finish();
      Part begin{.kind = Part::Kind::kBegin};
      return {.parts = {std::move(begin), std::move(rest)}};
    }
    Part all = choice();
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

  Part choice() {
    if (++depth_ > kDeepest) bad("nests too deep");
    Part out{.kind = Part::Kind::kChoice};
    do out.parts.push_back(sequence());
    while (take('|'));
    --depth_;
    return out.parts.size() == 1 ? std::move(out.parts[0]) : std::move(out);
  }

  Part sequence() {
    Part out;
    while (!done() && peek() != '|' && peek() != ')') out.parts.push_back(quantified());
    return out;
  }

  Part quantified() {
    Part part = atom();
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
    if (part.kind == Part::Kind::kBegin || part.kind == Part::Kind::kEnd) bad("nothing to repeat");
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '?')) bad("nothing to repeat");
    Part out{.kind = Part::Kind::kRepeat, .least = least, .most = most};
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
    if (least > kMostCount || most > kMostCount) unknown("more than " + std::to_string(kMostCount) + " times");
    return true;
  }

  static Part chars(Set set) { return {.kind = Part::Kind::kChars, .set = std::move(set)}; }

  Part atom() {
    const char32_t c = peek();
    ++at_;
    switch (c) {
      case '^':
        return {.kind = Part::Kind::kBegin};
      case '$':
        return {.kind = Part::Kind::kEnd};
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

  Part group() {
    if (take('?')) {
      if (take(':')) {
      } else if (here(U"<") && !here(U"<=") && !here(U"<!")) {
        while (!done() && peek() != '>') ++at_;
        expect('>');
      } else {
        unknown("look-ahead is supported behind a ^ that begins the pattern, and look-behind is not");
      }
    }
    Part inside = choice();
    expect(')');
    return inside;
  }

  Part escaped() {
    if (done()) bad("ends with '\\'");
    if (peek() == 'b' || peek() == 'B') unknown("\\b is not supported");
    if ((peek() >= '1' && peek() <= '9') || peek() == 'k') unknown("back references are not supported");
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

// Thompson's automaton, and the subsets of its states.
class Subsets {
 public:
  // The strings that hold `part` somewhere.
  Subsets(const Part& part, std::uint64_t& steps) : steps_(steps) {
    add();
    nodes_[0].chars.push_back({0, Automaton::kLastChar, 0});
    const std::int32_t end = emit(part, 0);
    final_ = add();
    nodes_[static_cast<std::size_t>(end)].free.push_back(final_);
    nodes_[static_cast<std::size_t>(final_)].chars.push_back({0, Automaton::kLastChar, final_});
  }

  Automaton run() {
    std::vector<Automaton::State> states;
    std::map<Key, std::int32_t> numbers;
    std::vector<Key> keys;
    std::size_t entries = 0;
    const auto number = [&](Key key) {
      const auto [at, added] = numbers.try_emplace(key, static_cast<std::int32_t>(keys.size()));
      if (added) {
        entries += key.size();
        if (keys.size() >= 4 * Automaton::kMostStates || entries > kMostEntries) unknown("needs too many states");
        keys.push_back(std::move(key));
        states.emplace_back();
      }
      return at->second;
    };
    number(closure({0}, true));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Key key = keys[i];
      std::vector<Automaton::Edge> moves;
      std::vector<char32_t> cuts;
      for (const std::int32_t k : key) {
        if (k / 2 == final_) states[i].accepts = true;
        if (k % 2 == 1) continue;  // behind $
        for (const Automaton::Edge& e : nodes_[static_cast<std::size_t>(k / 2)].chars) {
          moves.push_back(e);
          cuts.push_back(e.low);
          cuts.push_back(e.high + 1);
        }
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      spend(16 * moves.size());
      std::vector<std::vector<std::int32_t>> to(cuts.size());  // from each cut to the next
      for (const Automaton::Edge& e : moves) {
        auto c = static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), e.low) - cuts.begin());
        for (; c < cuts.size() && cuts[c] <= e.high; ++c) {
          spend(1);
          to[c].push_back(e.to * 2);
        }
      }
      const std::vector<std::int32_t>* last = nullptr;  // classes of characters have many ranges that lead to the same
      std::int32_t next = -1;
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        if (to[c].empty()) continue;
        if (!last || *last != to[c]) next = number(closure(to[c], false));
        last = &to[c];
        auto& edges = states[i].edges;
        if (!edges.empty() && edges.back().to == next && edges.back().high + 1 == cuts[c]) {
          edges.back().high = cuts[c + 1] - 1;
        } else {
          edges.push_back({cuts[c], cuts[c + 1] - 1, next});
        }
      }
    }
    return Automaton(std::move(states));
  }

 private:
  using Key = std::vector<std::int32_t>;  // 2 * node, and 1 more behind $
  struct Node {
    std::vector<std::int32_t> free, begin, end;  // edges that take no character; those of ^ and $
    std::vector<Automaton::Edge> chars;
  };

  void spend(std::uint64_t steps) {
    if ((steps_ += steps) > kMostSteps) unknown("needs too many states");
  }
  std::int32_t add() {
    if (nodes_.size() >= kMostNodes) unknown("needs too many states");
    nodes_.emplace_back();
    return static_cast<std::int32_t>(nodes_.size() - 1);
  }
  Node& node(std::int32_t i) { return nodes_[static_cast<std::size_t>(i)]; }

  // Behind `part` when it begins in `from`.
  std::int32_t emit(const Part& part, std::int32_t from) {
    spend(1 + 8 * part.set.size());  // they take memory
    switch (part.kind) {
      case Part::Kind::kChars: {
        const std::int32_t to = add();
        for (const CharRange& r : part.set) node(from).chars.push_back({r.low, r.high, to});
        return to;
      }
      case Part::Kind::kBegin: {
        const std::int32_t to = add();
        node(from).begin.push_back(to);
        return to;
      }
      case Part::Kind::kEnd: {
        const std::int32_t to = add();
        node(from).end.push_back(to);
        return to;
      }
      case Part::Kind::kSequence:
        for (const Part& p : part.parts) from = emit(p, from);
        return from;
      case Part::Kind::kChoice: {
        const std::int32_t to = add();
        for (const Part& p : part.parts) {
          const std::int32_t begin = add();
          node(from).free.push_back(begin);
          const std::int32_t end = emit(p, begin);
          node(end).free.push_back(to);
        }
        return to;
      }
      case Part::Kind::kRepeat:
        break;
    }
    for (std::int32_t i = 0; i < part.least; ++i) from = emit(part.parts[0], from);
    const std::int32_t to = add();
    node(from).free.push_back(to);
    if (part.most < 0) {
      const std::int32_t begin = add();
      node(to).free.push_back(begin);
      const std::int32_t end = emit(part.parts[0], begin);
      node(end).free.push_back(to);
      return to;
    }
    for (std::int32_t i = part.least; i < part.most; ++i) {
      from = emit(part.parts[0], from);
      node(from).free.push_back(to);
    }
    return to;
  }

  Key closure(const Key& from, bool at_start) {
    seen_.resize(nodes_.size() * 2);
    ++round_;
    Key key;
    const auto visit = [&](std::int32_t k) {
      if (std::exchange(seen_[static_cast<std::size_t>(k)], round_) != round_) key.push_back(k);
    };
    for (const std::int32_t k : from) visit(k);
    for (std::size_t i = 0; i < key.size(); ++i) {
      const std::int32_t k = key[i], behind = k % 2;
      const Node& n = nodes_[static_cast<std::size_t>(k / 2)];
      spend(2 + n.free.size() + n.begin.size() + n.end.size());
      for (const std::int32_t to : n.free) visit(to * 2 + behind);
      if (at_start)
        for (const std::int32_t to : n.begin) visit(to * 2 + behind);
      for (const std::int32_t to : n.end) visit(to * 2 + 1);
    }
    std::sort(key.begin(), key.end());
    // Once it matched, the rest does not matter.
    if (std::binary_search(key.begin(), key.end(), final_ * 2)) return {final_ * 2};
    return key;
  }

  std::uint64_t& steps_;
  std::vector<Node> nodes_;
  std::int32_t final_ = 0;
  std::vector<std::uint32_t> seen_;  // in which round
  std::uint32_t round_ = 0;
};

Automaton automaton_of(std::string_view pattern, bool whole, std::uint64_t* steps) {
  if (pattern.size() > kMostBytes) bad("is longer than " + std::to_string(kMostBytes) + " bytes");
  std::uint64_t own = 0;
  std::uint64_t& all_steps = steps ? *steps : own;
  all_steps += 64 * pattern.size();
  std::vector<Ahead> aheads;
  Part part = Parser(pattern).parse(aheads);
  if (whole) part = {.parts = {{.kind = Part::Kind::kBegin}, std::move(part), {.kind = Part::Kind::kEnd}}};
  std::uint64_t spent = 0;
  try {
    Automaton all = Subsets(part, spent).run();
    for (const Ahead& ahead : aheads) {
      const Part begin{.kind = Part::Kind::kBegin};
      const Automaton one = Subsets({.parts = {begin, ahead.part}}, spent).run();
      all = Automaton::both(all, ahead.positive ? one : one.complement(), spent);
      if (spent > kMostSteps) unknown("needs too many states");
    }
    all_steps += spent;
    return all;
  } catch (const Error& e) {
    all_steps += spent;
    throw Error(Code::kUnsupported, e.message(), "pattern");
  }
}

}  // namespace

Automaton automaton_of_pattern(std::string_view pattern, std::uint64_t* steps) {
  return automaton_of(pattern, false, steps);
}

Automaton automaton_of_whole_pattern(std::string_view pattern, std::uint64_t* steps) {
  return automaton_of(pattern, true, steps);
}

}  // namespace kvasir::text
