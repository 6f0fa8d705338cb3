// Options, token ids and outputs that cannot be: one line that names them, before any work.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "robustness_fixture.hpp"

namespace kvasir {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TEST(BadOptions, OptionsOutOfRange) {
  const TemporaryPath path("options.gguf");
  const std::string m = tiny_file(path);
  const auto refuse = [&](std::vector<std::string> options, const std::vector<std::string>& parts, int status = 2) {
    std::vector<std::string> all{"run", "-m", m, "-p", "b"};
    all.insert(all.end(), options.begin(), options.end());
    expect_error(all, status, parts);
  };
  refuse({"--kv", "f8"}, {"--kv: unknown codec 'f8'", "f16", "or of the presets: balanced"});
  refuse({"--k-codec", "f8"}, {"--k-codec", "f8", "f16"});
  refuse({"--v-codec", "zip"}, {"--v-codec", "zip", "f16"});
  refuse({"--kv", "f16", "--k-codec", "f32"}, {"--kv", "--k-codec"});
  refuse({"--kv", "f16", "--v-codec", "f32"}, {"--kv", "--v-codec"});
  refuse({"--window", "-1"}, {"--window", "-1"});
  refuse({"--sinks", "129"}, {"--sinks", "129"});
  refuse({"--threads", "-1"}, {"--threads", "-1"});
  refuse({"--threads", "100000"}, {"--threads", "100000", "512"});
  refuse({"--threads", "two"}, {"--threads", "two"});
  refuse({"--threads", "99999999999999999999"}, {"--threads"});
  refuse({"--chunk", "0"}, {"--chunk"});
  refuse({"--ctx", "-1"}, {"--ctx"});
  refuse({"--ctx", "99999999"}, {"--ctx"});
  refuse({"-n", "-2"}, {"-n"});
  refuse({"-n", "1e3"}, {"-n"});
  refuse({"--temperature", "nan"}, {"--temperature"});
  refuse({"--logit-bias", "264=1"}, {"logit_bias", "264"});
  refuse({"--logit-bias", "x"}, {"x"});
  refuse({"--frobnicate"}, {"--frobnicate"});
  for (const std::vector<std::string>& fine : {std::vector<std::string>{"--threads", "0"},
                                               {"--threads", "5"},
                                               {"--chunk", "1"},
                                               {"--chunk", "8192"},
                                               {"--window", "0"},
                                               {"--window", "16777216"},
                                               {"--sinks", "128"},
                                               {"--sinks", "0"},
                                               {"--kv", "bf16"},
                                               {"--k-codec", "f32"},
                                               {"--v-codec", "bf16", "--k-codec", "f16"},
                                               {"--ctx", "3", "--seed", "1"}}) {
    std::vector<std::string> all{"run", "-m", m, "-p", "b", "-n", "3", "--no-figures"};
    all.insert(all.end(), fine.begin(), fine.end());
    const Result o = run_captured(all);
    EXPECT_EQ(o.status, 0) << fine[0] << " " << fine[1] << ": " << o.err;
    EXPECT_EQ(o.err, "");
  }
}

TEST(BadOptions, TokenIds) {
  const TemporaryPath path("ids.gguf");
  const TemporaryPath list("ids.json");
  const TemporaryPath out("ids.f32");
  const std::string m = tiny_file(path);
  const auto ids = [&](const std::string& text) {
    return std::vector<std::string>{"logits", "-m", m, "--tokens", text, "--out", out.path};
  };
  expect_error(ids("264"), 2, {"tokens", "264", "0..263"});
  expect_error(ids("-1"), 2, {"--tokens", "-1"});
  expect_error(ids("1,-1"), 2, {"--tokens", "-1"});
  expect_error(ids("99999999999"), 2, {"--tokens", "99999999999"});
  expect_error(ids("1.5"), 2, {"--tokens", ".5"});
  expect_error(ids("x"), 2, {"--tokens", "x"});
  expect_error(ids(","), 2, {"tokens", "empty"});
  expect_error({"logits", "-m", m}, 2, {"--tokens"});
  expect_error({"logits", "-m", m, "--tokens", "1,2,3", "--ctx", "2"}, 2, {"tokens", "3 ids", "2"});
  const auto file = [&](const std::string& json) {
    write_bytes(list.path, json);
    return std::vector<std::string>{"logits", "-m", m, "--tokens-file", list.path, "--out", out.path};
  };
  for (const char* bad : {"", "{", "[1,2", "[1,]", "nul", "\xff", "[1] 2"})
    expect_error(file(bad), 2, {list.path, "not valid JSON"});
  for (const char* bad : {"3", "\"1\"", "null", "{}", "{\"tokens\": 3}", "{\"tokens\": {\"a\": 1}}"})
    expect_error(file(bad), 2, {list.path, "list of token ids"});
  for (const char* bad :
       {"[1.5]", "[\"a\"]", "[[1]]", "[null]", "[-1]", "[3000000000]", "[18446744073709551615]", "[1e400]"})
    expect_error(file(bad), 2, {list.path});
  expect_error(file("[]"), 2, {"tokens", "empty"});
  expect_error(file("[264]"), 2, {"tokens", "264"});
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  expect_error(file(deep), 2, {list.path, "array"});
  expect_error(file("{\"tokens\": " + deep + "}"), 2, {list.path, "array"});
  expect_error({"logits", "-m", m, "--tokens-file", list.path + ".absent"}, 1, {list.path + ".absent"});
  EXPECT_FALSE(fs::exists(out.path));
  EXPECT_EQ(run_captured(file("{\"tokens\": [0, 263]}")).status, 0);
  EXPECT_EQ(fs::file_size(out.path), 2u * 264 * 4);
  EXPECT_EQ(run_captured({"logits", "-m", m, "--tokens", "1", "--ctx", "1", "--chunk", "1"}).status, 0);
}

TEST(BadOptions, OutputsThatCannotBeWritten) {
  const TemporaryPath path("out.gguf");
  const TemporaryPath folder("folder");
  const std::string m = tiny_file(path);
  fs::create_directory(folder.path);
  const auto refuse = [&](const std::string& out, int status) {
    expect_error({"logits", "-m", m, "--tokens", "1", "--out", out}, status, {out});
    expect_error({"synth", "--shape", "tiny", "--quant", "q4_0", out}, status, {out});
  };
  refuse(folder.path + "/absent/x.f32", 1);
  refuse(folder.path, 2);
  struct stat null {};
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  ASSERT_TRUE(S_ISCHR(null.st_mode));
  refuse("/dev/null", 2);  // root could have replaced it by a file
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  EXPECT_TRUE(S_ISCHR(null.st_mode));
  // A disk that is full: nothing half-written stays.
  const std::string out = folder.path + "/x.f32";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"logits", "-m", m, "--tokens", "1,2,3,4,5,6,7,8", "--out", out},
        {"synth", "--shape", "tiny", "--quant", "q4_0", out}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      rlimit limit = before;
      limit.rlim_cur = 4096;
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::close(2);
      ::_exit(cli::run_command_line(arguments));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    EXPECT_TRUE(fs::is_empty(folder.path));
  }
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace kvasir
