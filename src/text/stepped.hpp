// An encoder of a tokenizer.json: the text goes through the steps that stand there (text/steps.hpp), then every piece
// becomes tokens. tokenizer.kvasir.normalizer and tokenizer.kvasir.pre_tokenizer hold the steps as JSON.
#pragma once

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

template <class Model>
class Stepped final : public Encoder {
 public:
  // `space`: a space in front of every piece; otherwise U+2581 in it becomes one.
  template <class... Arguments>
  Stepped(const weights::Metadata& m, const Vocabulary& vocabulary, bool space, Arguments&&... arguments)
      : bos_(vocabulary.ids().bos),
        steps_(read_steps(m)),
        space_(space),
        model_(vocabulary, std::forward<Arguments>(arguments)...) {}

  bool adds_space() const override { return space_ || steps_.marks_first(); }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    // The beginning of a text, unless that spells the BOS.
    encode(text, out.empty() || (out.size() == 1 && out.front() == bos_), out, scratch);
  }
  void encode_behind(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, false, out, scratch);
  }

 private:
  void encode(std::string_view text, bool first, std::vector<std::int32_t>& out, EncodeScratch& scratch) const {
    for (const StepPiece& piece : steps_.pieces(text, first)) {
      const std::string_view word = scratch.keep(space_ ? " " + piece.text : marks_to_spaces(piece.text));
      scratch.cache.append(word, [&] { model_.encode(word, out); });
    }
  }

  const std::int32_t bos_;
  const Steps steps_;
  const bool space_;
  const Model model_;
};

}  // namespace kvasir::text
