// The ranked merges of a BPE vocabulary: tokenizer.ggml.merges, "left right", the lowest rank first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/merge.hpp"
#include "text/tables.hpp"
#include "text/vocabulary.hpp"

namespace kvasir::text {

class Ranks {
 public:
  // `bytes` turns a token as files write it into what it stands for, as in VocabularyRules. Throws Error(kBadInput)
  // naming the file and the entry for a merge of tokens that the vocabulary does not have.
  Ranks(const weights::Metadata& metadata, const Vocabulary& vocabulary, std::string (*bytes)(std::string_view));

  // What joining two neighbours gives.
  Merger::Join join(std::int32_t left, std::int32_t right) const {
    const Merge* m = merges_.find(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
    if (!m || left < 0 || right < 0) return {0, -1};
    return {static_cast<double>(m->rank), m->id};
  }

 private:
  struct Merge {
    std::int32_t rank;
    std::int32_t id;
  };

  PairMap<Merge> merges_;
};

// The token that files write as `token`: a normal one, else a special one of that very name (some vocabularies list the
// bytes that UTF-8 never uses as added tokens). -1: none.
std::int32_t find_written(const Vocabulary& vocabulary, std::string_view token, std::string (*bytes)(std::string_view));

}  // namespace kvasir::text
