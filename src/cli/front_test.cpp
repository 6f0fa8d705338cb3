#include "cli/front.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.hpp"
#include "cli/flags.hpp"
#include "cli/registries.hpp"
#include "cli/run_fixture.hpp"

namespace kvasir::cli {
namespace front_test {

struct Example {
  bool exact = false;
  bool color = true;
  std::int32_t n = 16;
  float temperature = 0.8f;
  std::string codec = "f16";
  std::vector<std::string> stop;
};

const OptionTable<Example>& example_table() {
  static const OptionTable<Example> table{
      "example",
      {{"exact", &Example::exact, {.help = "compute in f32"}},
       {"color", &Example::color, {.help = "coloured output"}},
       {"n", &Example::n, {.help = "tokens to generate", .unit = "tokens", .low = 0, .high = 1000}},
       {"temperature", &Example::temperature, {.help = "0 is greedy", .letter = 't', .low = 0, .high = 2}},
       {"codec", &Example::codec, {.help = "of the cache", .choices = {"f16", "f32"}}},
       {"stop", &Example::stop, {.help = "end before this text"}}}};
  return table;
}

Action echo(Flags& flags) {
  auto o = std::make_shared<Example>();
  add_options(flags, example_table(), *o);
  return [o] {
    std::puts(example_table().to_json(*o).dump().c_str());
    return kSuccess;
  };
}

template <class E>
Action thrower(E e) {
  return [e]() -> int { throw e; };
}

const Command kEcho{"print the options", echo};
const Command kNoFile{"fails", [](Flags&) { return thrower(Error(Code::kIo, "cannot open", "model.gguf")); }};
const Command kBadFile{"fails", [](Flags&) { return thrower(Error(Code::kBadInput, "no model", "model.gguf")); }};
const Command kBug{"fails", [](Flags&) { return thrower(std::logic_error("check failed")); }};
const Command kMemory{"fails", [](Flags&) { return thrower(std::bad_alloc()); }};
const Command kOdd{"fails", [](Flags&) { return thrower(42); }};
const Entry<Command> kCommands[] = {{"echo", &kEcho}, {"nofile", &kNoFile}, {"badfile", &kBadFile},
                                    {"bug", &kBug},   {"memory", &kMemory}, {"odd", &kOdd}};

Result run(const std::vector<std::string>& arguments) { return run_captured(arguments, kCommands); }

TEST(Front, OptionsReachTheStruct) {
  const Result r =
      run({"echo", "--exact", "--no-color", "-n", "3", "-t", "0.5", "--codec=f32", "--stop", "a", "--stop", "b"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, R"({"exact":true,"color":false,"n":3,"temperature":0.5,"codec":"f32","stop":["a","b"]})"
                   "\n");
  EXPECT_EQ(r.err, "");
}

TEST(Front, DefaultsComeFromTheStruct) {
  EXPECT_EQ(run({"echo"}).out, R"({"exact":false,"color":true,"n":16,"temperature":0.8,"codec":"f16","stop":[]})"
                               "\n");
}

// Options of other programs, of other commands, and those that are nearly right.
TEST(Front, WhatIsNotExpectedGetsTheHintThatHelps) {
  const auto hint = [](const std::vector<std::string>& arguments) { return run_captured(arguments).err; };
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"serve", "-m", "x", "--kv-cache-bits", "4"}, "--kv-cache-bits is --kv here"},
      {{"serve", "-m", "x", "--recompute-strategy", "a"}, "--recompute-strategy is --blend-strategy here"},
      {{"serve", "-m", "x", "--draft-model", "a"}, "--draft-model is --draft model:FILE here"},
      {{"serve", "-m", "x", "--gamma=4"}, "--gamma is --draft-tokens here"},
      {{"serve", "-m", "x", "--awq-streaming"}, "--awq-streaming is --weights-memory here"},
      {{"serve", "-m", "x", "--max-batch-size", "4"}, "--max-batch-size is --running here"},
      {{"serve", "-m", "x", "--max-cache-bytes", "4"}, "--max-cache-bytes is --ram-cache here"},
      {{"serve", "-m", "x", "--num-blocks", "4"}, "--num-blocks is --pool here"},
      {{"serve", "-m", "x", "--speculative-gamma", "4"}, "--speculative-gamma is --draft-tokens here"},
      {{"serve", "-m", "x", "--speculative-draft-model", "a"}, "--speculative-draft-model is --draft model:FILE here"},
      {{"serve", "-m", "x", "--chunk-size", "3"}, "--chunk-size: of the steps of a prompt it is --chunk; "},
      {{"serve", "-m", "x", "--recency-window-chunks", "8"}, "--recency-window-chunks: not to be chosen"},
      {{"run", "-m", "x", "--group-size", "16"}, "--group-size: it stands behind a codec's name: --kv kivi2:16"},
      {{"run", "-m", "x", "--nbits=4"}, "--nbits is --kv here"},
      {{"run", "-m", "x", "--delta"}, "--delta: keys as differences are a codec: --kv delta3/uniform4"},
      {{"run", "-m", "x", "-k", "turbo_kv_4b"}, "-k is --k-codec here"},
      {{"run", "-m", "x", "-v", "q4"}, "-v: a codec of values is --v-codec"},
      {{"run", "-m", "x", "--save-kv", "f"}, "--save-kv is --cache-dir here"},
      {{"run", "-m", "x", "--do-sample"}, "--do-sample: not needed: a temperature of 0 is greedy"},
      {{"run", "-m", "x", "--num-beams", "4"}, "--num-beams: there is no beam search"},
      {{"run", "-m", "x", "--mode", "chunk_kv_reuse"}, "--mode: of reuse it is --reuse"},
      {{"serve", "-m", "x", "--block-size", "4"}, "--block-size: not to be chosen"},
      {{"serve", "-m", "x", "--cpu_infer", "2"}, "--cpu_infer is --threads here"},
      {{"serve", "-m", "x", "--max_new_tokens", "2"}, "--max_new_tokens: a request says it, as 'max_tokens'"},
      {{"run", "-m", "x", "--prompt_file", "a"}, "--prompt_file is -f here"},
      {{"serve", "-m", "x", "--temperature", "1"}, "--temperature: a request says it, as 'temperature'"},
      {{"run", "-m", "x", "--max-num-seqs", "4"}, "--max-num-seqs is --running of kvasir "},
      {{"run", "-m", "x", "--port", "1"}, "--port is an option of kvasir "},
      {{"run", "-m", "x", "--kv_layers", "0=f16"}, "--kv_layers is --kv-layers here"},
      {{"run", "-m", "x", "--temperture", "1"}, "did you mean --temperature?"}};
  for (const auto& [arguments, want] : cases)
    EXPECT_NE(hint(arguments).find(want), std::string::npos) << hint(arguments) << "\n" << want;
}

