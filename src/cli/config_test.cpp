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

class ConfigFile : public testing::Test {
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
  expect("{}", "--model: is required, here or as engine.model in --config");
  EXPECT_NE(run({"--ctx", "x"}).err.find("--ctx: expected an integer"), std::string::npos);
  EXPECT_EQ(run_captured({"serve", "-m", "a", "--config", path_ + ".none"}, kCommands).status, kFailure);
}

}  // namespace
}  // namespace kvasir::cli
