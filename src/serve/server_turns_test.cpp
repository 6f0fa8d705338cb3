// Conversations over HTTP with a model behind: what was generated is reused when it comes back, whatever its tokens.
#include <gtest/gtest.h>

#include <optional>

#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "serve/client_fixture.hpp"
#include "serve/template_chat.hpp"
#include "store/open.hpp"

namespace kvasir::serve {
namespace {

// ChatML, but its end of a message is a control token that the model knows.
constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class ModelServer {
 public:
  explicit ModelServer(ServerOptions options) {
    run::EngineOptions o;
    o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
    o.ctx = 2048;
    o.threads = 2;
    engine_ = std::make_unique<run::Engine>(o, run::Engine::Needs{.sequences = 2, .pool_tokens = 4096, .logits = 2});
    std::vector<std::shared_ptr<store::Tier>> tiers;
    tiers.push_back(store::open_tier("ram:?size=64MiB"));
    library_.emplace(engine_->cache(), store::fingerprint_of(run::describe_cache(*engine_)), std::move(tiers));
    scheduler_.emplace(*engine_, run::SchedulerOptions{.running = 2}, "model", &*library_);
    options.port = 0;
    chat_.emplace(text::ChatTemplate(kChatMl, "", std::string(tokenizer().piece(tokenizer().eos()))));
    server_.emplace(std::move(options), *scheduler_, &*chat_);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~ModelServer() {
    server_->stop();
    server_->stop();
    thread_.join();
  }

  Json post(std::string_view path, const Json& body, std::string_view method = "POST") {
    Client client(server_->port());
    client.send(http_text(method, path, dump(body)));
    const Reply reply = client.read();
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
  }
  Json chat(const Json& messages, Json more) {
    more["messages"] = messages;
    return post("/v1/chat/completions", more);
  }
  std::vector<std::int32_t> tokenize(const Json& body) {
    return post("/tokenize", body)["tokens"].get<std::vector<std::int32_t>>();
  }
  const text::Tokenizer& tokenizer() const { return *engine_->tokenizer(); }
  std::uint16_t port() const { return server_->port(); }
  std::int64_t running() const { return scheduler_->stats().running; }
  std::string metrics() {
    Client client(server_->port());
    client.send(http_text("GET", "/metrics"));
    return client.read().body;
  }

 private:
  std::unique_ptr<run::Engine> engine_;
  std::optional<store::Library> library_;
  std::optional<run::Scheduler> scheduler_;
  std::optional<TemplateChat> chat_;
  std::optional<Server> server_;
  std::thread thread_;
};

const Json kQuestion =
    Json::array({{{"role", "user"}, {"content", "Tell me of the sea, and of the ships that are on it."}}});

Json sampled(int seed) { return {{"temperature", 1.5}, {"seed", seed}, {"max_tokens", 60}, {"ignore_eos", true}}; }

Json with_answer(Json messages, const std::string& answer) {
  messages.push_back({{"role", "assistant"}, {"content", answer}});
  messages.push_back({{"role", "user"}, {"content", "And then?"}});
  return messages;
}

// An answer whose text would be encoded to other tokens, by its seed.
struct Sample {
  int seed = 0;
  std::string text;
  std::int64_t tokens = 0;  // of prompt and answer
};

Sample find_sample(ModelServer& server) {
  const auto prompt = server.tokenize({{"messages", kQuestion}}).size();
  for (int seed = 1; seed < 100; ++seed) {
    const Json reply = server.chat(kQuestion, sampled(seed));
    const std::string text = reply["choices"][0]["message"]["content"];
    EXPECT_EQ(reply["usage"]["completion_tokens"], 60);
    if (text.find("\xef\xbf\xbd") != std::string::npos) continue;
    if (server.tokenizer().encode(text).size() != 60) return {seed, text, static_cast<std::int64_t>(prompt) + 60};
  }
  ADD_FAILURE() << "the model only writes what the tokenizer would";
  return {};
}

TEST(ServerTurns, WhatWasGeneratedIsReused) {
  ServerOptions off;
  off.answer_memory = 0;
  ModelServer with({}), without(off);
  const Sample sample = find_sample(with);
  const Json canonical = without.chat(kQuestion, sampled(sample.seed));
  ASSERT_EQ(canonical["choices"][0]["message"]["content"], sample.text);
  Json messages = with_answer(kQuestion, sample.text);
  const auto ids = with.tokenize({{"messages", messages}});
  EXPECT_NE(ids, without.tokenize({{"messages", messages}}));
  EXPECT_EQ(with.tokenizer().decode(ids, true),
            without.tokenizer().decode(without.tokenize({{"messages", messages}}), true));

  // All but the last generated token, which nothing was computed from.
  const Json reply = with.chat(messages, sampled(1));
  EXPECT_GE(reply["kvasir"]["reused_tokens"], sample.tokens - 1);
  EXPECT_EQ(reply["kvasir"]["remembered_tokens"], 60);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], ids.size());
  const Json plain = without.chat(messages, sampled(1));
  EXPECT_LT(plain["kvasir"]["reused_tokens"], sample.tokens - 1);
  EXPECT_EQ(plain["kvasir"]["remembered_tokens"], 0);
  EXPECT_NE(with.metrics().find("\nkvasir_remembered_tokens_total 60\n"), std::string::npos);

