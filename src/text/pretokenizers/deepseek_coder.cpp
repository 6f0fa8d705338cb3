// DeepSeek Coder: newlines, words, punctuation, East Asian scripts and numbers, one pattern after the other.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_deepseek_coder {
namespace {

using Item = Scanner::Item;

// \s?[accept]+
template <class Accept>
std::size_t spaced_run(const Scanner& s, std::size_t i, Accept accept) {
  const Item c = s.at(i);
  const std::size_t begin = c.space() ? i + c.size : i;
  const std::size_t end = s.skip(begin, accept);
  return end > begin ? end : i;
}

std::size_t newline(const Scanner& s, std::size_t i) { return s.at(i).newline() ? i + 1 : i; }
std::size_t word(const Scanner& s, std::size_t i) {
  return spaced_run(s, i, [](const Item& c) { return c.letter(); });
}
std::size_t punctuation(const Scanner& s, std::size_t i) {
  return spaced_run(s, i, [](const Item& c) { return c.kind == unicode::CharClass::kPunctuation; });
}
// [一-龥ࠀ-一가-퟿]+
std::size_t east_asian(const Scanner& s, std::size_t i) {
  return s.skip(i, [](const Item& c) { return c.within(0x800, 0x9fa5) || c.within(0xac00, 0xd7ff); });
}

void split(std::string_view text, Emit emit) {
  const auto rest = [&](std::string_view t) {
    isolate(t, east_asian, [&](std::string_view part) { isolate(part, one_number, emit); });
  };
  const auto words = [&](std::string_view t) {
    isolate(t, word, [&](std::string_view part) { isolate(part, punctuation, rest); });
  };
  isolate(text, newline, words);
}

constexpr std::string_view kNames[] = {"deepseek-coder"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_deepseek_coder
