#include "text/split.hpp"

namespace kvasir::text {
namespace {

using Item = Scanner::Item;

std::uint32_t ascii_lower(std::uint32_t code) { return code >= 'A' && code <= 'Z' ? code + 32 : code; }

bool is_letter(const Item& c) { return c.letter(); }
bool is_number(const Item& c) { return c.number(); }
bool is_symbol(const Item& c) { return c.symbol(); }
bool is_newline(const Item& c) { return c.newline(); }

// What is known about the run of white space at a position.
struct SpaceRun {
  std::size_t end;
  std::size_t last;           // where its last character begins
  std::size_t after_newline;  // behind its last \r or \n; the position itself when it has none
};

SpaceRun space_run(const Scanner& text, std::size_t position) {
  SpaceRun run{position, position, position};
  for (Item c = text.at(position); c.space(); c = text.at(run.end)) {
    run.last = run.end;
    run.end += c.size;
    if (c.newline()) run.after_newline = run.end;
  }
  return run;
}

// \s+(?!\S)|\s+ : the run without its last character when something follows it and something is left.
std::size_t end_of_spaces(const Scanner& text, const SpaceRun& run, std::size_t position) {
  return run.end < text.size() && run.last > position ? run.last : run.end;
}

// The end of a match of the GPT-2 pattern at `position`.
std::size_t gpt2_match(const Scanner& text, std::size_t position) {
  if (const auto n = contraction(text, position, false)) return position + n;
  std::size_t body = position;
  Item first = text.at(position);
  if (first.is(' ')) {
    const Item second = text.at(position + 1);
    if (second.size != 0 && !second.space()) {
      body = position + 1;
      first = second;
    }
  }
  if (first.letter()) return text.skip(body, is_letter);
  if (first.number()) return text.skip(body, is_number);
  if (first.symbol()) return text.skip(body, is_symbol);
  return end_of_spaces(text, space_run(text, position), position);
}

std::size_t numbers_match(const Scanner& text, std::size_t position, int max_digits) {
  for (int n = 0; n < max_digits; ++n) {
    const Item c = text.at(position);
    if (!c.number()) break;
    position += c.size;
  }
  return position;
}

std::size_t llama3_match(const Scanner& text, std::size_t position, int max_digits) {
  if (const auto n = contraction(text, position, true)) return position + n;
  const Item first = text.at(position);
  if (first.letter()) return text.skip(position, is_letter);
  if (first.number()) return numbers_match(text, position, max_digits);
  const Item second = text.at(position + first.size);
  if (second.letter() && !first.newline()) return text.skip(position + first.size, is_letter);
  if (first.symbol() || (first.is(' ') && second.symbol())) {
    return text.skip(text.skip(position + first.size, is_symbol), is_newline);
  }
  const SpaceRun run = space_run(text, position);
  return run.after_newline > position ? run.after_newline : end_of_spaces(text, run, position);
}

}  // namespace

std::size_t contraction(const Scanner& text, std::size_t position, bool ignore_case) {
  if (!text.at(position).is('\'')) return 0;
  const auto letter = [&](std::size_t i) {
    const auto code = text.at(position + i).code;
    return ignore_case ? ascii_lower(code) : code;
  };
  const auto a = letter(1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (a != 'l' && a != 'v' && a != 'r') return 0;
  return letter(2) == (a == 'l' ? 'l' : 'e') ? 3 : 0;
}

void split_gpt2(std::string_view text, Emit emit) {
  const Scanner scanner(text);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = gpt2_match(scanner, i);
    emit(scanner.slice(i, end));
    i = end;
  }
}

void split_llama3(std::string_view text, int max_digits, Emit emit) {
  const Scanner scanner(text);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = llama3_match(scanner, i, max_digits);
    emit(scanner.slice(i, end));
    i = end;
  }
}

}  // namespace kvasir::text
