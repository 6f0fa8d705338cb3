#include "text/pretokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view name, std::string_view text) {
  Pieces pieces;
  pretokenizer_for(name, "").split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

// What every entry must do with any text.
void expect_tiling(const Entry<Pretokenizer>& entry, std::string_view text) {
  const char* at = text.data();
  entry.value->split(text, [&](std::string_view piece) {
    ASSERT_FALSE(piece.empty()) << entry.name;
    ASSERT_EQ(piece.data(), at) << entry.name;
    at += piece.size();
  });
  ASSERT_EQ(at, text.data() + text.size()) << entry.name;
}

TEST(PretokenizerConformance, ServesUniqueNames) {
  ASSERT_FALSE(pretokenizers().empty());
  std::set<std::string_view> seen;
  for (const auto& entry : pretokenizers()) {
    EXPECT_FALSE(entry.value->serves.empty()) << entry.name;
    for (const auto name : entry.value->serves) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_EQ(&pretokenizer_for(name, ""), entry.value);
    }
  }
  for (const char* name : {"gpt-2", "llama-bpe", "llama3", "llama-v3", "qwen2", "smollm", "deepseek-llm", "default"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(PretokenizerConformance, TilesAnyBytes) {
  std::mt19937 random(1);
  const Pieces atoms = {"a",
                        "Z",
                        "'",
                        "s",
                        "ll",
                        " ",
                        "  ",
                        "\n",
                        "\r\n",
                        "\t",
                        "7",
                        "123",
                        "!",
                        "$",
                        "\xc3\xbc",
                        "\xe4\xb8\xad",
                        "\xf0\x9f\x98\x81",
                        "\xff",
                        "\x80",
                        "\xe2\x82",
                        "\xc2\xa0",
                        "\xe3\x80\x80",
                        "\xe1\x9e\x80",
                        std::string(1, '\0')};
  for (const auto& entry : pretokenizers()) {
    expect_tiling(entry, "");
    for (const auto& atom : atoms) expect_tiling(entry, atom);
    for (int round = 0; round < 2000; ++round) {
      std::string text;
      for (auto n = random() % 20; n > 0; --n) text += atoms[random() % atoms.size()];
      expect_tiling(entry, text);
    }
  }
}

// 300 kB each; a scanner that looks twice as far for twice the text would take minutes.
TEST(PretokenizerConformance, LinearTimeOnMonotonousText) {
  for (const auto& entry : pretokenizers()) {
    for (const std::string unit : {"a", "7", " ", "\n", "!", "\xff", " \n", "a ", "'", "\xe4\xb8\xad", "\xc2\xa0"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      for (const char* end : {"", "x", "!"}) {
        const double start = thread_cpu_seconds();
        expect_tiling(entry, text + end);
        EXPECT_LT(thread_cpu_seconds() - start, 2.0) << entry.name << " on '" << unit << "'";
      }
    }
  }
}

// Pieces as Hugging Face tokenizers cuts them by the patterns that the models' publishers wrote
// (tools/pretokenizers.py).
TEST(PretokenizerConformance, CutsAsTheOriginalPatterns) {
  const auto golden = nlohmann::json::parse(read_text_file(KVASIR_SOURCE_DIR "/tests/golden/pretokenizers.json"));
  const auto texts = golden.at("texts").get<Pieces>();
  for (const auto& entry : pretokenizers()) {
    ASSERT_TRUE(golden.at("pieces").contains(entry.value->serves[0])) << entry.name;
    const auto& all = golden.at("pieces").at(entry.value->serves[0]);
    ASSERT_EQ(all.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::vector<std::size_t> sizes;
      entry.value->split(texts[i], [&](std::string_view piece) { sizes.push_back(piece.size()); });
      EXPECT_EQ(sizes, all[i].get<std::vector<std::size_t>>()) << entry.name << ": " << texts[i];
    }
  }
}

TEST(Pretokenizer, UnknownNameListsTheKnownOnes) {
  try {
    pretokenizer_for("klingon", "file.gguf: tokenizer.ggml.pre");
    FAIL() << "accepted";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(e.code(), Code::kUnsupported);
    for (const char* part : {"file.gguf", "klingon", "llama-bpe", "qwen2", "gpt-2", "default"}) {
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }
}

TEST(Pretokenizer, Gpt2) {
  EXPECT_EQ(split("gpt-2", "Hello world's 123456 it'll  do\n\n x!?"),
            (Pieces{"Hello", " world", "'s", " 123456", " it", "'ll", " ", " do", "\n\n", " x", "!?"}));
  EXPECT_EQ(split("gpt-2", "I'M"), (Pieces{"I", "'", "M"}));  // contractions in lower case only
  EXPECT_EQ(split("gpt-2", "a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split("gpt-2", " \tx"), (Pieces{" ", "\t", "x"}));
  EXPECT_EQ(split("gpt-2", "caf\xc3\xa9\xff\xfe x"), (Pieces{"caf\xc3\xa9", "\xff\xfe", " x"}));
}

TEST(Pretokenizer, Llama3) {
  EXPECT_EQ(split("llama-bpe", "I'M 1234567 a.b\n\n  c ...\r\n d"),
            (Pieces{"I", "'M", " ", "123", "456", "7", " a", ".b", "\n\n", " ", " c", " ...\r\n", " d"}));
  EXPECT_EQ(split("llama-bpe", "x \n \n  y"), (Pieces{"x", " \n \n", " ", " y"}));
  EXPECT_EQ(split("llama-bpe", "\tfoo('re"), (Pieces{"\tfoo", "('", "re"}));
  EXPECT_EQ(split("llama-bpe", "a  "), (Pieces{"a", "  "}));
}

TEST(Pretokenizer, Qwen2CutsSingleDigits) {
  EXPECT_EQ(split("qwen2", "in 2024!"), (Pieces{"in", " ", "2", "0", "2", "4", "!"}));
}

TEST(Pretokenizer, SmollmCutsDigitsFirst) {
  EXPECT_EQ(split("smollm", "in  20 y'all"), (Pieces{"in", "  ", "2", "0", " y", "'", "all"}));
}

TEST(Pretokenizer, DeepseekLlm) {
  EXPECT_EQ(split("deepseek-llm", "Hello, world\n 42  x"),
            (Pieces{"Hello", ",", " world", "\n", " ", "42", " ", " x"}));
  // The vocabulary's list of marks holds the ASCII letters, so a word breaks behind a letter from beyond.
  EXPECT_EQ(split("deepseek-llm", "\xc3\x84pfel"), (Pieces{"\xc3\x84", "pfel"}));
  EXPECT_EQ(split("deepseek-llm", "\xe2\x82\xac  "), (Pieces{"\xe2\x82\xac", "  "}));
  EXPECT_EQ(split("deepseek-llm", "\xe4\xb8\xad\xe6\x96\x87 a"), (Pieces{"\xe4\xb8\xad\xe6\x96\x87", " a"}));
}

TEST(Pretokenizer, Default) {
  EXPECT_EQ(split("default", "a+b (12345)"), (Pieces{"a", "+", "b", " ", "(", "123", "45", ")"}));
  EXPECT_EQ(split("default", "Hello world"), (Pieces{"Hello", " world"}));
}

}  // namespace
}  // namespace kvasir::text
