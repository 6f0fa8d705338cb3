// What files mean that name no pre-tokenizer: punctuation, GPT-2's pattern, numbers, then digits by threes.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_entry_default {
namespace {

// [\p{P}$+<=>^~|]+
std::size_t punctuation(const Scanner& s, std::size_t i) {
  return s.skip(i, [](const Scanner::Item& c) {
    return c.kind == unicode::CharClass::kPunctuation || c.is('$') || c.is('+') || c.is('<') || c.is('=') ||
           c.is('>') || c.is('^') || c.is('~') || c.is('|');
  });
}

void split(std::string_view text, Emit emit) {
  isolate(text, punctuation, [&](std::string_view a) {
    split_gpt2(a, [&](std::string_view b) {
      isolate(b, numbers, [&](std::string_view c) { isolate(c, three_digits, emit); });
    });
  });
}

constexpr std::string_view kNames[] = {"default"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_entry_default
