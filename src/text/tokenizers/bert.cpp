// WordPiece (BERT): words without case and accents, each cut into the longest tokens from the left; a word that cannot
// be cut is the unknown token. Files write the beginning of a word as U+2581.
#include <algorithm>

#include "text/bert_text.hpp"
#include "text/marks.hpp"
#include "text/tokenizer.hpp"
#include "text/wordpiece.hpp"
#include "unicode/case.hpp"
#include "unicode/classes.hpp"
#include "unicode/normal.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::tokenizers_bert {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters; longer words are unknown

class Bert final : public Encoder {
 public:
  Bert(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : lowers_(metadata.get_bool("tokenizer.ggml.normalizer.lowercase").value_or(true)),
        strips_(metadata.get_bool("tokenizer.ggml.normalizer.strip_accents").value_or(lowers_)),
        model_(vocabulary, kLongestWord) {}

  bool adds_space() const override { return true; }
  bool default_add_bos() const override { return true; }
  bool default_add_eos() const override { return true; }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    const std::string_view words = scratch.keep(normalised(text));
    for (std::size_t begin = 0; begin < words.size();) {
      const std::size_t end = std::min(words.find(' ', begin + 1), words.size());
      const auto word = words.substr(begin, end - begin);
      scratch.cache.append(word, [&] { model_.encode(word, out); });
      begin = end;
    }
  }

 private:
  // Every word with a space in front of it.
  std::string normalised(std::string_view text) const {
    const std::string apart = strips_ ? unicode::nfd(text) : std::string();
    if (strips_) text = apart;
    std::string out;
    out.reserve(text.size() + text.size() / 4 + 1);
    bool inside = false;  // of a word that goes on
    each_char(text, [&](std::size_t, unicode::Char c) {
      if (is_dropped(c.code) || (strips_ && unicode::char_class(c.code) == unicode::CharClass::kAccent)) return;
      if (is_blank(c.code)) {
        inside = false;
        return;
      }
      const bool alone = is_punctuation(c.code) || is_ideograph(c.code);
      if (alone || !inside) out.push_back(' ');
      inside = !alone;
      if (lowers_)
        unicode::append_lower(out, c.code);
      else
        unicode::append_utf8(out, c.code);
    });
    return out;
  }

  bool lowers_;
  bool strips_;
  WordPiece model_;
};

constexpr std::string_view kNames[] = {"bert"};

}  // namespace

const TokenizerKind entry{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .encoder = true, .ids = {.bos = 101, .eos = 102, .unknown = 100}},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<Bert>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::tokenizers_bert
