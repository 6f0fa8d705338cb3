// Small vocabularies for tests and the fuzz target, built in code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unicode/utf8.hpp"
#include "weights/model_file.hpp"

namespace kvasir::text {

// How byte-level vocabularies write `bytes` (GPT-2's table, spelled out here a second time on purpose).
inline std::string byte_level(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    std::uint32_t code = b;
    if (b <= 32) {
      code = 256u + b;
    } else if (b >= 127 && b <= 160) {
      code = 256u + 33 + (b - 127u);
    } else if (b == 173) {
      code = 256 + 67;
    }
    unicode::append_utf8(out, code);
  }
  return out;
}

// A byte-level vocabulary under `pre`: ids 0 to 255 are the bytes in order, then the result of each merge in order,
// then the control tokens <|begin|> <|end|> <|endoftext|> and the user-defined tokens <tag> <tag>> and three newlines.
inline weights::Metadata byte_level_vocabulary(std::string_view pre) {
  weights::Metadata m("bpe.gguf");
  std::vector<std::string> tokens, merges;
  std::vector<std::int64_t> types;
  const auto add = [&](std::string text, std::int64_t type) {
    tokens.push_back(std::move(text));
    types.push_back(type);
  };
  for (int b = 0; b < 256; ++b) add(byte_level(std::string(1, static_cast<char>(b))), 1);
  const auto merge = [&](std::string_view left, std::string_view right) {
    merges.push_back(byte_level(left) + " " + byte_level(right));
    add(byte_level(left) + byte_level(right), 1);
  };
  merge("t", "h");
  merge("th", "e");
  merge(" ", "the");
  merge("h", "e");
  merge("l", "l");
  merge("he", "ll");
  merge("hell", "o");
  merge(" ", " ");
  merge("1", "2");
  merge("12", "3");
  merge("\xc3", "\xbc");
  merge("a", "a");
  merge("aa", "aa");
  merge("aaaa", "aaaa");
  for (const char* name : {"<|begin|>", "<|end|>", "<|endoftext|>"}) add(name, 3);
  for (const char* name : {"<tag>", "<tag>>", "\n\n\n"}) add(name, 4);
  const auto id = [&](std::string_view text) {
    std::int64_t i = 0;
    while (tokens[static_cast<std::size_t>(i)] != text) ++i;
    return i;
  };
  m.set("tokenizer.ggml.model", std::string("gpt2"));
  m.set("tokenizer.ggml.pre", std::string(pre));
  m.set("tokenizer.ggml.bos_token_id", id("<|begin|>"));
  m.set("tokenizer.ggml.eos_token_id", id("<|endoftext|>"));
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  m.set("tokenizer.ggml.merges", merges);
  return m;
}

// A SentencePiece vocabulary: <unk> <s> </s>, 256 byte tokens from id 3 on, then pieces with falling scores from 259
// on, then the user-defined token <tag>. `byte_fallback` false leaves the byte tokens out.
inline weights::Metadata sentencepiece_vocabulary(bool byte_fallback = true) {
  weights::Metadata m("spm.gguf");
  std::vector<std::string> tokens;
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  const auto add = [&](std::string text, std::int64_t type, double score) {
    tokens.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
  };
  add("<unk>", 2, 0);
  add("<s>", 3, 0);
  add("</s>", 3, 0);
  for (int b = 0; byte_fallback && b < 256; ++b) {
    const char* digits = "0123456789ABCDEF";
    add(std::string("<0x") + digits[b / 16] + digits[b % 16] + ">", 6, 0);
  }
  const std::string mark = "\xe2\x96\x81";
  double score = 0;
  for (const std::string& piece : {std::string("he"),
                                   std::string("ll"),
                                   "hell" + std::string(),
                                   std::string("hello"),
                                   mark + "hello",
                                   mark + mark,
                                   mark + "w",
                                   std::string("or"),
                                   std::string("ld"),
                                   std::string("orld"),
                                   mark + "world",
                                   std::string("aa"),
                                   std::string("aaaa"),
                                   mark,
                                   std::string("h"),
                                   std::string("e"),
                                   std::string("l"),
                                   std::string("o"),
                                   std::string("w"),
                                   std::string("r"),
                                   std::string("d"),
                                   std::string("a"),
                                   std::string("<"),
                                   std::string("s"),
                                   std::string(">"),
                                   std::string("<s"),
                                   std::string("\xc3\xbc")}) {
    add(piece, 1, score -= 1);
  }
  add("<tag>", 4, 0);
  m.set("tokenizer.ggml.model", std::string("llama"));
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  m.set("tokenizer.ggml.scores", scores);
  return m;
}

