// kvasir tokenize, from arguments to output and status, on a vocabulary made here; real vocabularies where they are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_data_fixture.hpp"
#include "cli/run_fixture.hpp"
#include "cli/sections.hpp"
#include "weights/gguf_writer.hpp"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tokenize");
  return run_captured(arguments);
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Tokenize : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("kvasir_tokenize_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  fs::path folder_;
};

// A byte-level vocabulary in which only a few bytes have a token. Ġ is a space, Ċ a line break.
//   0 h  1 e  2 l  3 o  4 Ġ  5 Ċ  6 he  7 ll  8 hell  9 hello  10 <|end|> (control)  11 <|begin|> (control)
std::vector<std::byte> vocabulary() {
  weights::GgufHeader header;
  header.set_string("general.architecture", "llama");
  header.set_string("tokenizer.ggml.model", "gpt2");
  header.set_string("tokenizer.ggml.pre", "gpt-2");
  header.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"h", "e", "l", "o", "Ġ", "Ċ", "he", "ll", "hell",
                                                                       "hello", "<|end|>", "<|begin|>"});
  header.set_array<std::int32_t>("tokenizer.ggml.token_type",
                                 std::vector<std::int32_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3});
  header.set_strings("tokenizer.ggml.merges", std::vector<std::string>{"h e", "l l", "he ll", "hell o"});
  header.set<std::uint32_t>("tokenizer.ggml.bos_token_id", 11);
  header.set<std::uint32_t>("tokenizer.ggml.eos_token_id", 10);
  header.set<bool>("tokenizer.ggml.add_bos_token", true);
  return header.encode();
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(Tokenize, PrintsTableIdsCountAndJson) {
  const std::string model = write("v.gguf", as_text(vocabulary()));
  const std::string file = write("t.txt", "hello hell\no");
  EXPECT_EQ(run({"-m", model, "--file", file, "--ids"}).out, "9 4 8 5 3\n");
  EXPECT_EQ(run({"-m", model, "-f", file, "--ids"}).out, "9 4 8 5 3\n");
  EXPECT_EQ(run({"-m", model, "-p", "hello", "--ids"}).out, "9\n");
  EXPECT_EQ(run({"-m", model, "-p", "hello", "-f", file, "--ids"}).status, 2);
  EXPECT_EQ(run({"-m", model, "--file", file, "--count"}).out, "5\n");
  EXPECT_EQ(run({"-m", model, "--file", file, "--json"}).out, "{\"section\":0,\"count\":5,\"ids\":[9,4,8,5,3]}\n");
  EXPECT_EQ(run({"-m", model, "--file", file, "--json", "--count"}).out, "{\"section\":0,\"count\":5}\n");
  EXPECT_EQ(run({"-m", model, "--file", file}).out,
            "       9  'hello'\n       4  ' '\n       8  'hell'\n       5  '\\n'\n       3  'o'\n5 tokens\n");
}

TEST_F(Tokenize, SpecialTokensOnlyWhenAsked) {
  const std::string model = write("v.gguf", as_text(vocabulary()));
  const std::string file = write("t.txt", "hello<|end|>");
  const Result plain = run({"-m", model, "--file", file, "--ids"});
  EXPECT_EQ(plain.status, kSuccess) << plain.err;
  EXPECT_EQ(plain.out.find("10"), std::string::npos) << plain.out;
  EXPECT_EQ(plain.out.find("9 "), 0u) << plain.out;
  EXPECT_EQ(run({"-m", model, "--file", file, "--ids", "--special"}).out, "11 9 10\n");
}

TEST_F(Tokenize, SectionsAreTokenisedAlone) {
  const std::string model = write("v.gguf", as_text(vocabulary()));
  const std::string file = write("t.txt", "hello\n==\n\n==\n\n\n==\nhe==\n==\nll");
  EXPECT_EQ(run({"-m", model, "--file", file, "--ids", "--sections", "=="}).out.substr(0, 6), "9\n\n5\n6");
  const Result count =
      run({"-m", model, "--file", write("u.txt", "hello\n--\nhell\n--\n"), "--count", "--sections=--"});
  EXPECT_EQ(count.out, "1\n1\n") << count.err;
  EXPECT_EQ(run({"-m", model, "--file", write("e.txt", ""), "--ids", "--sections", "=="}).out, "");
}

TEST_F(Tokenize, AnEmptyTextHasNoTokens) {
  const std::string model = write("v.gguf", as_text(vocabulary()));
  const std::string file = write("t.txt", "");
  EXPECT_EQ(run({"-m", model, "--file", file, "--count"}).out, "0\n");
  EXPECT_EQ(run({"-m", model, "--file", file, "--ids"}).out, "\n");
}

