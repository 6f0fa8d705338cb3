#include "text/tokenizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/nearest.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

constexpr const char* kModel = "tokenizer.ggml.model";
constexpr std::size_t kLongestText = std::size_t{1} << 30;  // offsets in a piece are 32 bits wide

const TokenizerKind* find_kind(std::string_view name) {
  for (const auto& entry : tokenizers()) {
    const auto& served = entry.value->serves;
    if (std::find(served.begin(), served.end(), name) != served.end()) return entry.value;
  }
  return nullptr;
}

const TokenizerKind& kind_for(const std::string& name, const std::string& pre, const std::string& context) {
  if (const auto* kind = find_kind(name + "/" + pre)) return *kind;
  if (const auto* kind = find_kind(name)) return *kind;
  std::vector<std::string> known;
  for (const auto& entry : tokenizers()) {
    for (const auto& served : entry.value->serves) {
      if (served.find('/') == std::string_view::npos) known.emplace_back(served);
    }
  }
  known.emplace_back("no_vocab");
  throw Error(Code::kUnsupported,
              fmt::format("unknown tokenizer '{}'{}, expected one of {}", name, did_you_mean(name, known),
                          fmt::join(known, ", ")),
              context);
}

// All but user-defined tokens that say nothing about where texts end.
std::vector<std::int32_t> control_ids(const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids =
      vocabulary.of_type({TokenType::kControl, TokenType::kUnknown, TokenType::kUserDefined});
  std::erase_if(
      ids, [&](std::int32_t id) { return vocabulary.type(id) == TokenType::kUserDefined && !vocabulary.is_eog(id); });
  return ids;
}

bool covers(const SpecialMatcher::Match& match, std::span<const std::size_t> places) {
  const auto at = std::lower_bound(places.begin(), places.end(), match.begin);
  return at != places.end() && *at < match.begin + match.size;
}

unicode::CharClass class_at(std::string_view text, std::size_t at) {
  return unicode::char_class(unicode::decode_char(text.substr(at)).code);
}

// Where the character begins that ends in front of `at`. REQUIRES: at > 0.
std::size_t before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return begin + unicode::decode_char(text.substr(begin)).size == at ? begin : at - 1;
}

// Whether the character that begins at `at` is of a word: \w of regular expressions over Unicode.
bool of_word(std::string_view text, std::size_t at) {
  const unicode::CharClass c = class_at(text, at);
  return is_letter(c) || is_number(c) || is_mark(c) || text[at] == '_';
}

bool stands_alone(std::string_view text, const SpecialMatcher::Match& match) {
  const std::size_t end = match.begin + match.size;
  return (match.begin == 0 || !of_word(text, before(text, match.begin))) && (end == text.size() || !of_word(text, end));
}

std::size_t behind_space(std::string_view text, std::size_t at) {
  while (at < text.size() && class_at(text, at) == unicode::CharClass::kSpace)
    at += unicode::decode_char(text.substr(at)).size;
  return at;
}

