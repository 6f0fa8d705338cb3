// The tokens of a model: the bytes each stands for, its type, and the special ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tables.hpp"
#include "weights/model_file.hpp"

namespace kvasir::text {

// tokenizer.ggml.token_type
enum class TokenType : std::uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// -1: none.
struct SpecialIds {
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t eot = -1;
  std::int32_t unknown = -1;
};

// Tokens of vocabularies that were made to fill gaps in texts (FIM, arXiv:2207.14255); -1: none.
struct GapIds {
  std::int32_t prefix = -1;                 // the text in front of the gap follows
  std::int32_t suffix = -1;                 // the text behind it follows
  std::int32_t middle = -1;                 // what fills it follows
  std::int32_t repository = -1, file = -1;  // name of a repository, and of a file in it, before its text
  std::int32_t pad = -1;

  bool known() const { return prefix >= 0 && suffix >= 0 && middle >= 0; }
};

// How a kind of tokenizer writes its tokens down.
struct VocabularyRules {
  // The bytes that a normal token written as `text` stands for.
  std::string (*bytes)(std::string_view text) = nullptr;
  // Whether "<0x41>" is the byte 0x41 in files that give no token types.
  bool byte_names = false;
  // Whether texts stand between the classification and the separator token (cls_token_id, seperator_token_id).
  bool encoder = false;
  SpecialIds ids;  // for files that do not say
};

// "<0x41>" -> 0x41; -1 for anything else.
int parse_byte_name(std::string_view text);

class Vocabulary {
 public:
  // Reads tokenizer.ggml.tokens, token_type and the *_token_id keys. Throws Error(kBadInput) naming file and key.
  Vocabulary(const weights::Metadata& metadata, const VocabularyRules& rules);

  // `words_` and `specials_` point into this object.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int size() const { return static_cast<int>(types_.size()); }
  bool has(std::int32_t id) const { return id >= 0 && id < size(); }
  std::string_view piece(std::int32_t id) const {
    if (!has(id)) return {};
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(bytes_).substr(begin_[i], begin_[i + 1] - begin_[i]);
  }
  TokenType type(std::int32_t id) const {
    return has(id) ? types_[static_cast<std::size_t>(id)] : TokenType::kUndefined;
  }
  bool is_special(std::int32_t id) const;
  bool is_eog(std::int32_t id) const;
  const SpecialIds& ids() const { return ids_; }
  const GapIds& gap() const { return gap_; }
  // What a special token's name takes with it in a text, or asks of the text: white space in front of it and behind it;
  // that it is no part of a word. Added tokens of folders say so (lstrip, rstrip, single_word), and what Phi-3's
  // SentencePiece vocabularies leave out is known.
  struct Edges {
    bool strips_front = false, strips_behind = false, whole_word = false;
  };
  Edges edges(std::int32_t id) const;
  // Tokens that the file calls normal text and whose names are those of control tokens: they are taken as such.
  const std::vector<std::int32_t>& retyped() const { return retyped_; }
  // Tokens that the file wants never to be generated.
  const std::vector<std::int32_t>& suppressed() const { return suppressed_; }
  std::vector<std::int32_t> of_type(std::initializer_list<TokenType> types) const;  // in increasing order

  // The normal token with these bytes, or -1. Where several tokens have the same bytes the first one
  // counts, and before it one that the file writes otherwise.
  std::int32_t find_word(std::string_view bytes) const { return words_.find(bytes, *this); }
  // The control, unknown or user-defined token with this name, or -1.
  std::int32_t find_special(std::string_view name) const { return specials_.find(name, *this); }
  std::int32_t find(std::string_view bytes) const;

 private:
  void read_tokens(const weights::Metadata& metadata, const VocabularyRules& rules);
  void read_types(const weights::Metadata& metadata, const VocabularyRules& rules);
  std::int32_t read_id(const weights::Metadata& metadata, const char* name, std::int32_t otherwise) const;
  void read_ids(const weights::Metadata& metadata, const VocabularyRules& rules);
  void find_gaps(const weights::Metadata& metadata);
  void find_ends(const weights::Metadata& metadata);
  void find_strippers(const weights::Metadata& metadata, const VocabularyRules& rules);

  std::string bytes_;                                                    // all pieces, one behind the other
  std::vector<std::uint32_t> begin_;                                     // (size() + 1)
  std::vector<TokenType> types_;                                         // (size())
  std::vector<std::int32_t> retyped_;                                    // sorted
  std::vector<std::int32_t> ends_;                                       // end-of-generation ids, sorted
  std::vector<std::int32_t> front_strippers_, strippers_, whole_words_;  // each sorted
  std::vector<std::int32_t> suppressed_;
  SpecialIds ids_;
  GapIds gap_;
  PieceIndex words_;
  PieceIndex specials_;
};

}  // namespace kvasir::text
