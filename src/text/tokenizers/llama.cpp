// SentencePiece BPE: characters are joined while the result is a token, the highest score first.
#include "text/character_bpe.hpp"
#include "text/scores.hpp"

namespace kvasir::text::tokenizers_llama {
namespace {

struct ByScore {
  const Vocabulary& vocabulary;
  std::vector<float> scores;  // (vocabulary size), no NaN

  Merger::Join operator()(const Merger::Symbol&, const Merger::Symbol&, std::string_view both) const {
    const auto id = vocabulary.find_word(both);
    return {id < 0 ? 0.0 : -static_cast<double>(scores[static_cast<std::size_t>(id)]), id};
  }
};

constexpr std::string_view kNames[] = {"llama"};

}  // namespace

const TokenizerKind entry{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .byte_names = true, .ids = {.bos = 1, .eos = 2, .unknown = 0}},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      const std::string scheme = metadata.get_string("tokenizer.kvasir.metaspace").value_or("");
      return std::make_unique<CharacterBpe<ByScore>>(
          vocabulary, ByScore{vocabulary, read_scores(metadata, vocabulary)},
          CharacterBpe<ByScore>::Options{
              .adds_space = metadata.get_bool("tokenizer.ggml.add_space_prefix").value_or(true),
              .add_bos = true,
              .space_where_none = !scheme.empty(),
              .space_first = scheme == "first"});
    },
};

}  // namespace kvasir::text::tokenizers_llama
