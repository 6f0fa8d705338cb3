// An encoder of a tokenizer.json: the text goes through the steps that stand there (text/steps.hpp), then every piece
// becomes tokens. tokenizer.kvasir.normalizer and tokenizer.kvasir.pre_tokenizer hold the steps as JSON.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "text/marks.hpp"
#include "text/steps.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::text {

inline Steps read_steps(const weights::Metadata& m) {
  const auto read = [&](const char* key) {
    const auto text = m.get_string(key);
    return text ? parse_json(*text, m.path() + ": " + key) : StepJson();
  };
  return Steps(read("tokenizer.kvasir.normalizer"), read("tokenizer.kvasir.pre_tokenizer"),
               m.path() + "/tokenizer.json");
}

// Spelling of vocabularies whose words begin with a space.
inline std::string behind_space(std::string_view piece) { return fmt::format(" {}", piece); }

template <class Model>
class Stepped final : public Encoder {
 public:
  // `spelling`: a piece as the vocabulary's tokens are spelled.
  template <class... Arguments>
  Stepped(const weights::Metadata& m, const Vocabulary& vocabulary, std::string (*spelling)(std::string_view),
          Arguments&&... arguments)
      : steps_(read_steps(m)), spelling_(spelling), model_(vocabulary, std::forward<Arguments>(arguments)...) {}

  bool adds_space() const override { return spelling_ == behind_space || steps_.marks_first(); }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, scratch.first, out, scratch);
  }
  void encode_behind(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, false, out, scratch);
  }

 private:
  void encode(std::string_view text, bool first, std::vector<std::int32_t>& out, EncodeScratch& scratch) const {
    for (const StepPiece& piece : steps_.pieces(text, first)) {
      const std::string_view word = scratch.keep(spelling_(piece.text));
      scratch.cache.append(word, [&] {
        if constexpr (requires { model_.encode(word, scratch.merger, out); })
          model_.encode(word, scratch.merger, out);
        else
          model_.encode(word, out);
      });
    }
  }

  const Steps steps_;
  std::string (*const spelling_)(std::string_view);
  const Model model_;
};

}  // namespace kvasir::text
