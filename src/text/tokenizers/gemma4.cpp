// Gemma 4 and relatives: SentencePiece's characters and byte tokens, but merges that are listed by rank.
#include "text/character_bpe.hpp"
#include "text/ranks.hpp"

namespace kvasir::text::tokenizers_gemma4 {
namespace {

struct ByRank {
  Ranks ranks;

  Merger::Join operator()(const Merger::Symbol& left, const Merger::Symbol& right, std::string_view) const {
    return ranks.join(left.id, right.id);
  }
};

constexpr std::string_view kNames[] = {"gemma4", "gpt2/gemma4", "gpt2/granite-embed-multi-311m", "gpt2/sarvam-moe"};

}  // namespace

const TokenizerKind entry{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .byte_names = true},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<CharacterBpe<ByRank>>(
          vocabulary, ByRank{Ranks(metadata, vocabulary, marks_to_spaces)},
          CharacterBpe<ByRank>::Options{
              .adds_space = metadata.get_bool("tokenizer.ggml.add_space_prefix").value_or(false),
              .add_bos = vocabulary.ids().bos >= 0});
    },
};

}  // namespace kvasir::text::tokenizers_gemma4
