// Text to token ids and back, from the vocabulary in a model file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "text/special.hpp"
#include "text/vocabulary.hpp"
#include "text/word_cache.hpp"
#include "weights/model_file.hpp"

namespace kvasir::text {

// Turns text without special tokens into ids: the part of a tokenizer that its kind (tokenizer.ggml.model) decides.
// Immutable, so any number of threads may share it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text`, which may be any bytes but not none and outlives `scratch`, that of the whole call. It
  // stands at the beginning or directly behind a special token.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const = 0;

  // The same for text that stands behind other text: no space is put in front of it.
  virtual void encode_behind(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const {
    encode(text, out, scratch);
  }

  // Whether encode puts a space in front of `text`.
  virtual bool adds_space() const { return false; }

  // Whether files that do not say so want the BOS token in front, and the EOS token behind.
  virtual bool default_add_bos() const { return false; }
  virtual bool default_add_eos() const { return false; }
};

// Contract of an entry in text/tokenizers.
struct TokenizerKind {
  // Values of tokenizer.ggml.model. "gpt2/x" means files of the model gpt2 whose tokenizer.ggml.pre is x.
  std::span<const std::string_view> serves;
  VocabularyRules rules;
  std::unique_ptr<Encoder> (*make)(const weights::Metadata& metadata, const Vocabulary& vocabulary);
};

std::span<const Entry<TokenizerKind>> tokenizers();

struct EncodeOptions {
  bool add_bos = false;
  bool add_eos = false;
  // Whether control tokens written out in the text ("<|im_end|>") become those tokens. User-defined tokens always do.
  bool parse_special = false;
  // Ascending places in the text. A name that covers one of them is text like any other, whatever its kind: with
  // parse_special this tells what a template wrote from what it only passes on (ChatTemplate::prompt).
  std::span<const std::size_t> plain = {};
  // The text goes on behind a token that is text: encode puts no space in front of it.
  bool behind_text = false;
};

// Immutable; any number of threads may share one.
class Tokenizer {
 public:
  // Use make_tokenizer. REQUIRES: `encoder` was made for `vocabulary`.
  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, std::unique_ptr<const Encoder> encoder, bool add_bos,
            bool add_eos);

  // `text` may be any bytes. Bytes that are not UTF-8 are encoded one by one like any other byte, never replaced, so
  // decode(encode(text)) == text whenever the vocabulary has a token for every byte (byte-level vocabularies and those
  // with byte fallback do) and was made for texts as they are: some are made for composed characters, Unigram and
  // WordPiece for texts that are normalised in ways of their own. A byte without a token becomes the unknown token, or
  // nothing where there is none. Takes time n log(longest piece) for n bytes. Throws Error(kBadInput) when a BOS or EOS
  // is asked for that the vocabulary does not have, and for text above 1 GiB.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  // The bytes of `ids`, which need not be UTF-8 (text/stream.hpp gives text that is). Control tokens contribute their
  // name only when `show_control`. The space that encode puts at the start and behind special tokens is taken out
  // again. Ids outside [0, size()) contribute nothing.
  std::string decode(std::span<const std::int32_t> ids, bool show_control = false) const;

  // What `id` adds to the text when it stands behind `previous` (-1: at the start): one step of decode.
  std::string_view text_behind(std::int32_t previous, std::int32_t id, bool show_control = false) const;

  int size() const { return vocabulary_->size(); }

  // The bytes that a token stands for, its name for a control token; empty for an id outside [0, size()). Valid while
  // the tokenizer lives.
  std::string_view piece(std::int32_t id) const { return vocabulary_->piece(id); }

  // Control and unknown tokens: they are not part of the text.
  bool is_control(std::int32_t id) const;
  // Those and the user-defined ones: tokens that no merge produces.
  bool is_special(std::int32_t id) const { return vocabulary_->is_special(id); }
  // End of generation: EOS, end of turn, end of message.
  bool is_eog(std::int32_t id) const { return vocabulary_->is_eog(id); }

  // -1 where the vocabulary has none.
  std::int32_t bos() const { return vocabulary_->ids().bos; }
  std::int32_t eos() const { return vocabulary_->ids().eos; }
  std::int32_t eot() const { return vocabulary_->ids().eot; }
  std::int32_t unknown() const { return vocabulary_->ids().unknown; }
  // Tokens that are never to be generated.
  std::span<const std::int32_t> suppressed() const { return vocabulary_->suppressed(); }
  // Tokens that fill gaps in texts.
  const GapIds& gap() const { return vocabulary_->gap(); }

  // The names that text from outside must not spell: those of control and unknown tokens, and of tokens that end texts.
  const SpecialMatcher& control_names() const { return control_names_; }

  // What people should know of the vocabulary: tokens whose type the file has wrong. Empty: nothing.
  std::string note() const;

  // What the file wants in front of and behind a prompt.
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  // Whether encode puts a space in front of text at the start and behind special tokens.
  bool adds_space() const { return encoder_->adds_space(); }

  // The token whose piece is exactly `bytes`, special ones first; -1 when there is none.
  std::int32_t find(std::string_view bytes) const { return vocabulary_->find(bytes); }

 private:
  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const Encoder> encoder_;  // may refer to *vocabulary_
  SpecialMatcher user_defined_;
  SpecialMatcher all_special_;
  SpecialMatcher control_names_;
  bool add_bos_;
  bool add_eos_;
};

// nullptr when the file has no vocabulary: tokenizer.ggml.model is absent, "no_vocab" or "none". Such a model runs on
// ids. Throws Error(kUnsupported) for an unknown kind or pre-tokenizer, listing the known ones, and Error(kBadInput),
// naming file and key, for a vocabulary that is incomplete or contradicts itself.
std::unique_ptr<Tokenizer> make_tokenizer(const weights::Metadata& metadata);

}  // namespace kvasir::text
