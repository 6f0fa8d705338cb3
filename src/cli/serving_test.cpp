// Several real models behind one server, and what the command line says of them.
#include "cli/serving.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/run_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

TEST(NamedModel, IsAFileOrANameAndAFile) {
  EXPECT_EQ(parse_named_model("m.gguf").file, "m.gguf");
  EXPECT_EQ(parse_named_model("m.gguf").name, "");
  EXPECT_EQ(parse_named_model("org/a=hf:x/y:Q4_0").name, "org/a");
  EXPECT_EQ(parse_named_model("org/a=hf:x/y:Q4_0").file, "hf:x/y:Q4_0");
  const std::string odd = testing::TempDir() + "kvasir=odd.gguf";
  std::ofstream(odd) << "x";
  EXPECT_EQ(parse_named_model(odd).file, odd);
  for (const char* bad : {"=m.gguf", "a="}) EXPECT_THROW(parse_named_model(bad), Error) << bad;
}

TEST(SettleModels, OneIsAsBeforeAndSeveralRefuseWhatIsOfOne) {
  ServingOptions one;
  one.serve.models = {"a=m.gguf"};
  settle_models(one);
  EXPECT_EQ(one.engine.model, "m.gguf");
  EXPECT_EQ(one.serve.name, "a");
  EXPECT_TRUE(one.serve.models.empty());
  one.serve.models = {"b=m.gguf"};
  EXPECT_THROW(settle_models(one), Error);
  const auto refused = [](const char* flag, auto set) {
    ServingOptions several;
    several.serve.models = {"a.gguf", "b.gguf"};
    set(several.serve);
    try {
      settle_models(several);
      ADD_FAILURE() << flag;
    } catch (const Error& e) {
      EXPECT_EQ(e.context(), flag);
    }
  };
  refused("--name", [](ServeOptions& s) { s.name = "x"; });
  refused("--warm", [](ServeOptions& s) { s.warm = "x"; });
  refused("--chat-template", [](ServeOptions& s) { s.chat_template = "x"; });
}

TEST(SettleModels, EncodersAreOfTheModelsThatTheyName) {
  const auto settled = [](std::vector<std::string> models, std::vector<std::string> encoders) {
    ServingOptions o;
    o.serve.models = std::move(models);
    o.serve.encoders = std::move(encoders);
    settle_models(o);
    return o;
  };
  EXPECT_EQ(settled({"a=m.gguf"}, {"e.gguf"}).pictures.mmproj, "e.gguf");
  EXPECT_EQ(settled({"a=m.gguf"}, {"a=e.gguf"}).pictures.mmproj, "e.gguf");
  EXPECT_EQ(settled({"x/m.gguf"}, {"m=e.gguf"}).pictures.mmproj, "e.gguf");
  EXPECT_EQ(settled({"a=m.gguf", "n.gguf"}, {"n=e.gguf", "a=f.gguf"}).serve.encoders.size(), 2u);
  settled({"a=m.gguf", "n.gguf"}, {"none"});
  const auto refused = [&](std::vector<std::string> models, std::vector<std::string> encoders, const char* says) {
    try {
      settled(std::move(models), std::move(encoders));
      ADD_FAILURE() << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.context(), "--mmproj");
      EXPECT_NE(e.message().find(says), std::string::npos) << e.message();
    }
  };
  refused({"a=m.gguf"}, {"b=e.gguf"}, "is for the model 'b'");
  refused({"a=m.gguf"}, {"e.gguf", "f.gguf"}, "expected once");
  refused({"a=m.gguf", "n.gguf"}, {"e.gguf"}, "says no model's name, expected NAME=FILE with one of a, n");
  refused({"a=m.gguf", "n.gguf"}, {"m=e.gguf"}, "names none of the models");
  refused({"a=m.gguf", "n.gguf"}, {"a=e.gguf", "a=f.gguf"}, "a second encoder");
}

class SeveralModels : public ::testing::Test {
 protected:
  SeveralModels() {
    fs::create_directories(folder_);
    for (const char* quant : {"f16", "q8_0"}) {
      const Result r = run_captured({"synth", "--shape", "tiny", "--quant", quant, file(quant)});
      EXPECT_EQ(r.status, 0) << r.err;
    }
  }
  ~SeveralModels() override { fs::remove_all(folder_); }

  std::string file(const std::string& quant) const { return folder_ + "/" + quant + ".gguf"; }
  ServingOptions options() const {
    ServingOptions o;
    o.serve.models = {"one=" + file("f16"), "two=" + file("q8_0")};
    o.serve.memory = "1GiB";
    o.engine.ctx = 1024;
    o.engine.threads = 2;
    o.scheduler.running = 2;
    o.reuse.ram_cache = "0";
    o.reuse.cache_dir = folder_ + "/cache";
    o.reuse.cache_size = "64MiB";
    o.server.port = 0;
    return o;
  }
  const std::string folder_ = (fs::temp_directory_path() / fmt::format("models{}", ::getpid())).string();
};

class Running {
 public:
  explicit Running(const ServingOptions& options) : serving_(options, {}) {
    thread_ = std::thread([this] { serving_.server().run(); });
  }
  ~Running() {
    serving_.server().stop();
    serving_.server().stop();
    thread_.join();
  }
  Json ask(const std::string& method, const std::string& path, const Json& body, int status = 200) {
    serve::Client client(serving_.server().port());
    client.send(serve::http_text(method, path, body.is_null() ? "" : serve::dump(body)));
    const serve::Reply r = client.read();
    EXPECT_EQ(r.status, status) << r.body;
    return r.json();
  }
  // Tokens that were reused of a prompt, and how many it has.
  std::pair<int, int> complete(const std::string& model, const std::string& prompt) {
    const Json r = ask("POST", "/v1/completions", {{"model", model}, {"prompt", prompt}, {"max_tokens", 2}});
    EXPECT_EQ(r["model"], model);
    return {r["usage"]["prompt_tokens_details"]["cached_tokens"], r["usage"]["prompt_tokens"]};
  }
  Serving& serving() { return serving_; }