// No further than to `first`.
std::size_t in_front_of_space(std::string_view text, std::size_t at, std::size_t first) {
  while (at > first && class_at(text, before(text, at)) == unicode::CharClass::kSpace) at = before(text, at);
  return std::max(at, first);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, std::unique_ptr<const Encoder> encoder, bool add_bos,
                     bool add_eos)
    : vocabulary_(std::move(vocabulary)),
      encoder_(std::move(encoder)),
      user_defined_(*vocabulary_, vocabulary_->of_type({TokenType::kUserDefined})),
      all_special_(*vocabulary_,
                   vocabulary_->of_type({TokenType::kControl, TokenType::kUnknown, TokenType::kUserDefined})),
      control_names_(*vocabulary_, control_ids(*vocabulary_)),
      add_bos_(add_bos),
      add_eos_(add_eos) {}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kLongestText) {
    throw Error(Code::kBadInput, fmt::format("text of {} bytes, expected at most 1 GiB", text.size()), "tokenizer");
  }
  if (options.add_bos && bos() < 0) throw Error(Code::kBadInput, "the vocabulary has no BOS token", "tokenizer");
  if (options.add_eos && eos() < 0) throw Error(Code::kBadInput, "the vocabulary has no EOS token", "tokenizer");
  std::vector<std::int32_t> ids;
  if (options.add_bos) ids.push_back(bos());
  EncodeScratch scratch(text.size(), ids);
  const SpecialMatcher& matcher = options.parse_special ? all_special_ : user_defined_;
  for (std::size_t i = 0; i < text.size();) {
    auto match = matcher.next(text, i);
    const auto counts = [&] {
      return !covers(match, options.plain) && (!vocabulary_->edges(match.id).whole_word || stands_alone(text, match));
    };
    while (match.id >= 0 && !counts()) match = matcher.next(text, match.begin + 1);
    const Vocabulary::Edges edges = match.id >= 0 ? vocabulary_->edges(match.id) : Vocabulary::Edges();
    const std::size_t begin = match.id >= 0 ? match.begin : text.size();
    const std::size_t end = edges.strips_front ? in_front_of_space(text, begin, i) : begin;
    const std::string_view part = text.substr(i, end - i);
    scratch.first = i == 0 && !options.behind_text;
    if (!part.empty() && options.behind_text && i == 0)
      encoder_->encode_behind(part, ids, scratch);
    else if (!part.empty())
      encoder_->encode(part, ids, scratch);
    if (match.id >= 0) ids.push_back(match.id);
    i = begin + match.size;
    if (edges.strips_behind) i = behind_space(text, i);
  }
  if (options.add_eos) ids.push_back(eos());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool show_control) const {
  std::string text;
  std::int32_t previous = -1;
  for (const auto id : ids) {
    text += text_behind(previous, id, show_control);
    previous = id;
  }
  return text;
}

std::string_view Tokenizer::text_behind(std::int32_t previous, std::int32_t id, bool show_control) const {
  if (is_control(id) && !show_control) return {};
  std::string_view bytes = piece(id);
  const bool at_start = previous < 0 || is_special(previous);
  if (at_start && adds_space() && !is_special(id) && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return bytes;
}

std::string Tokenizer::note() const {
  const auto& ids = vocabulary_->retyped();
  if (ids.empty()) return {};
  return fmt::format("{} token{} such as {} are normal text in the file, they are taken as control tokens", ids.size(),
                     ids.size() == 1 ? "" : "s", piece(ids[0]));
}

bool Tokenizer::is_control(std::int32_t id) const {
  const auto type = vocabulary_->type(id);
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

std::unique_ptr<Tokenizer> make_tokenizer(const weights::Metadata& metadata) {
  const auto model = metadata.get_string(kModel);
  if (!model || *model == "no_vocab" || *model == "none") return nullptr;
  const auto context = [&](const char* key) { return metadata.path().empty() ? key : metadata.path() + ": " + key; };
  const TokenizerKind& kind = kind_for(*model, metadata.get_string("tokenizer.ggml.pre").value_or(""), context(kModel));
  auto vocabulary = std::make_unique<const Vocabulary>(metadata, kind.rules);
  auto encoder = kind.make(metadata, *vocabulary);
  KVASIR_CHECK(encoder != nullptr);
  const bool add_bos = metadata.get_bool("tokenizer.ggml.add_bos_token").value_or(encoder->default_add_bos());
  const bool add_eos = metadata.get_bool("tokenizer.ggml.add_eos_token").value_or(encoder->default_add_eos());
  if (add_bos && vocabulary->ids().bos < 0) {
    throw Error(Code::kBadInput, "is missing, expected one because prompts begin with it",
                context("tokenizer.ggml.bos_token_id"));
  }
  if (add_eos && vocabulary->ids().eos < 0) {
    throw Error(Code::kBadInput, "is missing, expected one because prompts end with it",
                context("tokenizer.ggml.eos_token_id"));
  }
  return std::make_unique<Tokenizer>(std::move(vocabulary), std::move(encoder), add_bos, add_eos);
}

}  // namespace kvasir::text
