#include "cli/config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/run_fixture.hpp"

namespace kvasir::cli {
namespace {

struct Engine {
  std::string model;
  std::int32_t ctx = 0;
  bool exact = false;
};
struct Server {
  bool open = false;
  std::int32_t port = 0;
  float timeout = 1.5f;
  std::string name;
  std::vector<std::string> hosts;
};

const OptionTable<Engine>& engine_table() {
  static const OptionTable<Engine> table{"engine",
                                         {{"model", &Engine::model, {.letter = 'm', .required = true}},
                                          {"ctx", &Engine::ctx, {.low = 0, .high = 4096}},
                                          {"exact", &Engine::exact, {}}}};
  return table;
}
const OptionTable<Server>& server_table() {
  static const OptionTable<Server> table{
      "server", {{"host", &Server::hosts, {}}, {"time_out", &Server::timeout, {.low = 0, .high = 10}}}};
  return table;
}

struct Settings {
  explicit Settings(Flags& flags) : config(flags) {
    config.add(flags, engine_table(), engine);
    config.add(flags, server_table(), server);
  }
  Engine engine;
  Server server;
  Config config;
};

Action setup(Flags& flags) {
  const auto s = std::make_shared<Settings>(flags);
  return [s] {
    if (!s->config.resolve()) return kSuccess;
    std::puts((engine_table().to_json(s->engine).dump() + server_table().to_json(s->server).dump()).c_str());
    return kSuccess;
  };
}

const Command kServe{"serves", setup};
const Entry<Command> kCommands[] = {{"serve", &kServe}};

class ConfigFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "config_test." + testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  Result run(std::vector<std::string> arguments, bool with_file = true) {
    arguments.insert(arguments.begin(), "serve");
    if (with_file) arguments.insert(arguments.end(), {"--config", path_});
    return run_captured(arguments, kCommands);
  }
  std::string path_;
};

TEST_F(ConfigFile, TheCommandLineWins) {
  write(R"({"engine": {"model": "a.gguf", "ctx": 512, "exact": true}, "server": {"host": ["x", "y"], "time_out": 3}})");
  EXPECT_EQ(run({}).out, R"({"model":"a.gguf","ctx":512,"exact":true}{"host":["x","y"],"time_out":3.0})"
                         "\n");
  EXPECT_EQ(run({"--ctx", "0", "--no-exact", "--host", "u", "--host", "v"}).out,
            R"({"model":"a.gguf","ctx":0,"exact":false}{"host":["u","v"],"time_out":3.0})"
            "\n");
  EXPECT_EQ(run({"-m", "b.gguf"}, false).out, R"({"model":"b.gguf","ctx":0,"exact":false}{"host":[],"time_out":1.5})"
                                              "\n");
}

TEST_F(ConfigFile, WhatIsPrintedCanBeRead) {
  const Result printed = run({"-m", "a.gguf", "--ctx", "7", "--host", "h", "--print-config"}, false);
  EXPECT_EQ(printed.status, kSuccess);
  EXPECT_EQ(nlohmann::json::parse(printed.out)["engine"]["ctx"], 7);
  write(printed.out);
  EXPECT_EQ(run({"--print-config"}).out, printed.out);
  EXPECT_EQ(run({"--print-config"}, false).status, kSuccess);  // without a model too
}

TEST_F(ConfigFile, ErrorsNameFileAndKey) {
  const auto expect = [&](const std::string& text, const std::string& message) {
    write(text);
    const Result r = run({});
    EXPECT_EQ(r.status, kBadUsage) << text;
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
  };
  expect("{", path_ + ": not valid JSON");
  expect("[]", path_ + ": expected an object");
  expect(R"({"sever": {}})", path_ + ": unknown table 'sever' (did you mean 'server'?), expected engine, server");
  expect(R"({"engine": 3})", path_ + ": engine: expected an object");
  expect(R"({"engine": {"ctxt": 3}})", path_ + ": engine: unknown option 'ctxt' (did you mean 'ctx'?)");
  expect(R"({"engine": {"ctx": 5000}})", path_ + ": engine.ctx: expected an integer from 0 to 4096, found '5000'");
  expect(R"({"engine": {"max_model_len": 3}})", "unknown option 'max_model_len' ('max_model_len' is 'ctx' here)");
  expect(R"({"engine": {"n_gpu_layers": 3}})", "(n_gpu_layers: not needed: all layers run on the processor)");
  expect(R"({"max-model-len": 3})", "unknown table 'max-model-len' ('max-model-len' is 'ctx' here)");
  expect("{}", "--model: is required, here or as engine.model in --config");
  EXPECT_NE(run({"--ctx", "x"}).err.find("--ctx: expected an integer"), std::string::npos);
  EXPECT_EQ(run_captured({"serve", "-m", "a", "--config", path_ + ".none"}, kCommands).status, kFailure);
}

// The commands that have many options.
TEST_F(ConfigFile, EveryCommandReadsWhatItPrints) {
  const std::vector<std::vector<std::string>> commands = {
      {"serve"},         {"run"},         {"chat"},          {"bench"},          {"bench", "replay"},
      {"bench", "load"}, {"eval", "ppl"}, {"eval", "codec"}, {"eval", "recall"}, {"eval", "answers", "prompts.txt"}};
  for (const std::vector<std::string>& command : commands) {
    const auto with = [&](std::initializer_list<std::string> more) {
      std::vector<std::string> all = command;
      all.insert(all.end(), more);
      return run_captured(all);
    };
    const std::string name = command.back();
    const Result first = with({"--print-config"});
    ASSERT_EQ(first.status, kSuccess) << name << first.err;
    auto all = nlohmann::json::parse(first.out);
    ASSERT_TRUE(all.is_object() && !all.empty()) << name;
    // Another value of some number of each table comes through.
    int changed = 0;
    for (auto& [title, table] : all.items())
      for (auto& [key, value] : table.items())
        if (value.is_number_integer() && value > 0 && value < 400) {
          value = value.get<int>() + 1;
          ++changed;
          break;
        }
    EXPECT_GT(changed, 0) << name;
    write(all.dump());
    const Result again = with({"--config", path_, "--print-config"});
    ASSERT_EQ(again.status, kSuccess) << name << again.err;
    EXPECT_EQ(nlohmann::json::parse(again.out), all) << name;
    const std::string title = all.begin().key();
    const std::string key = all.begin().value().begin().key();
    write(nlohmann::json{{title, {{key + "x", 1}}}}.dump());
    const Result wrong = with({"--config", path_});
    EXPECT_EQ(wrong.status, kBadUsage) << name;
    EXPECT_NE(wrong.err.find(path_ + ": " + title + ": unknown option '" + key + "x' (did you mean '" + key + "'?)"),
              std::string::npos)
        << name << wrong.err;
    write(nlohmann::json{{title + "x", nlohmann::json::object()}}.dump());
    EXPECT_NE(with({"--config", path_}).err.find("unknown table '" + title + "x' (did you mean '" + title + "'?)"),
              std::string::npos)
        << name;
  }
}

TEST_F(ConfigFile, ServeKnowsOneModelAndSeveral) {
  const auto printed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "serve");
    more.emplace_back("--print-config");
    const Result r = run_captured(more);
    EXPECT_EQ(r.status, kSuccess) << r.err;
    return nlohmann::json::parse(r.status == kSuccess ? r.out : "{}");
  };
  nlohmann::json one = printed({"-m", "a=b.gguf"});
  EXPECT_EQ(one["engine"]["model"], "b.gguf");
  EXPECT_EQ(one["serve"]["name"], "a");
  EXPECT_EQ(one["serve"]["model"], nlohmann::json::array());
  write(R"({"engine": {"model": "a.gguf"}, "serve": {"name": "x"}})");
  one = printed({"--config", path_, "-m", "c.gguf"});
  EXPECT_EQ(one["engine"]["model"], "c.gguf");
  EXPECT_EQ(one["serve"]["name"], "x");
  write(R"({"serve": {"model": ["a=a.gguf", "b=b.gguf"], "memory": "8GiB"}})");
  const nlohmann::json two = printed({"--config", path_});
  EXPECT_EQ(two["serve"]["model"], (nlohmann::json{"a=a.gguf", "b=b.gguf"}));
  EXPECT_EQ(two["engine"]["model"], "");
  EXPECT_EQ(printed({"--config", path_, "-m", "c.gguf"})["engine"]["model"], "c.gguf");
  const Result none = run_captured({"serve"});
  EXPECT_NE(none.err.find("--model: is required, here or as engine.model or serve.model in --config"),
            std::string::npos)
      << none.err;
}

}  // namespace
}  // namespace kvasir::cli
