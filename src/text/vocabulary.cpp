#include "text/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/hex.hpp"

namespace kvasir::text {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";

// Names that published chat models give to the token that ends a turn or a message; the first that exists is `eot`
// where the file does not say.
constexpr std::string_view kEndNames[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<end_of_turn>",
                                          "<EOT>",
                                          "<turn|>",
                                          "[EOT]",
                                          "<end_of_utterance>",
                                          "<|eom_id|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|tool_response>",
                                          "<|end_of_text|>",
                                          "<|endoftext|>",
                                          "[EOS]",
                                          "[e~[",
                                          "<\xef\xbd\x9c"
                                          "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};
constexpr std::size_t kTurnEndNames = 8;  // how many of them end a turn

// Names that published models for code give to the tokens that fill gaps, where the file does not say which they are.
struct GapNames {
  const char* key;    // in the file
  const char* older;  // and in files before it; null: none
  std::int32_t GapIds::*id;
  std::string_view names[5];
};
constexpr GapNames kGapNames[] = {
    {"fim_pre",
     "prefix",
     &GapIds::prefix,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>"}},
    {"fim_suf",
     "suffix",
     &GapIds::suffix,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>"}},
    {"fim_mid",
     "middle",
     &GapIds::middle,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>"}},
    {"fim_rep", nullptr, &GapIds::repository, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>", "<REPO>"}},
    {"fim_sep", nullptr, &GapIds::file, {"<|file_sep|>", "<file_sep>", {}, {}, {}}},
    {"fim_pad", nullptr, &GapIds::pad, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", {}}},
};

// "<|im_start|>", "<｜User｜>": names that text does not hold by chance.
bool looks_like_control(std::string_view text) {
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"<|", "|>"}, {"<｜", "｜>"}}) {
    if (text.size() <= open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close)) continue;
    const std::string_view name = text.substr(open.size(), text.size() - open.size() - close.size());
    return std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             static_cast<unsigned char>(c) >= 0x80;
    });
  }
  return false;
}

std::string where(const weights::Metadata& metadata, std::string_view key) {
  return metadata.path().empty() ? std::string(key) : fmt::format("{}: {}", metadata.path(), key);
}

}  // namespace

int parse_byte_name(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  return hex_byte(text.substr(3, 2));
}

Vocabulary::Vocabulary(const weights::Metadata& metadata, const VocabularyRules& rules) {
  const auto* tokens = metadata.get_strings(kTokens);
  if (!tokens || tokens->empty()) {
    throw Error(Code::kBadInput, "is missing or empty, expected the vocabulary's tokens", where(metadata, kTokens));
  }
  if (tokens->size() > std::size_t{1} << 26) {
    throw Error(Code::kBadInput, fmt::format("has {} tokens, expected at most 2^26", tokens->size()),
                where(metadata, kTokens));
  }
  types_.assign(tokens->size(), TokenType::kNormal);
  read_ids(metadata, rules);
  read_types(metadata, rules);
  read_tokens(metadata, rules);
  find_gaps(metadata);
  find_ends(metadata);
  find_strippers(metadata, rules);
  if (const auto* ids = metadata.get_ints("tokenizer.ggml.suppress_tokens"))
    for (const std::int64_t id : *ids)  // the converter takes ids that the vocabulary lacks, too
      if (id >= 0 && id < size()) suppressed_.push_back(static_cast<std::int32_t>(id));
}

// The id under `name`; `otherwise` where the file does not say.
std::int32_t Vocabulary::read_id(const weights::Metadata& metadata, const char* name, std::int32_t otherwise) const {
  constexpr std::int64_t kNone = std::numeric_limits<std::uint32_t>::max();  // what writers put for "none"
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  const auto id = metadata.get_int(key, -1, kNone);
  if (!id) return otherwise < size() ? otherwise : -1;
  if (*id == -1 || *id == kNone) return -1;
  if (*id < size()) return static_cast<std::int32_t>(*id);
  throw Error(Code::kBadInput, fmt::format("is {}, expected an id below {}, the number of tokens", *id, size()),
              where(metadata, key));
}