 private:
  Serving serving_;
  std::thread thread_;
};

std::string long_prompt() {
  std::string text;
  for (int i = 0; i < 120; ++i) text += fmt::format("word{} ", i);
  return text;
}

TEST_F(SeveralModels, RefuseTheEncoderOfAnotherModelAtOnce) {
  ServingOptions o = options();
  const std::string encoder = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/vision/gemma3.gguf";
  o.serve.encoders = {"two=" + encoder};
  settle_models(o);
  try {
    Serving serving(o, {});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.context(), encoder);
    EXPECT_NE(e.message().find("belongs to another model"), std::string::npos) << e.message();
  }
}

TEST_F(SeveralModels, ReuseWhatTheyComputedBeforeTheyWereUnloaded) {
  ServingOptions o = options();
  const std::string prompt = long_prompt();
  std::int64_t most = 0;
  {
    Running all(o);  // both fit
    ASSERT_EQ(all.serving().needs().size(), 2u);
    for (const Serving::Need& n : all.serving().needs()) most = std::max(most, n.bytes);
    EXPECT_EQ(all.complete("one", prompt).first, 0);
    EXPECT_EQ(all.complete("two", prompt).first, 0);  // pages of the other model are none of its own
    const auto [reused, tokens] = all.complete("one", prompt);
    EXPECT_EQ(reused, tokens - 1);
    const Json models = all.ask("GET", "/v1/stats", nullptr)["models"];
    EXPECT_EQ(models[0]["loads"], 1);
    EXPECT_EQ(models[1]["loaded"], true);
  }
  o.serve.memory = std::to_string(most);  // room for one at a time
  Running turns(o);
  for (const char* model : {"one", "two", "one"}) {
    const auto [reused, tokens] = turns.complete(model, prompt);
    EXPECT_EQ(reused, tokens - 1) << model;
  }
  const Json models = turns.ask("GET", "/v1/stats", nullptr)["models"];
  EXPECT_EQ(models[0]["loads"], 2);
  EXPECT_EQ(models[1]["loads"], 1);
  EXPECT_EQ(models[1]["loaded"], false);
}

TEST_F(SeveralModels, KeepTheirPagesInMemoryToo) {
  ServingOptions o = options();
  o.reuse.cache_dir.clear();
  o.reuse.ram_cache = "32MiB";
  std::int64_t most = 0;
  {
    const Serving probe(o, {});
    for (const Serving::Need& n : probe.needs()) most = std::max(most, n.bytes);
    EXPECT_EQ(probe.budget(), (std::int64_t{1} << 30) - (32 << 20));
  }
  o.serve.memory = std::to_string(most + (32 << 20));
  Running s(o);
  for (const char* model : {"one", "two"}) EXPECT_EQ(s.complete(model, long_prompt()).first, 0) << model;
  const auto [reused, tokens] = s.complete("one", long_prompt());
  EXPECT_EQ(reused, tokens - 1);
  EXPECT_EQ(s.ask("GET", "/v1/stats", nullptr)["models"][0]["loads"], 2);
}

TEST_F(SeveralModels, ABudgetTooSmallIsSaid) {
  ServingOptions o = options();
  o.serve.memory = "100KiB";
  Running s(o);
  const Json error = s.ask("POST", "/v1/completions", {{"model", "two"}, {"prompt", "x"}}, 507)["error"];
  EXPECT_EQ(error["code"], "model_too_large");
  EXPECT_NE(error["message"].get<std::string>().find("the model 'two' needs"), std::string::npos);
  EXPECT_NE(error["message"].get<std::string>().find("budget of all models is 0.1 MB"), std::string::npos) << error;

  o.reuse.ram_cache = "1MiB";
  EXPECT_THROW(Serving(o, {}), Error);  // nothing is left for models
  o = options();
  o.serve.models = {file("f16"), file("f16")};
  EXPECT_THROW(Serving(o, {}), Error);  // both have the name of their file
  o.serve.models[1] = folder_ + "/none.gguf";
  EXPECT_THROW(Serving(o, {}), Error);  // known at the start
}

// Blending compares with a further sequence, and the model is tested with two before there is a request.
TEST(ServingThatBlends, DoesSoWithOneRequestAtATime) {
  ServingOptions o;
  o.engine.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  o.engine.ctx = 2048;
  o.engine.threads = 2;
  o.scheduler.running = 1;
  o.scheduler.blend.reuse = "blend";
  o.reuse.ram_cache = "64MiB";
  o.server.port = 0;
  Running s(o);
  const std::string text = read_text_file(std::string(KVASIR_SOURCE_DIR) + "/DECISIONS.md").substr(2000, 2400);
  const auto blend_of = [&](const std::string& prompt) {
    return s.ask("POST", "/v1/completions", {{"prompt", prompt}, {"max_tokens", 200}})["kvasir"]["blend"];
  };
  blend_of("A first beginning. " + text);
  const Json blend = blend_of("Quite another one, and longer. " + text);
  EXPECT_TRUE(blend["refused"].is_null()) << blend;
  EXPECT_GT(blend["relocated_tokens"], 256) << blend;
}

}  // namespace
}  // namespace kvasir::cli
