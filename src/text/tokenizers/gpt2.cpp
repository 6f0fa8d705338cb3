// Byte-level BPE: a pre-tokenizer cuts the text, each byte of a piece is a token to begin with, ranked merges join
// them. Files write bytes as printable characters (GPT-2's table) and merges as "left right", the lowest rank first.
#include <array>

#include "text/byte_level.hpp"
#include "text/merge.hpp"
#include "text/pretokenizer.hpp"
#include "text/ranks.hpp"
#include "text/tokenizer.hpp"
#include "unicode/normal.hpp"

namespace kvasir::text::tokenizers_gpt2 {
namespace {

class ByteLevelBpe final : public Encoder {
 public:
  ByteLevelBpe(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        pretokenizer_(pretokenizer_for(metadata.get_string("tokenizer.ggml.pre").value_or("default"),
                                       metadata.path() + ": tokenizer.ggml.pre")),
        ranks_(metadata, vocabulary, token_bytes),
        byte_ids_(byte_ids(vocabulary)) {}

  bool default_add_bos() const override { return pretokenizer_.add_bos; }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    if (pretokenizer_.nfc && !unicode::is_nfc(text)) text = scratch.keep(unicode::nfc(text));
    pretokenizer_.split(text, [&](std::string_view piece) {
      scratch.cache.append(piece, [&] { encode_piece(piece, scratch.merger, out); });
    });
  }

 private:
  // A byte without a token is a symbol with id -1, which nothing joins.
  void encode_piece(std::string_view piece, Merger& merger, std::vector<std::int32_t>& out) const {
    if (pretokenizer_.whole_words) {
      const auto word = vocabulary_.find_word(piece);
      if (word >= 0) return out.push_back(word);
    }
    merger.clear();
    for (std::uint32_t i = 0; i < piece.size(); ++i) {
      merger.push({i, 1, byte_ids_[static_cast<unsigned char>(piece[i])]});
    }
    merger.run([&](const Merger::Symbol& left, const Merger::Symbol& right) { return ranks_.join(left.id, right.id); });
    merger.each([&](const Merger::Symbol& s) {
      const auto id = s.id >= 0 ? s.id : vocabulary_.ids().unknown;
      if (id >= 0) out.push_back(id);
    });
  }

  const Vocabulary& vocabulary_;
  const Pretokenizer& pretokenizer_;
  Ranks ranks_;
  const std::array<std::int32_t, 256> byte_ids_;
};

constexpr std::string_view kNames[] = {"gpt2"};

}  // namespace

const TokenizerKind entry{
    .serves = kNames,
    .rules = {.bytes = token_bytes},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<ByteLevelBpe>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::tokenizers_gpt2