void Vocabulary::read_ids(const weights::Metadata& metadata, const VocabularyRules& rules) {
  const auto read = [&](const char* name, std::int32_t otherwise) { return read_id(metadata, name, otherwise); };
  ids_ = {.bos = read("bos", rules.encoder ? read("cls", rules.ids.bos) : rules.ids.bos),
          .eos = read("eos", rules.encoder ? read("seperator", rules.ids.eos) : rules.ids.eos),
          .eot = read("eot", rules.ids.eot),
          .unknown = read("unknown", rules.ids.unknown)};
  if (const auto eom = read("eom", -1); eom >= 0) ends_.push_back(eom);
}

void Vocabulary::read_types(const weights::Metadata& metadata, const VocabularyRules& rules) {
  if (const auto* given = metadata.get_ints(kTypes)) {
    if (given->size() != types_.size()) {
      throw Error(Code::kBadInput, fmt::format("has {} entries, expected {}, one per token", given->size(), size()),
                  where(metadata, kTypes));
    }
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const auto t = (*given)[i];
      if (t < 0 || t > 6) {
        throw Error(Code::kBadInput, fmt::format("entry {} is {}, expected 0 to 6", i, t), where(metadata, kTypes));
      }
      types_[i] = static_cast<TokenType>(t);
    }
    // Some converters forget the type; as text the template's marks would not be what the model knows. A tokenizer.json
    // has them all.
    if (metadata.get_bool("tokenizer.kvasir.types_told").value_or(false)) return;
    const auto& names = *metadata.get_strings(kTokens);
    for (std::size_t i = 0; i < types_.size(); ++i)
      if (types_[i] == TokenType::kNormal && looks_like_control(names[i])) {
        types_[i] = TokenType::kControl;
        retyped_.push_back(static_cast<std::int32_t>(i));
      }
    return;
  }
  const auto& tokens = *metadata.get_strings(kTokens);
  for (std::size_t i = 0; i < types_.size(); ++i) {
    if (rules.byte_names && parse_byte_name(tokens[i]) >= 0) types_[i] = TokenType::kByte;
  }
  const auto set = [&](std::int32_t id, TokenType type) {
    if (id >= 0) types_[static_cast<std::size_t>(id)] = type;
  };
  set(ids_.bos, TokenType::kControl);
  set(ids_.eos, TokenType::kControl);
  set(ids_.eot, TokenType::kControl);
  set(ids_.unknown, TokenType::kUnknown);
}

