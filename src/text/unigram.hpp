// Unigram: of all ways to cut a word into tokens the one whose scores sum highest (Kudo 2018, "Subword Regularization",
// section 3), by the Viterbi algorithm. A character that is no token costs 10 more than the worst one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/marks.hpp"
#include "text/trie.hpp"
#include "text/vocabulary.hpp"

namespace kvasir::text {

class Unigram {
 public:
  // `scores` (vocabulary size), no NaN. `falls_back`: characters that are no token become their bytes.
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, bool falls_back);

  // Whether no token has a space behind its first byte. Then the best way through a text goes through the beginning of
  // every word.
  bool words() const { return words_; }

  void encode(std::string_view word, std::vector<std::int32_t>& out) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  Trie trie_;
  ByteFallback bytes_;
  bool falls_back_;
  bool words_ = true;
  double unknown_score_ = 0.0;
};

}  // namespace kvasir::text
