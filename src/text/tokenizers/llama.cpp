// SentencePiece BPE: characters are joined while the result is a token, the highest score first; characters that are no
// token fall back to byte tokens. Files write a space as U+2581.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "text/merge.hpp"
#include "text/tables.hpp"
#include "text/tokenizer.hpp"
#include "text/word_cache.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::entries::tokenizers {
namespace {

constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMark = "\xe2\x96\x81";  // U+2581

std::string marks_to_spaces(std::string_view text) {
  std::string out;
  for (auto at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark)) {
    out.append(text.substr(0, at)).push_back(' ');
    text.remove_prefix(at + kMark.size());
  }
  return out.append(text);
}

// Calls visit(begin, char) for each character.
template <class Visit>
void each_char(std::string_view text, Visit visit) {
  for (std::size_t i = 0; i < text.size();) {
    const unicode::Char c = unicode::decode_char(text.substr(i));
    visit(i, c);
    i += c.size;
  }
}

class SentencePieceBpe final : public Encoder {
 public:
  SentencePieceBpe(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), adds_space_(metadata.get_bool("tokenizer.ggml.add_space_prefix").value_or(true)) {
    read_scores(metadata);
    byte_ids_.fill(-1);
    for (const auto id : vocabulary.of_type({TokenType::kByte})) {
      const auto piece = vocabulary.piece(id);
      if (piece.size() == 1) byte_ids_[static_cast<unsigned char>(piece[0])] = id;
    }
    read_neighbours();
  }

  bool adds_space() const override { return adds_space_; }
  bool default_add_bos() const override { return true; }

  // A literal U+2581 reads as a space, as SentencePiece has it.
  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    encode_spaced(std::string(adds_space_ ? 1 : 0, ' ') + marks_to_spaces(text), out);
  }
  void encode_behind(std::string_view text, std::vector<std::int32_t>& out) const override {
    encode_spaced(marks_to_spaces(text), out);
  }

 private:
  void encode_spaced(std::string_view spaced, std::vector<std::int32_t>& out) const {
    WordCache cache(spaced.size(), out);
    Merger merger;
    split(spaced, [&](std::string_view part) { cache.append(part, [&] { encode_part(part, merger, out); }); });
  }

  void read_scores(const weights::Metadata& metadata) {
    const auto fail = [&](const std::string& message) {
      throw Error(Code::kBadInput, message, metadata.path() + ": " + kScores);
    };
    const auto* scores = metadata.get_floats(kScores);
    if (!scores) fail("is missing, expected the scores of a SentencePiece vocabulary");
    if (scores->size() != static_cast<std::size_t>(vocabulary_.size())) {
      fail(fmt::format("has {} entries, expected {}, one per token", scores->size(), vocabulary_.size()));
    }
    for (std::size_t i = 0; i < scores->size(); ++i) {
      if (std::isnan((*scores)[i])) fail(fmt::format("entry {} is not a number", i));
      scores_.push_back(static_cast<float>((*scores)[i]));
    }
  }

  // Every pair of characters that stand side by side in some token. Where a text has another pair no merge can reach
  // across, so the parts on both sides are encoded independently: in most vocabularies these are the words.
  void read_neighbours() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
      if (vocabulary_.type(id) != TokenType::kNormal && vocabulary_.type(id) != TokenType::kUndefined) continue;
      longest_ = std::max(longest_, vocabulary_.piece(id).size());
      std::uint32_t previous = 0;
      each_char(vocabulary_.piece(id), [&](std::size_t begin, unicode::Char c) {
        if (begin > 0) pairs.emplace_back(previous, c.code);
        previous = c.code;
      });
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    neighbours_.reserve(pairs.size());
    for (const auto& [left, right] : pairs) neighbours_.insert(left, right, true);
  }

  template <class Visit>
  void split(std::string_view text, Visit visit) const {
    std::size_t start = 0;
    std::uint32_t previous = 0;
    each_char(text, [&](std::size_t begin, unicode::Char c) {
      if (begin > start && !neighbours_.find(previous, c.code)) {
        visit(text.substr(start, begin - start));
        start = begin;
      }
      previous = c.code;
    });
    visit(text.substr(start));
  }

  void encode_part(std::string_view part, Merger& merger, std::vector<std::int32_t>& out) const {
    const auto slice = [&](std::uint32_t begin, std::uint32_t size) { return part.substr(begin, size); };
    merger.clear();
    each_char(part, [&](std::size_t begin, unicode::Char c) {
      const auto b = static_cast<std::uint32_t>(begin);
      merger.push({b, c.size, vocabulary_.find_word(slice(b, c.size))});
    });
    merger.run([&](const Merger::Symbol& left, const Merger::Symbol& right) -> Merger::Join {
      const auto size = left.size + right.size;
      const auto id = size > longest_ ? -1 : vocabulary_.find_word(slice(left.begin, size));
      return {id < 0 ? 0.0 : -static_cast<double>(scores_[static_cast<std::size_t>(id)]), id};
    });
    merger.each([&](const Merger::Symbol& s) {
      if (s.id >= 0) return out.push_back(s.id);
      append_bytes(slice(s.begin, s.size), out);
    });
  }

  void append_bytes(std::string_view bytes, std::vector<std::int32_t>& out) const {
    for (const char c : bytes) {
      const auto byte = byte_ids_[static_cast<unsigned char>(c)];
      const auto id = byte >= 0 ? byte : vocabulary_.ids().unknown;
      if (id >= 0) out.push_back(id);
    }
  }

  const Vocabulary& vocabulary_;
  bool adds_space_;
  std::vector<float> scores_;               // (vocabulary size), no NaN
  std::array<std::int32_t, 256> byte_ids_;  // -1: no token for this byte
  PairMap<bool> neighbours_;
  std::size_t longest_ = 0;  // bytes of the longest normal token: keeps look-ups from hashing long stretches
};

constexpr std::string_view kNames[] = {"llama"};

}  // namespace

extern const TokenizerKind llama;
const TokenizerKind llama{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .byte_names = true, .ids = {.bos = 1, .eos = 2, .unknown = 0}},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<SentencePieceBpe>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::entries::tokenizers
