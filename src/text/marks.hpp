// What SentencePiece's vocabularies have in common: files write a space as U+2581, bytes as "<0x41>".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {

// U+2581 becomes a space.
std::string marks_to_spaces(std::string_view text);

// The ids that bytes without a token of their own become: byte tokens, else the unknown token.
class ByteFallback {
 public:
  explicit ByteFallback(const Vocabulary& vocabulary);

  // Whether there is a token for every byte.
  bool complete() const;
  // Bytes for which there is neither a token nor an unknown one become nothing.
  void append(std::string_view bytes, std::vector<std::int32_t>& out) const;

 private:
  std::array<std::int32_t, 256> ids_;  // -1: no token for this byte
  std::int32_t unknown_;
};

// Calls visit(begin, char) for each character.
template <class Visit>
void each_char(std::string_view text, Visit visit) {
  for (std::size_t i = 0; i < text.size();) {
    const unicode::Char c = unicode::decode_char(text.substr(i));
    visit(i, c);
    i += c.size;
  }
}

}  // namespace kvasir::text
