// Byte-level BPE: a pre-tokenizer cuts the text, each byte of a piece is a token to begin with, ranked merges join
// them. Files write bytes as printable characters (GPT-2's table) and merges as "left right", the lowest rank first.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "base/error.hpp"
#include "text/merge.hpp"
#include "text/pretokenizer.hpp"
#include "text/tables.hpp"
#include "text/tokenizer.hpp"
#include "text/word_cache.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::entries::tokenizers {
namespace {

constexpr const char* kMerges = "tokenizer.ggml.merges";

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
                                       metadata.path() + ": tokenizer.ggml.pre")) {
    read_bytes();
    read_merges(metadata);
  }

  bool default_add_bos() const override { return pretokenizer_.add_bos; }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    WordCache cache(text.size(), out);
    Merger merger;
    pretokenizer_.split(
        text, [&](std::string_view piece) { cache.append(piece, [&] { encode_piece(piece, merger, out); }); });
  }

 private:
  struct Merge {
    std::int32_t rank;
    std::int32_t id;
  };

  // The token that files write as `token`: a normal one, else a special one of that very name (some vocabularies list
  // the bytes that UTF-8 never uses as added tokens).
  std::int32_t written(std::string_view token) const {
    const auto word = vocabulary_.find_word(token_bytes(token));
    return word >= 0 ? word : vocabulary_.find_special(token);
  }

  // The token written as the two together. Most files list merges in the order of the tokens they make, so `before`,
  // what the merge before it made, and its successor are tried first: that spares a look-up in a table larger than the
  // caches.
  std::int32_t joined_token(std::string_view left, std::string_view right, std::int32_t before) const {
    const std::string bytes = token_bytes(left) + token_bytes(right);
    for (const auto id : {before, before + 1}) {
      if (vocabulary_.type(id) == TokenType::kNormal && vocabulary_.piece(id) == bytes) return id;
    }
    const auto word = vocabulary_.find_word(bytes);
    return word >= 0 ? word : vocabulary_.find_special(std::string(left).append(right));
  }

  void read_bytes() {
    for (std::uint32_t code = 0; code < kTableEnd; ++code) {
      if (kByteOf[code] < 0) continue;
      std::string token;
      unicode::append_utf8(token, code);
      byte_ids_[static_cast<std::size_t>(kByteOf[code])] = written(token);
    }
  }

  void read_merges(const weights::Metadata& metadata) {
    const auto fail = [&](const std::string& message) {
      throw Error(Code::kBadInput, message, metadata.path() + ": " + kMerges);
    };
    const auto* merges = metadata.get_strings(kMerges);
    if (!merges) fail("is missing, expected the merges of a byte-level BPE vocabulary");
    if (merges->size() > std::size_t{1} << 28) fail("has more than 2^28 entries");
    merges_.reserve(merges->size());
    std::int32_t joined = -1;
    for (std::size_t rank = 0; rank < merges->size(); ++rank) {
      const std::string& line = (*merges)[rank];
      const auto space = line.find(' ', 1);
      if (space == std::string::npos || space + 1 == line.size()) {
        fail(fmt::format("entry {} is '{}', expected two tokens with a space between", rank, line));
      }
      const auto left_text = std::string_view(line).substr(0, space);
      const auto right_text = std::string_view(line).substr(space + 1);
      const auto left = written(left_text);
      const auto right = written(right_text);
      joined = joined_token(left_text, right_text, joined);
      if (left < 0 || right < 0 || joined < 0) {
        fail(fmt::format("entry {} is '{}', expected tokens that the vocabulary has, joined and apart", rank, line));
      }
      merges_.insert(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right),
                     {static_cast<std::int32_t>(rank), joined});
    }
  }

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
    merger.run([&](const Merger::Symbol& left, const Merger::Symbol& right) -> Merger::Join {
      const Merge* m = merges_.find(static_cast<std::uint32_t>(left.id), static_cast<std::uint32_t>(right.id));
      if (!m || left.id < 0 || right.id < 0) return {0, -1};
      return {static_cast<double>(m->rank), m->id};
    });
    merger.each([&](const Merger::Symbol& s) {
      const auto id = s.id >= 0 ? s.id : vocabulary_.ids().unknown;
      if (id >= 0) out.push_back(id);
    });
  }

  const Vocabulary& vocabulary_;
  const Pretokenizer& pretokenizer_;
  std::array<std::int32_t, 256> byte_ids_{};
  PairMap<Merge> merges_;
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