TEST(Front, ValuesMayBeginWithADash) {
  EXPECT_NE(run({"echo", "--stop", "-ngl"}).out.find(R"("stop":["-ngl"])"), std::string::npos);
  EXPECT_NE(run({"echo", "--stop=--x", "--stop", "-1"}).out.find(R"("stop":["--x","-1"])"), std::string::npos);
}

TEST(Front, WrongOptionsExitWithTwoAndNameFlagAndRange) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Result r = run(arguments);
    EXPECT_EQ(r.status, kBadUsage);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err.find("kvasir: "), 0u) << r.err;
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  expect({"echo", "-n", "1001"}, "-n: expected an integer from 0 to 1000, found '1001'");
  expect({"echo", "-n", "-1"}, "-n: expected an integer from 0 to 1000, found '-1'");
  expect({"echo", "-n", "x"}, "-n: expected an integer from 0 to 1000, found 'x'");
  expect({"echo", "-t", "nan"}, "--temperature: expected a number from 0 to 2");
  expect({"echo", "7", "-c", "99"}, "not expected: 7 -c 99 (-c is --ctx here)");
  expect({"echo", "-ngl", "99"}, "not expected: -ngl (-ngl: not needed: all layers run on the processor)");
  expect({"echo", "-np=4"}, "not expected: -np=4 (-np is --running here)");
  expect({"echo", "--ctx-size", "4096", "--flash-attn"},
         "not expected: --ctx-size 4096 --flash-attn (--ctx-size is --ctx here, --flash-attn: not needed");
  expect({"echo", "--codec", "f61"}, "--codec: expected one of f16, f32, found 'f61' (did you mean 'f16'?)");
  expect({"echo", "-n"}, "echo: ");
  expect({"echo", "--unknown"}, "--unknown");
  expect({"echo", "-n", "1", "-n", "2"}, "-n");
  expect({"echo", "surplus"}, "surplus");
  expect({"ehco"}, "unknown command 'ehco' (did you mean 'echo'?)");
  expect({"xyz"}, "unknown command 'xyz'; one of echo, nofile");
  expect({"--nonsense"}, "unknown option '--nonsense'");
  expect({""}, "unknown command ''");
}

TEST(Front, ErrorsBecomeOneLineAndAStatus) {
  const auto expect = [](const char* command, int status, const std::string& message) {
    const Result r = run({command});
    EXPECT_EQ(r.status, status);
    EXPECT_EQ(r.err, message);
  };
  expect("nofile", kFailure, "kvasir: model.gguf: cannot open\n");
  expect("badfile", kBadUsage, "kvasir: model.gguf: no model\n");
  expect("bug", kFailure, "kvasir: internal error: check failed\n");
  expect("memory", kFailure, "kvasir: out of memory\n");
  expect("odd", kFailure, "kvasir: internal error: unknown\n");
}

TEST(Front, HelpAndVersionGoToStandardOutput) {
  for (const char* flag : {"--help", "-h"}) {
    const Result r = run({flag});
    EXPECT_EQ(r.status, 0);
    EXPECT_NE(r.out.find("  echo     print the options\n"), std::string::npos) << r.out;
  }
  const Result help = run({"echo", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("tokens to generate (an integer from 0 to 1000, in tokens; default 16)"), std::string::npos)
      << help.out;
  EXPECT_EQ(run({"--version"}).out.find("kvasir 0."), 0u);
  const Result none = run({});
  EXPECT_EQ(none.status, kBadUsage);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("usage: kvasir COMMAND"), std::string::npos);
}

TEST(Front, EveryCommandOfThisBuildPrintsItsHelp) {
  ASSERT_FALSE(commands().empty());
  for (const auto& c : commands()) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_command_line({std::string(c.name), "--help"}), 0);
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_NE(out.find(c.value->summary), std::string::npos) << c.name;
    EXPECT_EQ(run_command_line({std::string(c.name), "--no-such-flag"}), kBadUsage) << c.name;
  }
}

TEST(Front, RegistriesListTheCommands) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_command_line({"registries", "--json"}), 0);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_FALSE(row.at("entries").empty());
    if (row.at("registry") == "cli/commands") row.at("entries").get_to(found);
  }
  std::vector<std::string> expected;
  for (const auto& c : commands()) expected.emplace_back(c.name);
  EXPECT_EQ(found, expected);
}

}  // namespace front_test
}  // namespace kvasir::cli