void Vocabulary::read_tokens(const weights::Metadata& metadata, const VocabularyRules& rules) {
  const auto& tokens = *metadata.get_strings(kTokens);
  std::size_t total = 0;
  for (const auto& t : tokens) total += t.size();
  if (total > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(Code::kBadInput, fmt::format("takes {} bytes, expected less than 4 GiB", total),
                where(metadata, kTokens));
  }
  bytes_.reserve(total);
  begin_.reserve(tokens.size() + 1);
  begin_.push_back(0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const int byte = types_[i] == TokenType::kByte ? parse_byte_name(tokens[i]) : -1;
    if (byte >= 0) {
      bytes_.push_back(static_cast<char>(byte));
    } else if (is_special(static_cast<std::int32_t>(i))) {
      bytes_ += tokens[i];
    } else {
      bytes_ += rules.bytes(tokens[i]);  // never longer than what it was made from
    }
    begin_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  std::size_t specials = 0;
  for (std::int32_t id = 0; id < size(); ++id) specials += is_special(id) ? 1 : 0;
  specials_.reserve(specials);
  words_.reserve(tokens.size() - specials);
  // Some byte-level vocabularies have characters as they are among their tokens, besides those that merges make of
  // bytes: these come first.
  const auto is_raw = [&](std::int32_t id) {
    const std::string& token = tokens[static_cast<std::size_t>(id)];
    return piece(id) == token && std::any_of(token.begin(), token.end(), [](char c) { return (c & 0x80) != 0; });
  };
  for (const bool raw : {false, true}) {
    for (std::int32_t id = 0; id < size(); ++id) {
      if (piece(id).empty() || is_raw(id) != raw) continue;
      if (is_special(id)) specials_.insert(id, *this);
      if (type(id) == TokenType::kNormal || type(id) == TokenType::kUndefined) words_.insert(id, *this);
    }
  }
}

void Vocabulary::find_gaps(const weights::Metadata& metadata) {
  for (const GapNames& token : kGapNames) {
    std::int32_t& id = gap_.*token.id;
    for (const std::string_view name : token.names)
      if (id < 0 && !name.empty()) id = find_special(name);
    if (token.older) id = read_id(metadata, token.older, id);
    id = read_id(metadata, token.key, id);
  }
}

void Vocabulary::find_ends(const weights::Metadata& metadata) {
  // In the Harmony format <|end|> ends a message, and the answer goes on.
  const bool harmony = find_special("<|return|>") >= 0 && find_special("<|call|>") >= 0;
  for (std::size_t i = 0; i < std::size(kEndNames); ++i) {
    const auto id = find_special(kEndNames[i]);
    if (id < 0 || (harmony && kEndNames[i] == "<|end|>")) continue;
    ends_.push_back(id);
    if (ids_.eot < 0 && i < kTurnEndNames && !metadata.has("tokenizer.ggml.eot_token_id")) ids_.eot = id;
  }
  // In the harmony format <|end|> ends a message and not the answer.
  if (const auto done = find_special("<|return|>"), call = find_special("<|call|>"); done >= 0 && call >= 0) {
    std::erase(ends_, find_special("<|end|>"));
    if (ids_.eot == find_special("<|end|>")) ids_.eot = -1;
    ends_.insert(ends_.end(), {done, call});
  }
  // What fills a gap ends where the model begins another file.
  if (gap_.known())
    for (const std::int32_t id : {gap_.repository, gap_.file, gap_.pad})
      if (id >= 0) ends_.push_back(id);
  if (ids_.eos >= 0) ends_.push_back(ids_.eos);
  if (ids_.eot >= 0) ends_.push_back(ids_.eot);
  std::sort(ends_.begin(), ends_.end());
  ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
}

// GGUF files do not say it; the original's added tokens do.
void Vocabulary::find_strippers(const weights::Metadata& metadata, const VocabularyRules& rules) {
  const auto read = [&](const char* key, std::vector<std::int32_t>& to) {
    const auto* const ids = metadata.get_ints(key);
    for (std::size_t i = 0; ids && i < ids->size(); ++i) {
      if ((*ids)[i] < 0 || (*ids)[i] >= size())
        throw Error(Code::kBadInput, fmt::format("has {}, expected ids below {}", (*ids)[i], size()),
                    where(metadata, key));
      to.push_back(static_cast<std::int32_t>((*ids)[i]));
    }
    std::sort(to.begin(), to.end());
  };
  read("tokenizer.kvasir.lstrip", front_strippers_);
  read("tokenizer.kvasir.rstrip", strippers_);
  read("tokenizer.kvasir.single_word", whole_words_);
  if (!strippers_.empty()) return;
  if (!rules.byte_names || metadata.get_string("general.architecture") != "phi3") return;
  for (std::int32_t id = 0; id < size(); ++id) {
    if (is_special(id) && piece(id) != "<unk>" && piece(id) != "<s>" && piece(id) != "<|endoftext|>")
      strippers_.push_back(id);
  }
}

Vocabulary::Edges Vocabulary::edges(std::int32_t id) const {
  const auto in = [&](const std::vector<std::int32_t>& ids) { return std::binary_search(ids.begin(), ids.end(), id); };
  return {.strips_front = in(front_strippers_), .strips_behind = in(strippers_), .whole_word = in(whole_words_)};
}

bool Vocabulary::is_special(std::int32_t id) const {
  const auto t = type(id);
  return t == TokenType::kControl || t == TokenType::kUnknown || t == TokenType::kUserDefined;
}

bool Vocabulary::is_eog(std::int32_t id) const { return std::binary_search(ends_.begin(), ends_.end(), id); }

std::vector<std::int32_t> Vocabulary::of_type(std::initializer_list<TokenType> types) const {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < size(); ++id) {
    if (std::find(types.begin(), types.end(), type(id)) != types.end()) ids.push_back(id);
  }
  return ids;
}

std::int32_t Vocabulary::find(std::string_view bytes) const {
  const auto special = find_special(bytes);
  if (special >= 0) return special;
  const auto word = find_word(bytes);
  if (word >= 0 || bytes.size() != 1) return word;
  for (std::int32_t id = 0; id < size(); ++id) {
    if (type(id) == TokenType::kByte && piece(id) == bytes) return id;
  }
  return -1;
}

}  // namespace kvasir::text
