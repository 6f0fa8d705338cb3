// Unigram of a tokenizer.json behind the steps that stand there. As in GGUF tokens have U+2581 for a space.
#include "base/error.hpp"
#include "text/stepped.hpp"
#include "text/unigram.hpp"

namespace kvasir::text::tokenizers_steps_unigram {
namespace {

std::vector<double> scores_of(const weights::Metadata& m, const Vocabulary& vocabulary) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  const auto* scores = m.get_floats(kScores);
  if (!scores || scores->size() != static_cast<std::size_t>(vocabulary.size()))
    throw Error(Code::kBadInput, "has not one number for each token", m.path() + ": " + kScores);
  for (const double x : *scores)
    if (!(x == x)) throw Error(Code::kBadInput, "holds something that is not a number", m.path() + ": " + kScores);
  return *scores;
}

std::unique_ptr<Encoder> make(const weights::Metadata& m, const Vocabulary& vocabulary) {
  return std::make_unique<Stepped<Unigram>>(m, vocabulary, marks_to_spaces, scores_of(m, vocabulary),
                                            m.get_bool("tokenizer.kvasir.byte_fallback").value_or(false));
}

constexpr std::string_view kNames[] = {"steps-unigram"};

}  // namespace

const TokenizerKind entry{.serves = kNames, .rules = {.bytes = marks_to_spaces, .byte_names = true}, .make = make};

}  // namespace kvasir::text::tokenizers_steps_unigram