  // A third turn has both answers; reuse off computes the same tokens and leaves nothing.
  messages = with_answer(messages, reply["choices"][0]["message"]["content"]);
  const Json third = with.chat(messages, sampled(2));
  if (reply["choices"][0]["message"]["content"].get<std::string>().find("\xef\xbf\xbd") == std::string::npos) {
    EXPECT_EQ(third["kvasir"]["remembered_tokens"], 120);
    EXPECT_GE(third["kvasir"]["reused_tokens"], static_cast<std::int64_t>(ids.size()) + 60 - 1);
  }
  Json computed = sampled(2);
  computed["reuse"] = false;
  const Json again = with.chat(messages, computed);
  EXPECT_EQ(again["kvasir"]["remembered_tokens"], third["kvasir"]["remembered_tokens"]);
  EXPECT_EQ(again["kvasir"]["reused_tokens"], 0);
}

TEST(ServerTurns, AnswersThatWereCut) {
  ModelServer server({});
  const Sample sample = find_sample(server);
  // By the client, who sends half of it back.
  const std::string half = sample.text.substr(0, sample.text.find(' ', sample.text.size() / 2));
  const Json reply = server.chat(with_answer(kQuestion, half), {{"max_tokens", 1}});
  EXPECT_GE(reply["kvasir"]["remembered_tokens"], 10);
  const auto whole = server.tokenize({{"messages", with_answer(kQuestion, sample.text)}});
  const auto cut = server.tokenize({{"messages", with_answer(kQuestion, half)}});
  const auto equal = std::mismatch(cut.begin(), cut.end(), whole.begin(), whole.end()).first - cut.begin();
  EXPECT_GE(equal, sample.tokens - 60 + reply["kvasir"]["remembered_tokens"].get<std::int64_t>());
  // By a client that went away in the middle of a stream.
  const Json other = Json::array({{{"role", "user"}, {"content", "Another one."}}});
  Json ask = sampled(sample.seed);
  ask["messages"] = other;
  ask["stream"] = true;
  ask["max_tokens"] = 1500;
  std::string seen;
  {
    Client client(server.port());
    client.send(http_text("POST", "/v1/chat/completions", dump(ask)));
    for (std::size_t events = 0; events < 20;) {
      ASSERT_TRUE(client.fill());
      events = 0;
      for (std::size_t at = 0; (at = client.input().find("\"delta\":{\"content\":", at)) != std::string::npos; ++at)
        ++events;
    }
    for (std::size_t at = 0; (at = client.input().find("data: ", at)) != std::string::npos; at += 6) {
      const std::size_t end = client.input().find('\n', at);
      if (end == std::string::npos) break;
      const Json event = Json::parse(client.input().substr(at + 6, end - at - 6));
      seen += event["choices"][0]["delta"].value("content", "");
    }
  }
  EXPECT_TRUE(eventually([&] { return server.running() == 0; }));
  const Json next = server.chat(with_answer(other, seen), {{"max_tokens", 1}});
  EXPECT_GE(next["kvasir"]["remembered_tokens"], 10) << seen;
}

TEST(ServerTurns, WarmedChats) {
  ModelServer server({});
  const Sample sample = find_sample(server);
  const Json messages = with_answer(kQuestion, sample.text);
  const Json body{{"messages", messages}};
  const Json warm = server.post("/v1/warm", body);
  EXPECT_EQ(warm["pinned"], true) << warm;
  EXPECT_EQ(warm["kvasir"]["remembered_tokens"], 60);
  EXPECT_GE(warm["kvasir"]["reused_tokens"], sample.tokens - 1);
  EXPECT_EQ(server.post("/v1/warm", body, "DELETE")["pinned"], false);
  // Pinned when nothing was remembered of it, unpinned when something was.
  const Json other = Json::array({{{"role", "user"}, {"content", "Another one."}}});
  EXPECT_EQ(server.chat(other, {{"max_tokens", 1}, {"reuse", false}})["kvasir"]["remembered_tokens"], 0);
  const std::string text = server.chat(other, [&] {
    Json s = sampled(sample.seed);
    s["reuse"] = false;
    return s;
  }())["choices"][0]["message"]["content"];
  const Json later{{"messages", with_answer(other, text)}};
  EXPECT_EQ(server.post("/v1/warm", later)["kvasir"]["remembered_tokens"], 0) << "what is not kept is not remembered";
  server.chat(other, sampled(sample.seed));
  EXPECT_GT(server.post("/v1/warm", {{"messages", later["messages"]}, {"pin", false}})["kvasir"]["remembered_tokens"],
            0);
  EXPECT_EQ(server.post("/v1/warm", later, "DELETE")["pinned"], false);
}

}  // namespace
}  // namespace kvasir::serve
