// Byte-level BPE of a tokenizer.json whose steps are none that a pre-tokenizer here has: the steps are interpreted.
#include "text/ranked_bpe.hpp"
#include "text/stepped.hpp"

namespace kvasir::text::tokenizers_steps_bytes {
namespace {

struct Model : RankedBpe {
  Model(const Vocabulary& vocabulary, const weights::Metadata& m) : RankedBpe(m, vocabulary, true) {}
};

std::unique_ptr<Encoder> make(const weights::Metadata& m, const Vocabulary& vocabulary) {
  return std::make_unique<Stepped<Model>>(m, vocabulary, token_bytes, m);
}

constexpr std::string_view kNames[] = {"steps-bytes"};

}  // namespace

const TokenizerKind entry{.serves = kNames, .rules = {.bytes = token_bytes}, .make = make};

}  // namespace kvasir::text::tokenizers_steps_bytes
