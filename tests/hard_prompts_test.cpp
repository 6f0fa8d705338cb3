// Prompts as nobody expects them: empty, endless, no text, as long as the context.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "robustness_fixture.hpp"
#include "unicode/utf8.hpp"

namespace kvasir {
namespace hard_prompts_test {

using namespace testing;

std::string text_of(std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += static_cast<char>('b' + i % 20);  // no merges: a token each
  return text;
}

TEST(HardPrompts, PromptsAtTheEdgeOfTheContext) {
  const TemporaryPath path("edge.gguf");
  const std::string m = tiny_file(path);
  const auto run = [&](std::size_t n) {
    return std::vector<std::string>{"run", "-m", m, "-p", text_of(n), "--ctx", "64", "-n", "1000", "--ignore-eos"};
  };
  for (const auto& [n, made] : {std::pair{63u, 1u}, {62u, 2u}, {1u, 63u}}) {
    const auto row = run_json(run(n));
    EXPECT_EQ(row["finish"], "context") << n;
    EXPECT_EQ(row["prompt_tokens"], n);
    EXPECT_EQ(row["generated_tokens"], made);
  }
  expect_error(run(64), 2, {"prompt", "64 tokens", "--ctx"});
  expect_error(run(65), 2, {"prompt", "65 tokens", "--ctx"});
  expect_error({"run", "-m", m, "-p", "b", "--ctx", "1"}, 2, {"prompt", "1 tokens", "--ctx"});
  EXPECT_EQ(run_json({"run", "-m", m, "-p", "b", "-n", "0"})["finish"], "length");
}

TEST(HardPrompts, EmptyPrompts) {
  const TemporaryPath path("empty.gguf");
  const TemporaryPath text("empty.txt");
  const std::string m = tiny_file(path);
  expect_error({"run", "-m", m}, 2, {"-p", "-f"});
  expect_error({"run", "-m", m, "-p", ""}, 2, {"prompt"});
  expect_error({"run", "-m", m, "-p", "x", "-f", "y"}, 2, {"prompt"});
  expect_error({"run", "-m", m, "-f", text.path}, 1, {text.path});
  expect_error({"run", "-m", m, "-f", "/tmp"}, 1, {"/tmp"});
  write_bytes(text.path, "");
  expect_error({"run", "-m", m, "-f", text.path}, 2, {"prompt", "empty"});
}

TEST(HardPrompts, WordOf100KB) {
  const TemporaryPath path("word.gguf");
  const TemporaryPath text("word.txt");
  tiny_file(path);
  write_bytes(text.path, std::string(100000, 'a'));
  within(10, "run", [&] {
    const auto row = run_json({"run", "-m", path.path, "-f", text.path, "--ctx", "4096", "-n", "2", "--ignore-eos"});
    EXPECT_EQ(row["prompt_tokens"], 100000 / 64 + 1);  // merged to the longest token, and 32 "a" over
    EXPECT_EQ(row["generated_tokens"], 2);
  });
  within(10, "books", [&] { expect_error({"run", "-m", kBooks, "-f", text.path}, 2, {"prompt", "tokens", "--ctx"}); });
  std::string noise;
  for (std::uint32_t i = 0; i < 100000; ++i) noise += static_cast<char>('a' + (i * 2654435761u >> 13) % 26);
  write_bytes(text.path, noise);
  within(10, "noise", [&] { expect_error({"run", "-m", kBooks, "-f", text.path}, 2, {"prompt", "tokens", "--ctx"}); });
}

TEST(HardPrompts, PromptsThatAreNotUtf8) {
  const TemporaryPath path("utf8.gguf");
  const TemporaryPath text("utf8.txt");
  tiny_file(path);
  for (const std::string_view prompt :
       {"\xff\xfe abc", "abc \xc3", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "a\xc0\x80z", "\x80"}) {
    write_bytes(text.path, prompt);
    for (const std::string& model : {path.path, kBooks}) {
      const Result o = run_captured(
          {"run", "-m", model, "-f", text.path, "-n", "40", "--no-figures", "--seed", "1", "--ctx", "256"});
      EXPECT_EQ(o.status, 0) << o.err;
      EXPECT_EQ(unicode::to_valid_utf8(o.out), o.out);
      EXPECT_TRUE(o.out.starts_with(unicode::to_valid_utf8(prompt)));
      run_json({"run", "-m", model, "-f", text.path, "-n", "40", "--ctx", "256"});
    }
  }
}

}  // namespace hard_prompts_test
}  // namespace kvasir
