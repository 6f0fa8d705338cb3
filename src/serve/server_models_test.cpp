// A server of several models: which of them answers, and which are loaded.
#include <gtest/gtest.h>

#include <atomic>

#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"
#include "serve/conversation_fixture.hpp"
#include "serve/roster.hpp"

namespace kvasir::serve {
namespace {

class FakeResident final : public Resident {
 public:
  FakeResident(FakeOptions options, std::atomic<int>& alive) : service_(std::move(options)), alive_(alive) { ++alive_; }
  ~FakeResident() override { --alive_; }
  run::Service& service() override { return service_; }
  const ChatFormat* chat() const override { return &chat_; }

 private:
  FakeService service_;
  FakeChat chat_;
  std::atomic<int>& alive_;
};

// Models of 10 bytes each, whose answers begin with their names.
class ModelsServer {
 public:
  explicit ModelsServer(std::vector<std::string> names, std::int64_t budget, ServerOptions options = {},
                        FakeOptions fake = {}) {
    std::vector<Offer> offers;
    for (const std::string& name : names) {
      FakeOptions one = fake;
      one.name = name;
      one.script = {name + " "};
      run::ModelCard card{.name = name, .architecture = "fake", .context = 4096, .chat_template = "of " + name};
      // What a loaded one reads is its own matter: this says it of one that is not.
      const bool vision = name == "org/b";
      offers.push_back(
          {.card = card, .bytes = 10, .vision = vision, .load = [this, one]() -> std::unique_ptr<Resident> {
             if (fails.load()) throw Error(Code::kBadInput, "is no model", "/secret/path.gguf");
             if (load_seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(load_seconds));
             auto loaded = std::make_unique<FakeResident>(one, alive);
             EXPECT_LE(alive.load() * 10, budget_);
             return loaded;
           }});
    }
    budget_ = budget;
    options.port = 0;
    server_.emplace(std::move(options), std::move(offers), budget, [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      for (const char* what : {"loaded model=", "unloaded model="})
        if (line.starts_with(what)) log_.push_back((what[0] == 'u' ? "-" : "+") + word(line, what));
    });
    thread_ = std::thread([this] { server_->run(); });
  }
  ~ModelsServer() {
    server_->stop();
    server_->stop();
    thread_.join();
    server_.reset();
    EXPECT_EQ(alive.load(), 0);
  }

  Reply ask(std::string_view method, std::string_view path, const Json& body = nullptr) {
    Client client(port());
    client.send(http_text(method, path, body.is_null() ? "" : dump(body)));
    return client.read();
  }
  Reply complete(const std::string& model, int tokens = 2) {
    return ask("POST", "/v1/completions", {{"model", model}, {"prompt", "abc"}, {"max_tokens", tokens}});
  }
  std::string text(const std::string& model) {
    const Reply r = complete(model);
    EXPECT_EQ(r.status, 200) << r.body;
    return r.status == 200 ? r.json()["choices"][0]["text"].get<std::string>() : "";
  }
  std::vector<std::string> in_memory() {
    std::vector<std::string> names;
    const Json all = ask("GET", "/api/ps").json();
    for (const Json& m : all["models"]) names.push_back(m["name"]);
    return names;
  }
  std::string log() {  // "+a -a +b"
    const std::lock_guard lock(mutex_);
    return fmt::format("{}", fmt::join(log_, " "));
  }
  std::uint16_t port() const { return server_->port(); }

  std::atomic<int> alive{0};
  std::atomic<bool> fails{false};
  double load_seconds = 0;

