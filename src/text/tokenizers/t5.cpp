// SentencePiece Unigram (text/unigram.hpp) on texts that its table of characters normalises.
#include <algorithm>

#include "text/charsmap.hpp"
#include "text/marks.hpp"
#include "text/scores.hpp"
#include "text/tokenizer.hpp"
#include "text/unigram.hpp"

namespace kvasir::text::tokenizers_t5 {
namespace {

constexpr const char* kCharsmap = "tokenizer.ggml.precompiled_charsmap";

Charsmap read_charsmap(const weights::Metadata& metadata) {
  const auto* bytes = metadata.get_ints(kCharsmap);
  return bytes ? Charsmap(*bytes, metadata.path() + ": " + kCharsmap) : Charsmap();
}

std::vector<double> scores_of(const weights::Metadata& metadata, const Vocabulary& vocabulary) {
  const std::vector<float> scores = read_scores(metadata, vocabulary);
  return {scores.begin(), scores.end()};
}

class SentencePiece final : public Encoder {
 public:
  SentencePiece(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : adds_space_(metadata.get_bool("tokenizer.ggml.add_space_prefix").value_or(true)),
        joins_spaces_(metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false)),
        charsmap_(read_charsmap(metadata)),
        model_(vocabulary, scores_of(metadata, vocabulary), ByteFallback(vocabulary).complete()) {}

  bool adds_space() const override { return adds_space_; }
  bool default_add_eos() const override { return true; }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, false, out, scratch);
  }
  void encode_behind(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, true, out, scratch);
  }

 private:
  void encode(std::string_view text, bool behind, std::vector<std::int32_t>& out, EncodeScratch& scratch) const {
    const std::string_view normal = scratch.keep(normalised(marks_to_spaces(text), behind));
    for (std::size_t begin = 0; begin < normal.size();) {
      const std::size_t end = model_.words() ? std::min(normal.find(' ', begin + 1), normal.size()) : normal.size();
      const auto word = normal.substr(begin, end - begin);
      scratch.cache.append(word, [&] { model_.encode(word, out); });
      begin = end;
    }
  }

  // The text as the vocabulary was made for: what the table replaces; where spaces are joined, one between words and
  // none at the ends; a space in front unless text stands there.
  std::string normalised(std::string_view text, bool behind) const {
    std::string out;
    out.reserve(text.size() + 1);
    bool after_space = joins_spaces_ && !behind;
    const auto put = [&](std::string_view piece) {
      for (const char c : piece) {
        if (c == ' ' && after_space) continue;
        if (out.empty() && adds_space_ && !behind) out.push_back(' ');
        out.push_back(c);
        after_space = joins_spaces_ && c == ' ';
      }
    };
    for (std::size_t i = 0; i < text.size();) {
      const auto match = charsmap_.find(text.substr(i));
      const std::size_t size = match.size > 0 ? match.size : unicode::decode_char(text.substr(i)).size;
      put(match.size > 0 ? match.text : text.substr(i, size));
      i += size;
    }
    if (joins_spaces_ && !out.empty() && out.back() == ' ') out.pop_back();
    return out;
  }

  bool adds_space_;
  bool joins_spaces_;
  Charsmap charsmap_;
  Unigram model_;
};

constexpr std::string_view kNames[] = {"t5"};

}  // namespace

const TokenizerKind entry{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .byte_names = true, .ids = {.eos = 1, .unknown = 2}},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<SentencePiece>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::tokenizers_t5
