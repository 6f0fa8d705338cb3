// WordPiece of a tokenizer.json behind the steps that stand there. Tokens that begin words are written with a space in
// front, those that go on without a sign.
#include <limits>

#include "text/stepped.hpp"
#include "text/wordpiece.hpp"

namespace kvasir::text::tokenizers_steps_wordpiece {
namespace {

std::string as_written(std::string_view token) { return std::string(token); }

std::unique_ptr<Encoder> make(const weights::Metadata& m, const Vocabulary& vocabulary) {
  const auto longest =
      m.get_int("tokenizer.kvasir.longest_word", 1, std::numeric_limits<std::int32_t>::max()).value_or(100);
  return std::make_unique<Stepped<WordPiece>>(m, vocabulary, behind_space, static_cast<std::size_t>(longest));
}

constexpr std::string_view kNames[] = {"steps-wordpiece"};

}  // namespace

const TokenizerKind entry{.serves = kNames, .rules = {.bytes = as_written}, .make = make};

}  // namespace kvasir::text::tokenizers_steps_wordpiece
