// WordPiece (BERT): words without case and accents, each cut into the longest tokens from the left; a word that cannot
// be cut is the unknown token. Files write the beginning of a word as U+2581.
#include <algorithm>
#include <iterator>

#include "text/marks.hpp"
#include "text/tokenizer.hpp"
#include "text/trie.hpp"
#include "unicode/case.hpp"
#include "unicode/classes.hpp"
#include "unicode/normal.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::entries::tokenizers {
namespace {

using unicode::CharClass;

constexpr std::size_t kLongestWord = 100;  // characters; longer words are unknown

// Ideographs stand alone, as in the original: what it calls Chinese are these blocks.
bool ideograph(std::uint32_t c) {
  const auto within = [&](std::uint32_t first, std::uint32_t last) { return c >= first && c <= last; };
  return within(0x4e00, 0x9fff) || within(0x3400, 0x4dbf) || within(0x20000, 0x2a6df) || within(0x2a700, 0x2b73f) ||
         within(0x2b740, 0x2b81f) || within(0x2b920, 0x2ceaf) || within(0xf900, 0xfaff) || within(0x2f800, 0x2fa1f);
}

bool blank(std::uint32_t code) {
  return code == '\t' || code == '\n' || code == '\r' ||
         (unicode::char_class(code) == CharClass::kSpace && code >= 0x20 && code != 0x85);
}

// Control and format characters and those for private use (Cc, Cf, Co) are left out; unassigned codes are not.
constexpr unicode::CodeRange kDropped[] = {
    {0x0, 0x8},         {0xb, 0xc},         {0xe, 0x1f},          {0x7f, 0x9f},       {0xad, 0xad},
    {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},       {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},     {0x202a, 0x202e},   {0x2060, 0x2064},
    {0x2066, 0x206f},   {0xe000, 0xf8ff},   {0xfeff, 0xfeff},     {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x13438}, {0x1bca0, 0x1bca3},   {0x1d173, 0x1d17a}, {0xe0001, 0xe0001},
    {0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd},
};

bool dropped(std::uint32_t code) {
  const auto* r = std::lower_bound(std::begin(kDropped), std::end(kDropped), code,
                                   [](const unicode::CodeRange& a, std::uint32_t c) { return a.last < c; });
  return code == 0xfffd || code >= unicode::kInvalidByte || (r != std::end(kDropped) && r->first <= code);
}

bool punctuation(std::uint32_t code) {
  const CharClass c = unicode::char_class(code);
  return c == CharClass::kPunctuation || (c == CharClass::kSymbol && code < 0x80);
}

class WordPiece final : public Encoder {
 public:
  WordPiece(const weights::Metadata& metadata, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        lowers_(metadata.get_bool("tokenizer.ggml.normalizer.lowercase").value_or(true)),
        strips_(metadata.get_bool("tokenizer.ggml.normalizer.strip_accents").value_or(lowers_)),
        trie_(vocabulary, vocabulary.of_type({TokenType::kNormal, TokenType::kUndefined})) {}

  bool adds_space() const override { return true; }
  bool default_add_bos() const override { return true; }
  bool default_add_eos() const override { return true; }

  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    const std::string_view words = scratch.keep(normalised(text));
    for (std::size_t begin = 0; begin < words.size();) {
      const std::size_t end = std::min(words.find(' ', begin + 1), words.size());
      const auto word = words.substr(begin, end - begin);
      scratch.cache.append(word, [&] { encode_word(word, out); });
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
      if (dropped(c.code) || (strips_ && unicode::char_class(c.code) == CharClass::kAccent)) return;
      if (blank(c.code)) {
        inside = false;
        return;
      }
      const bool alone = punctuation(c.code) || ideograph(c.code);
      if (alone || !inside) out.push_back(' ');
      inside = !alone;
      if (lowers_)
        unicode::append_lower(out, c.code);
      else
        unicode::append_utf8(out, c.code);
    });
    return out;
  }

  // `word` begins with a space.
  void encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
    const std::size_t begin = out.size();
    std::size_t characters = 0;
    each_char(word, [&](std::size_t, unicode::Char) { ++characters; });
    bool whole = characters <= kLongestWord + 1;
    for (std::size_t i = 0; whole && i < word.size();) {
      std::size_t size = 0;
      std::int32_t id = -1;
      trie_.prefixes(word.substr(i), [&](std::size_t n, std::int32_t token) {
        size = n;
        id = token;
      });
      whole = id >= 0;
      i += size;
      out.push_back(id);
    }
    if (whole) return;
    out.resize(begin);
    if (vocabulary_.ids().unknown >= 0) out.push_back(vocabulary_.ids().unknown);
  }

  const Vocabulary& vocabulary_;
  bool lowers_;
  bool strips_;
  Trie trie_;
};

constexpr std::string_view kNames[] = {"bert"};

}  // namespace

extern const TokenizerKind bert;
const TokenizerKind bert{
    .serves = kNames,
    .rules = {.bytes = marks_to_spaces, .encoder = true, .ids = {.bos = 101, .eos = 102, .unknown = 100}},
    .make = [](const weights::Metadata& metadata, const Vocabulary& vocabulary) -> std::unique_ptr<Encoder> {
      return std::make_unique<WordPiece>(metadata, vocabulary);
    },
};

}  // namespace kvasir::text::entries::tokenizers
