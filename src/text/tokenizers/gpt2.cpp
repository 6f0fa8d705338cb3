// Byte-level BPE: a pre-tokenizer cuts the text, each byte of a piece is a token to begin with, ranked merges join
// them. Files write bytes as printable characters (GPT-2's table) and merges as "left right", the lowest rank first.
#include <array>

#include "text/merge.hpp"
#include "text/pretokenizer.hpp"
#include "text/ranks.hpp"
#include "text/tokenizer.hpp"
#include "unicode/normal.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::entries::tokenizers {
namespace {

// GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100, U+0101, … in increasing order.
constexpr bool printable(unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

constexpr std::uint32_t kTableEnd = 0x100 + 68;  // 68 bytes are not printable

// Character -> byte, -1 for characters that are not in the table.
constexpr std::array<std::int16_t, kTableEnd> kByteOf = [] {
  std::array<std::int16_t, kTableEnd> table{};
  for (auto& t : table) t = -1;
  std::uint32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) table[printable(b) ? b : next++] = static_cast<std::int16_t>(b);
  return table;
}();

// The bytes that a token is written for; a token with characters outside the table stands for its own UTF-8.
std::string token_bytes(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const unicode::Char c = unicode::decode_char(token.substr(i));
    if (c.code >= kTableEnd || kByteOf[c.code] < 0) return std::string(token);
    bytes.push_back(static_cast<char>(kByteOf[c.code]));
    i += c.size;
  }
  return bytes;
}

class ByteLevelBpe final : public Encoder {
 public:
  ByteLevelBpe(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        pretokenizer_(pretokenizer_for(metadata.get_string("tokenizer.ggml.pre").value_or("default"),
                                       metadata.path() + ": tokenizer.ggml.pre")),
        ranks_(metadata, vocabulary, token_bytes) {
    for (std::uint32_t code = 0; code < kTableEnd; ++code) {
      if (kByteOf[code] < 0) continue;
      std::string token;
      unicode::append_utf8(token, code);
      byte_ids_[static_cast<std::size_t>(kByteOf[code])] = find_written(vocabulary, token, token_bytes);
    }
  }

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
  std::array<std::int32_t, 256> byte_ids_{};
};

constexpr std::string_view kNames[] = {"gpt2"};

}  // namespace

extern const TokenizerKind gpt2;
const TokenizerKind gpt2{
    .serves = kNames,
    .rules = {.bytes = token_bytes},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<ByteLevelBpe>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::entries::tokenizers
