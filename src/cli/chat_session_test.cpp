// Conversations in this process, with the bundled model behind.
#include "cli/chat_session.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "base/error.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "serve/http.hpp"
#include "serve/template_chat.hpp"
#include "store/library.hpp"
#include "store/open.hpp"

namespace kvasir::cli {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% "
    "endif %}"
    "{{ m.content }}\n{% endfor %}<|assistant|>{% if think %}<think>{% endif %}";

class Chats : public ::testing::Test {
 protected:
  void open(const Json& variables = Json::object()) {
    run::EngineOptions o;
    o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
    o.ctx = 1024;
    o.threads = 2;
    engine_ = std::make_unique<run::Engine>(o, run::Engine::Needs{});
    std::vector<std::shared_ptr<store::Tier>> tiers;
    tiers.push_back(store::open_tier("ram:?size=64MiB"));
    library_.emplace(engine_->cache(), store::fingerprint_of(run::describe_cache(*engine_)), std::move(tiers));
    scheduler_.emplace(*engine_, run::SchedulerOptions{.running = 1, .waiting = 1}, "model", &*library_);
    format_.emplace(text::ChatTemplate(kTemplate, "", ""));
    run::Request settings;
    settings.max_tokens = 12;
    settings.sampling.seed = 3;
    settings.ignore_eos = true;
    session_.emplace(*scheduler_, *format_, settings, variables);
  }

  std::unique_ptr<run::Engine> engine_;
  std::optional<store::Library> library_;
  std::optional<run::Scheduler> scheduler_;
  std::optional<serve::TemplateChat> format_;
  std::optional<ChatSession> session_;
};

TEST_F(Chats, TheNextTurnGoesOnWhereTheLastOneEnded) {
  open();
  session_->set_system("You tell long stories of the sea and of those who sail on it, and never end one too early.");
  std::string shown;
  const ChatAnswer first = session_->ask("Begin.", {.content = [&](std::string_view text) { shown += text; }});
  EXPECT_EQ(first.outcome.completion_tokens, 12);
  EXPECT_EQ(shown, first.content);
  const ChatAnswer second = session_->ask("Go on.", {});
  EXPECT_GE(second.outcome.receipt.reused_tokens, first.outcome.prompt_tokens + 11);
  EXPECT_EQ(second.remembered_tokens, 12);
  ASSERT_EQ(session_->messages().size(), 5u);
  EXPECT_EQ(session_->messages()[2]["content"], first.content);
}

TEST_F(Chats, UndoRetryAndSystem) {
  open();
  EXPECT_FALSE(session_->undo());
  EXPECT_THROW(session_->retry({}), Error);
  const std::string first = session_->ask("One.", {}).content;
  session_->ask("Two.", {});
  EXPECT_TRUE(session_->undo());
  ASSERT_EQ(session_->messages().size(), 2u);
  const std::string other = session_->retry({}).content;
  EXPECT_NE(other, first) << "a given seed goes on";
  ASSERT_EQ(session_->messages().size(), 2u);
  EXPECT_EQ(session_->messages()[1]["content"], other);
  session_->set_system("a");
  session_->set_system("b");
  EXPECT_EQ(session_->messages()[0].dump(), R"({"role":"system","content":"b"})");
  session_->set_system("");
  EXPECT_EQ(session_->messages().size(), 2u);
}

TEST_F(Chats, WhatIsSavedIsLoaded) {
  open({{"think", true}});
  const ChatAnswer answer = session_->ask("One.", {});
  EXPECT_TRUE(answer.content.empty());
  EXPECT_FALSE(answer.reasoning.empty());
  const Json saved = session_->to_json();
  EXPECT_EQ(saved["messages"][1]["reasoning_content"], answer.reasoning);
  session_->undo();
  session_->load(saved);
  EXPECT_EQ(session_->to_json(), saved);
  EXPECT_THROW(session_->load({{"messages", {{{"role", "user"}}}}}), serve::ApiException);
  EXPECT_EQ(session_->to_json(), saved);
}

TEST_F(Chats, AnAnswerThatIsStoppedStaysAsFarAsItCame) {
  open();
  int pieces = 0;
  const ChatAnswer cut =
      session_->ask("One.", {.content = [&](std::string_view) { ++pieces; }, .cancelled = [&] { return pieces > 0; }});
  EXPECT_GT(cut.content.size(), 0u);
  EXPECT_EQ(session_->messages().back()["content"], cut.content);
  const ChatAnswer none = session_->ask("Two.", {.cancelled = [] { return true; }});
  if (none.content.empty()) {
    EXPECT_EQ(session_->messages().size(), 2u);
  }
  const Json before = session_->messages();
  const ChatAnswer again = session_->retry({.cancelled = [] { return true; }});
  EXPECT_EQ(session_->messages().size(), before.size());
  if (again.content.empty()) {
    EXPECT_EQ(session_->messages(), before);
  }
}

TEST_F(Chats, WhatDoesNotFitIsNotSaid) {
  open();
  session_->ask("One.", {});
  std::string words;
  for (int i = 0; i < 2000; ++i) words += "word ";
  EXPECT_THROW(session_->ask(words, {}), Error);
  EXPECT_EQ(session_->messages().size(), 2u);
}

}  // namespace
}  // namespace kvasir::cli
