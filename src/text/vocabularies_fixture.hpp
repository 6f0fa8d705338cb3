// Small vocabularies for tests and the fuzz target, built in code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

}  // namespace kvasir::text