 private:
  static std::string word(std::string_view line, std::string_view after) {
    line.remove_prefix(after.size());
    return std::string(line.substr(0, line.find(' ')));
  }
  std::int64_t budget_ = 0;
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::optional<Server> server_;
  std::thread thread_;
};

using Names = std::vector<std::string>;

TEST(ServerModels, AreListedAndLoadedWhenAskedFor) {
  ModelsServer s({"a", "org/b"}, 10);
  const Json list = s.ask("GET", "/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["id"], "org/b");
  EXPECT_EQ(list[1]["kvasir"]["loaded"], false);
  EXPECT_EQ(list[0]["input_modalities"], Json({"text"}));
  EXPECT_EQ(list[0]["kvasir"]["vision"], false);
  EXPECT_EQ(list[1]["input_modalities"], Json({"text", "image"}));
  EXPECT_EQ(list[1]["kvasir"]["vision"], true);
  EXPECT_EQ(s.ask("GET", "/v1/models/org/b").json()["id"], "org/b");
  EXPECT_EQ(s.ask("GET", "/v1/models/c").status, 404);
  const Json tags = s.ask("GET", "/api/tags").json()["models"];
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[0]["capabilities"].dump(), R"(["completion"])");
  EXPECT_EQ(tags[1]["capabilities"].dump(), R"(["completion","vision"])");
  const auto shown = [&](const char* name) {
    return s.ask("POST", "/api/show", {{"model", name}}).json()["capabilities"];
  };
  EXPECT_EQ(shown("a").dump(), R"(["completion"])");
  EXPECT_EQ(shown("org/b").dump(), R"(["completion","vision"])");
  EXPECT_EQ(s.in_memory(), Names{});
  EXPECT_EQ(s.alive.load(), 0);

  EXPECT_EQ(s.text("org/b"), "org/b org/b ");
  EXPECT_EQ(s.in_memory(), Names{"org/b:latest"});
  EXPECT_EQ(s.ask("GET", "/v1/models").json()["data"][1]["kvasir"]["vision"], false);  // as it says itself now
  EXPECT_EQ(s.text("a"), "a a ");
  EXPECT_EQ(s.in_memory(), Names{"a:latest"});
  EXPECT_EQ(s.log(), "+org/b -org/b +a");
  EXPECT_EQ(s.ask("GET", "/v1/models").json()["data"][0]["kvasir"]["loaded"], true);

  // What is asked of a model that is not loaded does not load it.
  EXPECT_EQ(s.ask("GET", "/props").json()["model_alias"], "a");
  const Json props = s.ask("GET", "/props?model=org%2Fb").json();
  EXPECT_EQ(props["model_alias"], "org/b");
  EXPECT_EQ(props["is_sleeping"], true);
  EXPECT_EQ(props["modalities"]["vision"], true);
  EXPECT_EQ(props["chat_template"], "of org/b");
  EXPECT_EQ(props["models"][1], (Json{{"name", "org/b"}, {"loaded", false}, {"bytes", 10}}));
  EXPECT_EQ(s.ask("GET", "/props?model=c").status, 404);
  EXPECT_EQ(s.ask("POST", "/api/show", {{"model", "org/b"}}).json()["template"], "of org/b");
  EXPECT_EQ(s.ask("POST", "/api/show", {{"model", "c"}}).status, 404);
  EXPECT_EQ(s.ask("GET", "/tokenizer_info").json()["model_max_length"], 4096);
  EXPECT_EQ(s.ask("GET", "/tokenizer_info?model=org%2Fb").status, 503);
  const Json slots = s.ask("GET", "/slots").json();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0]["model"], "a");
  EXPECT_EQ(s.in_memory(), Names{"a:latest"});

  // Counters of what was unloaded stay.
  const Json stats = s.ask("GET", "/v1/stats").json();
  EXPECT_EQ(stats["requests"]["accepted"], 2);
  EXPECT_EQ(stats["memory"]["models_budget"], 10);
  EXPECT_EQ(stats["models"][0], (Json{{"name", "a"}, {"loaded", true}, {"bytes", 10}, {"requests", 0}, {"loads", 1}}));
}

