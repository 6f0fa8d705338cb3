// WordPiece: a word is cut into the longest tokens from the left; one that cannot be cut is the unknown token. Tokens
// that begin words have a space in front.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/marks.hpp"
#include "text/trie.hpp"
#include "text/vocabulary.hpp"

namespace kvasir::text {

class WordPiece {
 public:
  // Words of more than `longest` characters are unknown.
  WordPiece(const Vocabulary& vocabulary, std::size_t longest)
      : vocabulary_(vocabulary),
        longest_(longest),
        trie_(vocabulary, vocabulary.of_type({TokenType::kNormal, TokenType::kUndefined})) {}

  // `word` begins with a space.
  void encode(std::string_view word, std::vector<std::int32_t>& out) const {
    const std::size_t begin = out.size();
    std::size_t characters = 0;
    each_char(word, [&](std::size_t, unicode::Char) { ++characters; });
    bool whole = characters <= longest_ + 1;
    for (std::size_t i = 0; whole && i < word.size();) {
      std::size_t size = 0;
      std::int32_t id = -1;
      trie_.prefixes(word.substr(i), [&](std::size_t n, std::int32_t token) {
        size = n;
        id = token;
      });
      whole = id >= 0;
      i += size;
      out.push_back(id);
    }
    if (whole) return;
    out.resize(begin);
    if (vocabulary_.ids().unknown >= 0) out.push_back(vocabulary_.ids().unknown);
  }

 private:
  const Vocabulary& vocabulary_;
  const std::size_t longest_;
  const Trie trie_;
};

}  // namespace kvasir::text
