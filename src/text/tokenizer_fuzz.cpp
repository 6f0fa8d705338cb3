// Any bytes as text under small fixed vocabularies (what is encoded must decode to the same bytes and stream as valid
// UTF-8), and as the vocabulary itself (it is refused with an Error or it works).
//
// Input: the low half of the first byte chooses: 0 to 7 text under one of the fixed vocabularies (+128: special tokens
// parsed); 8 to 15 a vocabulary: fields up to the next 0x00 byte. The first field is the text, the second lists token
// types, the third the merges by 0x01 bytes between, the others are tokens. +16: texts under Unigram, WordPiece and
// ranked merges of characters, or a vocabulary of these kinds, with the third field as its table of normalisations,
// too.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "text/stream.hpp"
#include "text/tokenizer.hpp"
#include "text/vocabularies_fixture.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

std::vector<std::string> fields(std::string_view bytes, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : bytes) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

// What must hold for every tokenizer.
void check_stream(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  TextStream stream(tokenizer, -1, true);
  std::string text;
  for (const auto id : ids) {
    require(id >= 0 && id < tokenizer.size());
    text += stream.push(id);
  }
  text += stream.flush();
  require(text == unicode::to_valid_utf8(tokenizer.decode(ids, true)));
}

// `marks_are_spaces`: U+2581 in the text reads as a space, as in SentencePiece.
void fuzz_text(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool marks_are_spaces) {
  const auto ids = tokenizer.encode(text, {.parse_special = parse_special});
  check_stream(tokenizer, ids);
  if (marks_are_spaces && text.find("\xe2\x96\x81") != std::string_view::npos) return;
  require(tokenizer.decode(ids, true) == text);
}

// Tokenizers that normalise do not give the text back.
void fuzz_normalising(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  const auto ids = tokenizer.encode(text, {.parse_special = parse_special});
  check_stream(tokenizer, ids);
}

void fuzz_vocabulary(int choice, bool newer, std::string_view bytes) {
  const bool bpe = (choice & 1) != 0;
  auto parts = fields(bytes, '\0');
  if (parts.size() < 4) return;
  weights::Metadata m("fuzz.gguf");
  const std::vector<std::string> tokens(parts.begin() + 3, parts.end());
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    types.push_back(i < parts[1].size() ? parts[1][i] - '0' : 1);
    scores.push_back(-static_cast<double>(i % 5));
  }
  const char* models[] = {"llama", "gpt2", "t5", "bert", "gemma4"};
  m.set("tokenizer.ggml.model", std::string(models[newer ? 2 + (choice >> 1) % 3 : bpe]));
  m.set("tokenizer.ggml.pre", std::string((choice & 2) != 0 ? "llama-bpe" : "gpt-2"));
  m.set("tokenizer.ggml.add_bos_token", false);
  m.set("tokenizer.ggml.tokens", tokens);
  if ((choice & 4) != 0) m.set("tokenizer.ggml.token_type", types);
  m.set("tokenizer.ggml.merges", parts[2].empty() ? std::vector<std::string>{} : fields(parts[2], '\1'));
  m.set("tokenizer.ggml.scores", scores);
  if (newer) {
    std::vector<std::int64_t> table;
    for (const char c : parts[2]) table.push_back(static_cast<unsigned char>(c));
    if (bpe) m.set("tokenizer.ggml.precompiled_charsmap", table);
    m.set("tokenizer.ggml.add_eos_token", false);
  }
  try {
    const auto tokenizer = make_tokenizer(m);
    check_stream(*tokenizer, tokenizer->encode(parts[0]));
    check_stream(*tokenizer, tokenizer->encode(parts[0], {.parse_special = true}));
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace kvasir::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::text;
  static const auto fixed = [] {
    std::vector<std::unique_ptr<Tokenizer>> all;
    for (const char* pre : {"gpt-2", "llama-bpe", "bailingmoe", "smollm", "deepseek-llm", "default"}) {
      all.push_back(make_tokenizer(byte_level_vocabulary(pre)));
    }
    all.push_back(make_tokenizer(sentencepiece_vocabulary()));
    auto no_prefix = sentencepiece_vocabulary();
    no_prefix.set("tokenizer.ggml.add_space_prefix", false);
    all.push_back(make_tokenizer(no_prefix));
    return all;
  }();
  static const auto normalising = [] {
    std::vector<std::unique_ptr<Tokenizer>> all;
    auto unigram = unigram_vocabulary();
    all.push_back(make_tokenizer(unigram));
    unigram.set("tokenizer.ggml.precompiled_charsmap",
                charsmap_bytes({{"A", "a"}, {"\xef\xbc\xa1", "aa"}, {"\t", " "}, {"\xe2\x80\x8b", ""}}));
    all.push_back(make_tokenizer(unigram));
    all.push_back(make_tokenizer(unigram_vocabulary(true)));
    all.push_back(make_tokenizer(wordpiece_vocabulary()));
    all.push_back(make_tokenizer(byte_level_vocabulary("gpt-neox")));
    all.push_back(make_tokenizer(byte_level_vocabulary("qwen35")));
    return all;
  }();
  static const auto ranked = make_tokenizer(ranked_vocabulary());
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int choice = data[0] & 15;
  const bool newer = (data[0] & 16) != 0, special = (data[0] & 128) != 0;
  if (choice >= 8) {
    fuzz_vocabulary(choice, newer, rest);
  } else if (newer) {
    const auto at = static_cast<std::size_t>(choice);
    if (at < normalising.size())
      fuzz_normalising(*normalising[at], rest, special);
    else
      fuzz_text(*ranked, rest, special, true);
  } else {
    fuzz_text(*fixed[static_cast<std::size_t>(choice)], rest, special, choice >= 6);
  }
  return 0;
}
