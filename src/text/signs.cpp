#include "text/signs.hpp"

namespace kvasir::text {
namespace {

using Item = Scanner::Item;

bool ascii_letter(const Item& c) { return c.within('a', 'z') || c.within('A', 'Z'); }
bool word(const Item& c) { return c.letter() || c.mark(); }
bool sign(const Item& c) { return c.sign(); }
bool newline(const Item& c) { return c.newline(); }

}  // namespace

std::size_t signs_match(const Scanner& text, std::size_t position, bool lines) {
  const Item first = text.at(position), second = text.at(position + first.size);
  if (first.sign() && first.code < 0x80 && ascii_letter(second)) return text.skip(position + 1, ascii_letter);
  if (word(first)) return text.skip(position, word);
  if (!first.newline() && !first.sign() && word(second)) return text.skip(position + first.size, word);
  if (first.sign() || (first.is(' ') && second.sign())) {
    const std::size_t end = text.skip(position + first.size, sign);
    return lines ? end : text.skip(end, newline);
  }
  if (!first.space()) return position;
  if (lines && first.newline()) return position + 1;
  return spaces_match(text, position, !lines);
}

std::size_t han_or_kana(const Scanner& text, std::size_t position) {
  return text.skip(position, [](const Item& c) { return c.within(0x4e00, 0x9fa5) || c.within(0x3040, 0x30ff); });
}

}  // namespace kvasir::text
