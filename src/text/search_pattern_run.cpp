// The search: a machine that goes back where it had a choice, with bounded work.
#include "text/search_pattern.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

constexpr std::size_t kMostSearchSteps = 1 << 20;  // of one search

}  // namespace

class SearchPattern::Run {
 public:
  Run(const SearchPattern& pattern, std::string_view text, bool end) : pattern_(pattern), text_(text), end_(end) {}

  // Where the match that begins at `begin` ends.
  std::optional<std::size_t> match(std::size_t begin) {
    slots.assign(static_cast<std::size_t>(pattern_.slots_), std::string_view::npos);
    open_ = false;
    return run(0, begin);
  }
  bool open() const { return open_; }  // more text could change the result
  bool tired() const { return steps_ > kMostSearchSteps; }
  std::vector<std::size_t> slots;

 private:
  struct Choice {
    int pc;               // -1: a slot is to be set back
    std::size_t at, old;  // a place; or the slot and what it was
  };

  bool at_end(std::size_t at) {
    if (at < text_.size()) return false;
    open_ = open_ || !end_;
    return true;
  }

  std::optional<std::size_t> run(int pc, std::size_t at) {
    std::vector<Choice> choices;
    for (;;) {
      const Op& op = pattern_.code_[static_cast<std::size_t>(pc)];
      if (++steps_ > kMostSearchSteps) return {};
      bool ok = true;
      int next = pc + 1;
      switch (op.kind) {
        case Op::Kind::kSet:
          ok = !at_end(at);
          if (ok) {
            const unicode::Char c = unicode::decode_char(text_.substr(at));
            ok = pattern_.sets_[static_cast<std::size_t>(op.a)].has(c.code);
            at += c.size;
          }
          break;
        case Op::Kind::kSplit:
          choices.push_back({pc + op.b, at, 0});
          next = pc + op.a;
          break;
        case Op::Kind::kJump:
          next = pc + op.a;
          break;
        case Op::Kind::kSave:
        case Op::Kind::kMark: {
          std::size_t& slot = slots[static_cast<std::size_t>(op.a)];
          choices.push_back({-1, static_cast<std::size_t>(op.a), slot});
          slot = at;
          break;
        }
        case Op::Kind::kMoved:
          ok = slots[static_cast<std::size_t>(op.a)] != at;
          break;
        case Op::Kind::kBegin:
          ok = at == 0;
          break;
        case Op::Kind::kEnd:
          ok = at_end(at);
          break;
        case Op::Kind::kLastEnd:
          ok = at_end(at) || (text_[at] == '\n' && at_end(at + 1));
          break;
        case Op::Kind::kEdge:
        case Op::Kind::kInner:
          ok = edge(at) == (op.kind == Op::Kind::kEdge);
          break;
        case Op::Kind::kAhead:
        case Op::Kind::kNotAhead:
          ok = run(pc + 1, at).has_value() == (op.kind == Op::Kind::kAhead);
          next = pc + op.a;
          break;
        case Op::Kind::kDone:
          return at;
      }
      while (!ok) {
        if (choices.empty()) return {};
        const Choice c = choices.back();
        choices.pop_back();
        if (c.pc < 0) {
          slots[c.at] = c.old;
          continue;
        }
        next = c.pc;
        at = c.at;
        ok = true;
      }
      pc = next;
    }
  }

  bool edge(std::size_t at) {
    const bool right = !at_end(at) && is_word(unicode::decode_char(text_.substr(at)).code);
    std::size_t before = at;
    while (before > 0 && (static_cast<unsigned char>(text_[--before]) & 0xc0) == 0x80) {
    }
    return right != (before < at && is_word(unicode::decode_char(text_.substr(before)).code));
  }

  const SearchPattern& pattern_;
  std::string_view text_;
  const bool end_;
  bool open_ = false;
  std::size_t steps_ = 0;
};

SearchPattern::Found SearchPattern::search(std::string_view text, std::size_t from, bool end) const {
  Run run(*this, text, end);
  for (std::size_t at = from; at <= text.size(); ++at) {
    if (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
    const auto stop = run.match(at);
    if (run.tired()) break;
    if (run.open()) return {std::nullopt, at};
    if (!stop) continue;
    Match match{at, *stop - at};
    for (const auto& [name, slot] : names_) {
      const std::size_t begin = run.slots[static_cast<std::size_t>(slot)];
      const std::size_t last = run.slots[static_cast<std::size_t>(slot) + 1];
      if (begin != std::string_view::npos && last != std::string_view::npos)
        match.groups[name] = text.substr(begin, last - begin);
    }
    return {std::move(match), at};
  }
  return {std::nullopt, text.size()};
}

}  // namespace kvasir::text