TEST(ServerModels, ANameThatNothingHasIsNotFoundInEveryDialect) {
  ModelsServer s({"a", "b"}, 20);
  std::map<std::string, Json> all = same_conversation();
  for (const char* path : {"/v1/completions", "/api/generate", "/v1/warm", "/completion"})
    all[path] = {{"prompt", "x"}};
  all["/infill"] = {{"input_prefix", "x"}, {"input_suffix", "y"}};
  all["/v1/embeddings"] = all["/api/embed"] = {{"input", "x"}};
  all["/v1/rerank"] = {{"query", "x"}, {"documents", {"y"}}};
  all["/tokenize"] = {{"content", "x"}};
  all["/v1/messages/count_tokens"] = all["/v1/messages"];
  for (auto& [path, body] : all) {
    body["model"] = "aa";
    const Reply r = s.ask("POST", path, body);
    EXPECT_EQ(r.status, 404) << path << r.body;
    const Json error = r.json()["error"];
    const std::string message = error.is_string() ? error : error["message"];
    const char* words = path.starts_with("/api/") ? "model 'aa' not found" : "the model 'aa' does not exist";
    EXPECT_NE(message.find(words), std::string::npos) << path << r.body;
    EXPECT_NE(message.find("'a', 'b'"), std::string::npos) << path << r.body;
    if (path.starts_with("/v1/messages")) {
      EXPECT_EQ(r.json()["type"], "error") << path;
    }
  }
  EXPECT_EQ(s.alive.load(), 0);
  ModelsServer any({"a", "b"}, 20, {.any_model = true});
  EXPECT_EQ(any.text("gpt-4"), "a a ");
}

TEST(ServerModels, WithoutANameTheFirstAnswers) {
  ModelsServer s({"a", "b"}, 20);
  EXPECT_EQ(s.ask("POST", "/completion", {{"prompt", "x"}, {"n_predict", 1}}).json()["content"], "a ");
  EXPECT_EQ(s.ask("POST", "/api/generate", {{"prompt", "x"}}).status, 400);  // there it is a must
  EXPECT_EQ(s.ask("POST", "/v1/completions", {{"model", 3}, {"prompt", "x"}}).json()["error"]["param"], "model");
  Client client(s.port());
  client.send(http_text("POST", "/v1/completions", "{\"model\":"));
  EXPECT_EQ(client.read().status, 400);
  EXPECT_EQ(s.log(), "+a");
}

TEST(ServerModels, TheLeastRecentlyUsedGoes) {
  ModelsServer s({"a", "b", "c"}, 20);
  for (const char* name : {"a", "b", "a", "c"}) s.text(name);
  EXPECT_EQ(s.log(), "+a +b -b +c");
  EXPECT_EQ(s.in_memory(), (Names{"a:latest", "c:latest"}));
}

TEST(ServerModels, WhoListsThemUsesNone) {
  ModelsServer s({"a", "b", "c"}, 20);
  s.text("b"), s.text("a");
  EXPECT_EQ(s.ask("GET", "/api/tags").status, 200);
  s.text("c");
  EXPECT_EQ(s.log(), "+b +a -b +c");
}

TEST(ServerModels, OneThatCannotFitIsRefusedWithBudgetAndNeed) {
  ModelsServer s({"a", "b"}, 9);
  const Reply r = s.complete("b");
  EXPECT_EQ(r.status, 507);
  EXPECT_EQ(r.json()["error"]["code"], "model_too_large");
  EXPECT_EQ(r.json()["error"]["message"], "the model 'b' needs 0.0 MB, the memory budget of all models is 0.0 MB");
  EXPECT_EQ(s.ask("POST", "/api/generate", {{"model", "b"}, {"prompt", "x"}}).status, 507);
  EXPECT_EQ(s.log(), "");
}

