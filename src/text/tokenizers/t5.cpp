// SentencePiece Unigram: of all ways to cut the text into tokens the one whose scores sum highest (Kudo 2018, "Subword
// Regularization", section 3), by the Viterbi algorithm. A character that is no token costs 10 more than the worst one.
#include <algorithm>
#include <limits>

#include "text/charsmap.hpp"
#include "text/marks.hpp"
#include "text/scores.hpp"
#include "text/tokenizer.hpp"
#include "text/trie.hpp"

namespace kvasir::text::entries::tokenizers {
namespace {

constexpr const char* kCharsmap = "tokenizer.ggml.precompiled_charsmap";
constexpr double kUnknownPenalty = 10.0;

Charsmap read_charsmap(const weights::Metadata& metadata) {
  const auto* bytes = metadata.get_ints(kCharsmap);
  return bytes ? Charsmap(*bytes, metadata.path() + ": " + kCharsmap) : Charsmap();
}

class Unigram final : public Encoder {
 public:
  Unigram(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        adds_space_(metadata.get_bool("tokenizer.ggml.add_space_prefix").value_or(true)),
        joins_spaces_(metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false)),
        scores_(read_scores(metadata, vocabulary)),
        charsmap_(read_charsmap(metadata)),
        trie_(vocabulary, vocabulary.of_type({TokenType::kNormal, TokenType::kUndefined})),
        bytes_(vocabulary),
        falls_back_(bytes_.complete()) {
    double worst = 0.0;
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.type(id) != TokenType::kNormal) continue;
      worst = std::min(worst, static_cast<double>(scores_[static_cast<std::size_t>(id)]));
      if (vocabulary.piece(id).find(' ', 1) != std::string_view::npos) words_ = false;
    }
    unknown_score_ = worst - kUnknownPenalty;
  }

  bool adds_space() const override { return adds_space_; }
  bool default_add_eos() const override { return true; }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, false, out, scratch);
  }
  void encode_behind(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode(text, true, out, scratch);
  }

 private:
  struct Step {
    double score;
    std::uint32_t size;  // of the token that ends here; 0: none yet
    std::int32_t id;     // -1: a character that is no token
  };

  void encode(std::string_view text, bool behind, std::vector<std::int32_t>& out, EncodeScratch& scratch) const {
    const std::string_view normal = scratch.keep(normalised(marks_to_spaces(text), behind));
    std::vector<Step> steps;
    for (std::size_t begin = 0; begin < normal.size();) {
      // Where no token has a space inside, the best way through the text goes through the beginning of every word.
      const std::size_t end = words_ ? std::min(normal.find(' ', begin + 1), normal.size()) : normal.size();
      const auto word = normal.substr(begin, end - begin);
      scratch.cache.append(word, [&] { encode_word(word, steps, out); });
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

  void encode_word(std::string_view word, std::vector<Step>& steps, std::vector<std::int32_t>& out) const {
    steps.assign(word.size() + 1, {-std::numeric_limits<double>::infinity(), 0, -1});
    steps[0].score = 0.0;
    for (std::size_t i = 0; i < word.size();) {
      const double score = steps[i].score;
      const auto reach = [&](std::size_t size, std::int32_t id, double gain) {
        Step& step = steps[i + size];
        if (step.size == 0 || score + gain > step.score) step = {score + gain, static_cast<std::uint32_t>(size), id};
      };
      const std::size_t character = unicode::decode_char(word.substr(i)).size;
      bool known = false;
      trie_.prefixes(word.substr(i), [&](std::size_t size, std::int32_t id) {
        known = known || size == character;
        reach(size, id, static_cast<double>(scores_[static_cast<std::size_t>(id)]));
      });
      if (!known) reach(character, -1, unknown_score_);
      i += character;
    }
    // From the end of the word, so that ids are turned round.
    const std::size_t begin = out.size();
    bool unknown = false;  // the token behind is no known one either: both become one
    for (std::size_t i = word.size(); i > 0; i -= steps[i].size) {
      if (steps[i].id >= 0)
        out.push_back(steps[i].id);
      else if (falls_back_)
        append_bytes_turned(word.substr(i - steps[i].size, steps[i].size), out);
      else if (!unknown && vocabulary_.ids().unknown >= 0)
        out.push_back(vocabulary_.ids().unknown);
      unknown = steps[i].id < 0;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
  }

  void append_bytes_turned(std::string_view character, std::vector<std::int32_t>& out) const {
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    bytes_.append(character, out);
    std::reverse(out.begin() + begin, out.end());
  }

  const Vocabulary& vocabulary_;
  bool adds_space_;
  bool joins_spaces_;
  std::vector<float> scores_;  // (vocabulary size), no NaN
  Charsmap charsmap_;
  Trie trie_;
  ByteFallback bytes_;
  bool falls_back_;
  bool words_ = true;  // no token has a space behind its first byte
  double unknown_score_ = 0.0;
};

constexpr std::string_view kNames[] = {"t5"};

}  // namespace

extern const TokenizerKind t5;
const TokenizerKind t5{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .byte_names = true, .ids = {.eos = 1, .unknown = 2}},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<Unigram>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::entries::tokenizers
