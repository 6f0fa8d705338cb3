// Building blocks of pre-tokenizers: the patterns that published vocabularies share, as hand-written scanners. A
// scanner looks at each character a bounded number of times, which a backtracking regular expression does not promise.
// The pattern of GPT-4 and its children is in text/words.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/pretokenizer.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {

// A text whose characters are decoded where they are looked at. Positions are byte offsets at character boundaries.
class Scanner {
 public:
  struct Item {
    std::uint32_t code;
    std::uint32_t size;  // 0 at the end of the text
    unicode::CharClass kind;

    bool is(char c) const { return size != 0 && code == static_cast<unsigned char>(c); }
    bool newline() const { return is('\r') || is('\n'); }
    bool letter() const { return unicode::is_letter(kind); }
    bool mark() const { return unicode::is_mark(kind); }
    bool number() const { return unicode::is_number(kind); }
    bool space() const { return kind == unicode::CharClass::kSpace; }
    bool symbol() const {  // [^\s\p{L}\p{N}]
      return size != 0 && kind <= unicode::CharClass::kPunctuation;
    }
    bool sign() const {  // [\p{P}\p{S}]
      return kind == unicode::CharClass::kPunctuation || kind == unicode::CharClass::kSymbol;
    }
    bool within(std::uint32_t first, std::uint32_t last) const { return code >= first && code <= last; }
  };

  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t size() const { return text_.size(); }
  std::string_view slice(std::size_t begin, std::size_t end) const { return text_.substr(begin, end - begin); }

  Item at(std::size_t position) const {
    if (position >= text_.size()) return {0, 0, unicode::CharClass::kOther};
    const unicode::Char c = unicode::decode_char(text_.substr(position));
    return {c.code, c.size, classes_->of(c.code)};
  }

  // The end of the run of characters from `position` on for which `accept(Item)` holds.
  template <class Accept>
  std::size_t skip(std::size_t position, Accept accept) const {
    for (Item c = at(position); c.size != 0 && accept(c); c = at(position)) position += c.size;
    return position;
  }

 private:
  std::string_view text_;
  const unicode::CharClasses* classes_ = &unicode::CharClasses::get();
};

bool is_han(const Scanner::Item& c);  // \p{Han}

// '(?:[sdmt]|ll|ve|re): the length of the contraction at `position`, or 0.
std::size_t contraction(const Scanner& text, std::size_t position, bool ignore_case);

// \s*[\r\n]+|\s+(?!\S)|\s+, the first alternative only with `newlines`. REQUIRES: white space at `position`.
std::size_t spaces_match(const Scanner& text, std::size_t position, bool newlines);

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void split_gpt2(std::string_view text, Emit emit);

// Every \p{N} alone, then split_gpt2 on what lies between.
void split_digits_gpt2(std::string_view text, Emit emit);

//  ?[^(\s|.,!?…。，、।۔،)]+, for isolate.
std::size_t bloom_word(const Scanner& text, std::size_t position);
// The same and what lies between.
void split_bloom(std::string_view text, Emit emit);

// Cuts the text by match after match; `match(scanner, position)` returns where the match at `position` ends, which is
// behind it.
template <class Match>
void tile(std::string_view text, Match match, Emit emit) {
  const Scanner scanner(text);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = match(scanner, i);
    emit(scanner.slice(i, end));
    i = end;
  }
}

// Emits the matches of a pattern and what lies between them. `match(scanner, position)` returns where the match that
// begins at `position` ends, or `position` when none does; it must not look further than the match and a constant
// beyond.
template <class Match>
void isolate(std::string_view text, Match match, Emit emit) {
  const Scanner scanner(text);
  std::size_t gap = 0;  // start of the characters that no match has taken
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = match(scanner, i);
    if (end == i) {
      i += scanner.at(i).size;
      continue;
    }
    if (gap < i) emit(scanner.slice(gap, i));
    emit(scanner.slice(i, end));
    gap = i = end;
  }
  if (gap < text.size()) emit(scanner.slice(gap, text.size()));
}

// Patterns for isolate.
std::size_t one_number(const Scanner& text, std::size_t position);     // \p{N}
std::size_t numbers(const Scanner& text, std::size_t position);        // \p{N}+
std::size_t three_numbers(const Scanner& text, std::size_t position);  // \p{N}{1,3}
std::size_t three_digits(const Scanner& text, std::size_t position);   // [0-9][0-9][0-9]

// Runs of \p{N} in groups of three counted from their ends ("1234567" -> 1 234 567), and what lies between.
void split_thousands(std::string_view text, Emit emit);

}  // namespace kvasir::text
