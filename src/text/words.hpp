// The pattern that GPT-4 began and its children vary:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// Case is ignored in ASCII; "ſ" is an "s" then.
#pragma once

#include <string_view>

#include "text/split.hpp"

namespace kvasir::text {

struct Words {
  enum class Contraction { kNone, kBefore, kBehind };  // kBehind: a contraction ends the word in front of it
  enum class Letters {
    kPlain,   // \p{L}+
    kMarked,  // [\p{L}\p{M}]+, and marks are no symbols
    // Words end in front of a capital: U*L+|U+L* with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L =
    // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
    kCased,
    kSpaced,  // (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ : single spaces between words are part of them
  };
  enum class Behind { kNone, kNewlines, kNewlinesAndSlashes, kOne };  // behind symbols: "", [\r\n]*, [\r\n/]*, [\r\n/]?

  Contraction contraction = Contraction::kBefore;
  Letters letters = Letters::kPlain;
  int digits = 3;  // \p{N}{1,digits}
  Behind behind = Behind::kNewlines;
  bool han_apart = false;  // runs of Chinese characters are pieces, whatever else these characters are
};

namespace words {

using Item = Scanner::Item;
using Letters = Words::Letters;

template <Words w>
bool in_word(const Item& c) {
  if constexpr (w.han_apart) {
    if (is_han(c)) return false;
  }
  return c.letter() || (w.letters != Letters::kPlain && w.letters != Letters::kSpaced && c.mark());
}

// U*L+|U+L* at `position`, which must be in a word; with `lower` the first alternative alone, `position` if it fails.
template <Words w>
std::size_t cased_run(const Scanner& text, std::size_t position, bool lower) {
  using unicode::CharClass;
  std::size_t end = position, kept = position;  // kept: behind the last character that L takes too
  for (Item c = text.at(end); in_word<w>(c) && c.kind != CharClass::kLower; c = text.at(end)) {
    end += c.size;
    if (c.kind != CharClass::kUpper) kept = end;
  }
  const std::size_t behind = text.skip(end, [](const Item& c) { return in_word<w>(c) && c.kind != CharClass::kUpper; });
  if (behind > end) return behind;
  return lower || kept > position ? kept : end;
}

// The letters of a word from `position` on.
template <Words w>
std::size_t run(const Scanner& text, std::size_t position) {
  if constexpr (w.letters == Letters::kSpaced) {
    for (Item c = text.at(position); c.letter(); c = text.at(position)) {
      position = text.skip(position + c.size, [](const Item& m) { return m.mark(); });
      if (text.at(position).is(' ') && text.at(position + 1).letter()) ++position;
    }
    return position;
  } else {
    return text.skip(position, in_word<w>);
  }
}

// [^\r\n\p{L}\p{N}]?WORD; `position` when there is none.
template <Words w>
std::size_t word(const Scanner& text, std::size_t position, const Item& first) {
  const bool inside = in_word<w>(first);
  if constexpr (w.letters == Letters::kCased) {
    // A mark may be what stands in front of a word, so both readings are tried, each alternative first with it.
    const std::size_t second = position + first.size;
    const bool prefixed = !first.letter() && !first.number() && !first.newline() && in_word<w>(text.at(second));
    for (const bool lower : {true, false}) {
      if (prefixed) {
        if (const auto end = cased_run<w>(text, second, lower); end > second) return end;
      }
      if (inside) {
        if (const auto end = cased_run<w>(text, position, lower); end > position) return end;
      }
    }
    return position;
  } else {
    if (inside) return run<w>(text, position);
    if (first.letter() || first.number() || first.newline()) return position;
    const std::size_t second = position + first.size;
    return in_word<w>(text.at(second)) ? run<w>(text, second) : position;
  }
}

template <Words w>
bool symbol(const Item& c) {
  return c.symbol() && (w.letters != Letters::kMarked || !c.mark());
}

inline bool newline(const Item& c) { return c.newline(); }
inline bool newline_or_slash(const Item& c) { return c.newline() || c.is('/'); }

template <Words w>
std::size_t behind(const Scanner& text, std::size_t position) {
  if constexpr (w.behind == Words::Behind::kNewlines) return text.skip(position, newline);
  if constexpr (w.behind == Words::Behind::kNewlinesAndSlashes) return text.skip(position, newline_or_slash);
  if constexpr (w.behind == Words::Behind::kOne) return newline_or_slash(text.at(position)) ? position + 1 : position;
  return position;
}

template <Words w>
std::size_t match(const Scanner& text, std::size_t position) {
  const Item first = text.at(position);
  if constexpr (w.han_apart) {
    if (is_han(first)) return text.skip(position, is_han);
  }
  if constexpr (w.contraction == Words::Contraction::kBefore) {
    if (const auto n = contraction(text, position, true)) return position + n;
  }
  if (const auto end = word<w>(text, position, first); end > position)
    return w.contraction == Words::Contraction::kBehind ? end + contraction(text, end, true) : end;
  if (first.number()) {
    for (int n = 0; n < w.digits; ++n) {
      const auto end = one_number(text, position);
      if (end == position) break;
      position = end;
    }
    return position;
  }
  if (symbol<w>(first) || (first.is(' ') && symbol<w>(text.at(position + 1))))
    return behind<w>(text, text.skip(position + first.size, symbol<w>));
  return spaces_match(text, position, true);
}

}  // namespace words

template <Words w>
void split_words(std::string_view text, Emit emit) {
  tile(text, words::match<w>, emit);
}

}  // namespace kvasir::text
