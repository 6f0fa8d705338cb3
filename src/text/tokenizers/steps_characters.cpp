// BPE of characters of a tokenizer.json with steps beyond SentencePiece's: the steps are interpreted. As in GGUF tokens
// have U+2581 for a space.
#include "text/ranked_bpe.hpp"
#include "text/stepped.hpp"

namespace kvasir::text::tokenizers_steps_characters {
namespace {

struct Model : RankedBpe {
  Model(const Vocabulary& vocabulary, const weights::Metadata& m) : RankedBpe(m, vocabulary, false) {}
};

std::unique_ptr<Encoder> make(const weights::Metadata& m, const Vocabulary& vocabulary) {
  return std::make_unique<Stepped<Model>>(m, vocabulary, marks_to_spaces, m);
}

constexpr std::string_view kNames[] = {"steps-characters"};

}  // namespace

const TokenizerKind entry{.serves = kNames, .rules = {.bytes = marks_to_spaces, .byte_names = true}, .make = make};

}  // namespace kvasir::text::tokenizers_steps_characters
