#include "text/split.hpp"

#include <algorithm>
#include <iterator>

namespace kvasir::text {
namespace {

using SplitItem = Scanner::Item;

constexpr std::uint32_t kLongS = 0x17f;  // "ſ", an "s" when case is ignored

std::uint32_t ascii_lower(std::uint32_t code) { return code >= 'A' && code <= 'Z' ? code + 32 : code; }

bool item_is_letter(const SplitItem& c) { return c.letter(); }
bool item_is_number(const SplitItem& c) { return c.number(); }
bool is_symbol(const SplitItem& c) { return c.symbol(); }

// The script, with its radicals, numbers and marks.
constexpr unicode::CodeRange kHan[] = {
    {0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},   {0x3007, 0x3007},
    {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfa6d},
    {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b738},
    {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a},
};

// The end of a match of the GPT-2 pattern at `position`.
std::size_t gpt2_match(const Scanner& text, std::size_t position) {
  if (const auto n = contraction(text, position, false)) return position + n;
  std::size_t body = position;
  SplitItem first = text.at(position);
  if (first.is(' ')) {
    const SplitItem second = text.at(position + 1);
    if (second.size != 0 && !second.space()) {
      body = position + 1;
      first = second;
    }
  }
  if (first.letter()) return text.skip(body, item_is_letter);
  if (first.number()) return text.skip(body, item_is_number);
  if (first.symbol()) return text.skip(body, is_symbol);
  return spaces_match(text, position, false);
}

}  // namespace

bool is_han(const Scanner::Item& c) {
  if (c.code < 0x2e80) return false;
  const auto* r =
      std::lower_bound(std::begin(kHan), std::end(kHan), c.code,
                       [](const unicode::CodeRange& range, std::uint32_t code) { return range.last < code; });
  return r != std::end(kHan) && r->first <= c.code;
}

std::size_t contraction(const Scanner& text, std::size_t position, bool ignore_case) {
  if (!text.at(position).is('\'')) return 0;
  const auto letter = [&](std::size_t i) {
    const auto code = text.at(position + i).code;
    return ignore_case ? ascii_lower(code) : code;
  };
  const auto a = letter(1);
  if (ignore_case && a == kLongS) return 3;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (a != 'l' && a != 'v' && a != 'r') return 0;
  return letter(2) == (a == 'l' ? 'l' : 'e') ? 3 : 0;
}

std::size_t spaces_match(const Scanner& text, std::size_t position, bool newlines) {
  std::size_t end = position, last = position, after_newline = position;
  for (SplitItem c = text.at(position); c.space(); c = text.at(end)) {
    last = end;
    end += c.size;
    if (c.newline()) after_newline = end;
  }
  if (newlines && after_newline > position) return after_newline;
  // \s+(?!\S): the run without its last character when something follows it and something is left.
  return end < text.size() && last > position ? last : end;
}

void split_gpt2(std::string_view text, Emit emit) { tile(text, gpt2_match, emit); }

void split_digits_gpt2(std::string_view text, Emit emit) {
  isolate(text, one_number, [&](std::string_view part) { split_gpt2(part, emit); });
}

std::size_t bloom_word(const Scanner& text, std::size_t position) {
  const auto inside = [](const SplitItem& c) {
    constexpr std::uint32_t kStops[] = {'(',    ')',    '|',    '.',    ',',   '!',   '?',
                                        0x2026, 0x3002, 0xff0c, 0x3001, 0x964, 0x6d4, 0x60c};
    return !c.space() && std::find(std::begin(kStops), std::end(kStops), c.code) == std::end(kStops);
  };
  const std::size_t begin = text.at(position).is(' ') ? position + 1 : position;
  const std::size_t end = text.skip(begin, inside);
  return end > begin ? end : position;
}

void split_bloom(std::string_view text, Emit emit) { isolate(text, bloom_word, emit); }

std::size_t one_number(const Scanner& text, std::size_t position) {
  const SplitItem c = text.at(position);
  return c.number() ? position + c.size : position;
}

std::size_t numbers(const Scanner& text, std::size_t position) { return text.skip(position, item_is_number); }

std::size_t three_numbers(const Scanner& text, std::size_t position) {
  for (int n = 0; n < 3; ++n) position = one_number(text, position);
  return position;
}

std::size_t three_digits(const Scanner& text, std::size_t position) {
  for (std::size_t i = 0; i < 3; ++i) {
    const SplitItem c = text.at(position + i);
    if (c.size == 0 || !c.within('0', '9')) return position;
  }
  return position + 3;
}

void split_thousands(std::string_view text, Emit emit) {
  isolate(text, numbers, [&](std::string_view part) {
    const Scanner scanner(part);
    if (!scanner.at(0).number()) return emit(part);
    std::size_t count = 0;
    for (std::size_t i = 0; i < part.size(); i += scanner.at(i).size) ++count;
    for (std::size_t begin = 0; begin < part.size();) {
      std::size_t end = begin;
      do {
        end += scanner.at(end).size;
      } while (--count % 3 != 0);
      emit(scanner.slice(begin, end));
      begin = end;
    }
  });
}

}  // namespace kvasir::text