TEST(ServerModels, OneInUseIsNotUnloadedAndNotKeptForEver) {
  ModelsServer s({"a", "b"}, 10, {}, {.delay = 0.02});
  Client streaming(s.port());
  const Json slow{{"model", "a"}, {"prompt", "x"}, {"max_tokens", 40}, {"stream", true}};
  streaming.send(http_text("POST", "/v1/completions", dump(slow)));
  ASSERT_TRUE(streaming.until("\"a \""));
  Client other(s.port());
  other.send(http_text("POST", "/v1/completions", dump(Json{{"model", "b"}, {"prompt", "x"}, {"max_tokens", 1}})));
  ASSERT_TRUE(eventually([&] { return s.ask("GET", "/v1/stats").json()["queue"]["waiting"] == 1; }));
  // Further requests to the model that is to go stand behind the one that waits for its room.
  Client late(s.port());
  late.send(http_text("POST", "/v1/completions", dump(Json{{"model", "a"}, {"prompt", "x"}, {"max_tokens", 1}})));
  EXPECT_EQ(s.log(), "+a");
  EXPECT_EQ(events_of(streaming.read().body).size(), 41u);
  EXPECT_EQ(other.read().json()["choices"][0]["text"], "b ");
  EXPECT_EQ(late.read().json()["choices"][0]["text"], "a ");
  EXPECT_EQ(s.log(), "+a -a +b -b +a");
}

TEST(ServerModels, WaitingForRoomEnds) {
  ModelsServer s({"a", "b"}, 10, {.queue_timeout = 0.2}, {.delay = 0.02});
  Client streaming(s.port());
  streaming.send(http_text("POST", "/v1/completions",
                           dump(Json{{"model", "a"}, {"prompt", "x"}, {"max_tokens", 400}, {"stream", true}})));
  ASSERT_TRUE(streaming.until("\"a \""));
  const Reply r = s.complete("b");
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.json()["error"]["code"], "queue_timeout");
  EXPECT_EQ(s.text("a"), "a a ");  // at once: nobody waits for its room any more
  {
    Client gone(s.port());
    gone.send(http_text("POST", "/v1/completions", dump(Json{{"model", "b"}, {"prompt", "x"}})));
    ASSERT_TRUE(eventually([&] { return s.ask("GET", "/v1/stats").json()["queue"]["waiting"] == 1; }));
  }
  ASSERT_TRUE(eventually([&] { return s.ask("GET", "/v1/stats").json()["queue"]["waiting"] == 0; }));
  streaming.close();
  EXPECT_EQ(s.text("a"), "a a ");
  EXPECT_EQ(s.log(), "+a");
}

TEST(ServerModels, WhatCannotBeLoadedIsSaidAndTriedAgain) {
  ModelsServer s({"a", "b"}, 10);
  s.text("b");
  s.fails.store(true);
  const Reply r = s.complete("a");
  EXPECT_EQ(r.status, 500);
  EXPECT_EQ(r.json()["error"]["message"], "the model 'a' cannot be loaded: is no model");
  s.fails.store(false);
  EXPECT_EQ(s.text("a"), "a a ");
}

TEST(ServerModels, ManyClientsInTurns) {
  ModelsServer s({"a", "b", "c"}, 20);
  s.load_seconds = 0.001;
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int c = 0; c < 6; ++c)
    clients.emplace_back([&, c] {
      const std::string names[] = {"a", "b", "c"};
      for (int i = 0; i < 20; ++i) {
        const std::string& name = names[static_cast<std::size_t>(c * 7 + i * 5 + i / 3) % 3];
        if (s.text(name) == name + " " + name + " ") ++right;
      }
    });
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(right.load(), 120);
  EXPECT_EQ(s.ask("GET", "/v1/stats").json()["requests"]["accepted"], 120);
}

TEST(ServerModels, StopsWhileOneIsLoaded) {
  ModelsServer s({"a", "b"}, 10);
  s.load_seconds = 0.3;
  Client client(s.port());
  client.send(http_text("POST", "/v1/completions", dump(Json{{"model", "a"}, {"prompt", "x"}})));
  ASSERT_TRUE(eventually([&] { return s.ask("GET", "/v1/stats").json()["queue"]["waiting"] == 1; }));
}

}  // namespace
}  // namespace kvasir::serve