// SentencePiece's Unigram: <unk> <s> </s>, then pieces with scores of their own; with `byte_fallback` 256 byte tokens
// behind them. Spaces are joined.
inline weights::Metadata unigram_vocabulary(bool byte_fallback = false) {
  weights::Metadata m("unigram.gguf");
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int64_t> types{2, 3, 3};
  std::vector<double> scores{0, 0, 0};
  const std::string mark = "\xe2\x96\x81";
  const std::pair<std::string, double> pieces[] = {
      {mark, -2.1},     {mark + "the", -3.2}, {"the", -4.3}, {"t", -5.15},  {"h", -5.35},       {"e", -4.45},
      {mark + "h", -5}, {"ello", -6.2},       {"el", -5.1},  {"l", -4.9},   {"lo", -5.7},       {"o", -4.65},
      {"he", -4.8},     {"w", -5.9},          {"or", -5.2},  {"orl", -6.9}, {"ld", -5.55},      {"d", -5.05},
      {"r", -5.25},     {"rld", -7.3},        {"aa", -3.9},  {"a", -4.25},  {"\xc3\xbc", -7.1}, {"aaaa", -6.05}};
  for (const auto& [piece, score] : pieces) {
    tokens.push_back(piece);
    types.push_back(1);
    scores.push_back(score);
  }
  for (int b = 0; byte_fallback && b < 256; ++b) {
    const char* digits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + digits[b / 16] + digits[b % 16] + ">");
    types.push_back(6);
    scores.push_back(0);
  }
  tokens.emplace_back("<tag>");
  types.push_back(4);
  scores.push_back(0);
  m.set("tokenizer.ggml.model", std::string("t5"));
  m.set("tokenizer.ggml.eos_token_id", std::int64_t{2});
  m.set("tokenizer.ggml.unknown_token_id", std::int64_t{0});
  m.set("tokenizer.ggml.remove_extra_whitespaces", true);
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  m.set("tokenizer.ggml.scores", scores);
  return m;
}

// A table that replaces each key by its text, as SentencePiece writes it (text/charsmap.hpp): every node of the tree
// has a block of 256 units for its children.
inline std::vector<std::int64_t> charsmap_bytes(const std::map<std::string, std::string>& replacements) {
  std::vector<std::uint32_t> units(256);
  std::string texts;
  const std::function<void(std::size_t, std::uint32_t, const std::string&)> build =
      [&](std::size_t node, std::uint32_t label, const std::string& prefix) {
        std::uint32_t unit = label;
        const auto base = static_cast<std::uint32_t>(units.size());
        units.resize(units.size() + 256);
        unit |= (static_cast<std::uint32_t>(node) ^ base) << 10;
        if (const auto at = replacements.find(prefix); at != replacements.end()) {
          unit |= 0x100;
          units[base] = 0x80000000 | static_cast<std::uint32_t>(texts.size());
          texts += at->second + '\0';
        }
        units[node] = unit;
        for (std::uint32_t next = 1; next < 256; ++next) {
          const std::string longer = prefix + static_cast<char>(next);
          const auto at = replacements.lower_bound(longer);
          if (at != replacements.end() && at->first.starts_with(longer)) build(base + next, next, longer);
        }
      };
  build(0, 0, "");
  std::vector<std::int64_t> bytes;
  const auto put = [&](std::uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(word >> shift & 255);
  };
  put(static_cast<std::uint32_t>(4 * units.size()));
  for (const auto unit : units) put(unit);
  for (const char c : texts) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// BERT's WordPiece: [PAD] [UNK] [CLS] [SEP], then tokens.
inline weights::Metadata wordpiece_vocabulary() {
  weights::Metadata m("bert.gguf");
  std::vector<std::string> tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  std::vector<std::int64_t> types{3, 3, 3, 3};
  const std::string mark = "\xe2\x96\x81";
  for (const char* start :
       {"hello", "un", "unaff", "the", "a", "b", "!", "$", ",", "cafe", "\xe4\xb8\xad", "\xc3\x9f"}) {
    tokens.push_back(mark + start);
    types.push_back(1);
  }
  for (const char* rest : {"aff", "able", "ab", "a", "b", "\xc3\x9f"}) {
    tokens.emplace_back(rest);
    types.push_back(1);
  }
  m.set("tokenizer.ggml.model", std::string("bert"));
  m.set("tokenizer.ggml.cls_token_id", std::int64_t{2});
  m.set("tokenizer.ggml.seperator_token_id", std::int64_t{3});
  m.set("tokenizer.ggml.unknown_token_id", std::int64_t{1});
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  return m;
}

// Characters and bytes as in sentencepiece_vocabulary, but merges by rank; its <tag> is here, too.
inline weights::Metadata ranked_vocabulary() {
  weights::Metadata m = sentencepiece_vocabulary();
  const std::string mark = "\xe2\x96\x81";
  std::vector<std::string> merges;
  for (const auto& [left, right] : {std::pair<std::string, std::string>{"h", "e"},
                                    {"l", "l"},
                                    {"he", "ll"},
                                    {"hell", "o"},
                                    {mark, "hello"},
                                    {mark, mark},
                                    {mark, "w"},
                                    {"o", "r"},
                                    {"l", "d"},
                                    {"or", "ld"},
                                    {"a", "a"},
                                    {"aa", "aa"}})
    merges.push_back(left + " " + right);
  m.set("tokenizer.ggml.model", std::string("gemma4"));
  m.set("tokenizer.ggml.merges", merges);
  m.set("tokenizer.ggml.bos_token_id", std::int64_t{1});
  return m;
}

}  // namespace kvasir::text