TEST_F(Tokenize, WrongInputsAreOneLineAndAStatus) {
  const std::string model = write("v.gguf", as_text(vocabulary()));
  const std::string file = write("t.txt", "hello");
  const auto expect = [](const std::vector<std::string>& arguments, int status, const std::string& message) {
    const Result r = run(arguments);
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  expect({}, kBadUsage, "--model is required");
  expect({"-m", model + ".no", "--file", file}, kFailure, "v.gguf.no: cannot open");
  expect({"-m", model, "--file", file + ".no"}, kFailure, "t.txt.no: cannot open");
  expect({"-m", model, "--file", folder_.string()}, kFailure, "cannot read");
  expect({"-m", folder_.string(), "--file", file}, kBadUsage, "not a regular file");
  expect({"-m", file, "--file", file}, kBadUsage, "t.txt: ");
  expect({"-m", write("empty.gguf", ""), "--file", file}, kBadUsage, "the file is empty");
  expect({"-m", model, "--file", file, "--ids", "--count"}, kBadUsage, "--ids and --count");
  expect({"-m", model, "--file", file, "--sections", "a\nb"}, kBadUsage,
         "--sections: expected a separator of one line");
  expect({"-m", model, "--file", file, "--sections"}, kBadUsage, "--sections");
  expect({"-m", model, file}, kBadUsage, "t.txt");
  weights::GgufHeader none;
  none.set_string("tokenizer.ggml.model", "no_vocab");
  expect({"-m", write("n.gguf", as_text(none.encode())), "--file", file}, kBadUsage, "the model has no vocabulary");
  weights::GgufHeader unknown;
  unknown.set_string("tokenizer.ggml.model", "runes");
  expect({"-m", write("u.gguf", as_text(unknown.encode())), "--file", file}, kFailure, "runes");
}

TEST_F(Tokenize, EveryTruncationIsAnError) {
  const std::string whole = as_text(vocabulary());
  const std::string file = write("t.txt", "hello");
  const auto ends = [&](std::size_t n) { return run({"-m", write("c.gguf", whole.substr(0, n)), "--file", file}); };
  EXPECT_EQ(ends(whole.size()).status, kSuccess);
  // The last bytes may be padding, which a file without tensors does not need.
  for (std::size_t n = 0; n + 32 < whole.size(); ++n) EXPECT_EQ(ends(n).status, kBadUsage) << n;
}

TEST(Sections, EndAtLinesThatAreTheSeparator) {
  using Views = std::vector<std::string_view>;
  EXPECT_EQ(split_sections("", "=="), Views{});
  EXPECT_EQ(split_sections("==", "=="), Views{""});
  EXPECT_EQ(split_sections("==\n==\n", "=="), (Views{"", ""}));
  EXPECT_EQ(split_sections("a\n==\nb\n", "=="), (Views{"a", "b\n"}));
  EXPECT_EQ(split_sections("a\n== \n ==\n==", "=="), (Views{"a\n== \n =="}));
  EXPECT_EQ(split_sections("\n==\n\n\n==\n", "=="), (Views{"", "\n"}));
  EXPECT_EQ(split_sections("a\r\n==\r\nb", "=="), (Views{"a\r\n==\r\nb"}));
}

// The command itself on the reference vocabularies: every line of NAME.out.
TEST(TokenizeReference, SectionsOfEveryVocabulary) {
  const fs::path data = fixture::test_data("vocab");
  if (!fs::exists(data)) GTEST_SKIP() << "no reference data at " << data;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(data)) {
    fs::path path = entry.path();
    if (path.extension() != ".inp") continue;
    ++files;
    const std::string input = path.string();
    const Result r = run({"-m", path.replace_extension(".gguf").string(), "--file", input, "--ids", "--sections",
                          "__ggml_vocab_test__"});
    EXPECT_EQ(r.status, kSuccess) << input << r.err;
    std::istringstream found(r.out), expected(slurp(path.replace_extension(".out").string()));
    int line = 0;
    for (std::string f, e; ++line, std::getline(expected, e);) {
      ASSERT_TRUE(std::getline(found, f)) << input << " line " << line;
      const auto ids = [](const std::string& text) {
        std::istringstream in(text);
        return std::vector<int>(std::istream_iterator<int>(in), {});
      };
      EXPECT_EQ(ids(f), ids(e)) << input << " line " << line;
    }
    std::string rest;
    EXPECT_FALSE(std::getline(found, rest)) << input << " has more lines";
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace kvasir::cli
