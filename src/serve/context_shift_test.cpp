#include "serve/context_shift.hpp"

#include <gtest/gtest.h>

#include "serve/chat_fixture.hpp"
#include "serve/infill.hpp"
#include "serve/prompt.hpp"
#include "serve/service_fixture.hpp"

namespace kvasir::serve {
namespace {

// Turns of `bytes` each behind a system message: the fixture's tokens are bytes.
ApiRequest conversation(std::size_t turns, std::size_t bytes) {
  ApiRequest r{.kind = Kind::kChat, .is_chat = true};
  r.shift.on = true;
  r.service.request.max_tokens = 10;
  r.chat.messages.push_back({{"role", "system"}, {"content", "Be brief."}});
  for (std::size_t i = 0; i < turns; ++i) {
    r.chat.messages.push_back({{"role", "user"}, {"content", std::string(bytes, static_cast<char>('a' + i % 26))}});
    r.chat.messages.push_back({{"role", "assistant"}, {"content", std::string(bytes, '.')}});
  }
  r.chat.messages.push_back({{"role", "user"}, {"content", "And now?"}});
  return r;
}

class ContextShiftTest : public ::testing::Test {
 protected:
  std::int64_t tokens(const ApiRequest& r) {
    return static_cast<std::int64_t>(
        encode_prompts(r, service.tokenizer(), &chat, {.context = 1 << 20}).front().ids.size());
  }
  void fit(ApiRequest& r, std::int64_t context) { fit_chat(r, chat, *service.tokenizer(), context); }

  FakeService service;
  FakeChat chat;
};

TEST_F(ContextShiftTest, AChatThatFitsIsLeftAlone) {
  ApiRequest r = conversation(4, 20);
  const Json before = r.chat.messages;
  fit(r, tokens(r) + 11);
  EXPECT_EQ(r.chat.messages, before);
  EXPECT_EQ(r.shift.dropped_tokens, 0);
  EXPECT_TRUE(r.notes.empty());
}

TEST_F(ContextShiftTest, TheOldestTurnsGoAndTheSystemMessageStays) {
  ApiRequest r = conversation(20, 40);
  const std::int64_t before = tokens(r);
  fit(r, 1000);
  EXPECT_LE(tokens(r), 1000 - 11);
  EXPECT_EQ(r.chat.messages[0]["role"], "system");
  EXPECT_EQ(r.chat.messages[1]["role"], "user");
  EXPECT_EQ(r.chat.messages.back()["content"], "And now?");
  EXPECT_EQ(r.shift.dropped_messages, 42 - static_cast<std::int64_t>(r.chat.messages.size()));
  EXPECT_EQ(r.shift.dropped_tokens, before - tokens(r));
  EXPECT_EQ(r.notes.size(), 1u);
}

// So that the pages of the turn before are found.
TEST_F(ContextShiftTest, LaterTurnsBeginAlikeUntilABlockIsFull) {
  std::set<std::string> begins;
  for (std::size_t turns = 20; turns < 26; ++turns) {
    ApiRequest r = conversation(turns, 20);
    fit(r, 1000);
    ASSERT_GT(r.shift.dropped_messages, 0) << turns;
    begins.insert(r.chat.messages[1]["content"].get<std::string>());
  }
  EXPECT_LE(begins.size(), 2u);
}

TEST_F(ContextShiftTest, AQuestionThatIsTooLongAloneIsRefused) {
  ApiRequest r = conversation(3, 20);
  r.chat.messages.back()["content"] = std::string(2000, 'x');
  fit(r, 1000);
  EXPECT_EQ(r.chat.messages.size(), 2u);
  EXPECT_THROW(encode_prompts(r, service.tokenizer(), &chat, {.context = 1000}), ApiException);
}

TEST_F(ContextShiftTest, ATextLosesBlocksBehindWhatItKeeps) {
  ApiRequest r;
  r.shift = {.on = true, .keep = 5};
  r.service.request.max_tokens = 10;
  Prompt prompt{.is_ids = true};
  for (int i = 0; i < 300; ++i) prompt.ids.push_back(i % 256);
  r.prompts = {prompt};
  const EncodedPrompt fitted = encode_prompts(r, service.tokenizer(), &chat, {.context = 101}).front();
  EXPECT_EQ(fitted.keep, 5);
  EXPECT_LE(fitted.ids.size(), 90u);
  EXPECT_EQ(fitted.dropped, 300 - static_cast<std::int64_t>(fitted.ids.size()));
  EXPECT_EQ(std::vector(fitted.ids.begin(), fitted.ids.begin() + 5),
            std::vector(prompt.ids.begin(), prompt.ids.begin() + 5));
  EXPECT_TRUE(std::equal(fitted.ids.begin() + 5, fitted.ids.end(),
                         prompt.ids.end() - (fitted.ids.end() - fitted.ids.begin()) + 5));
  r.shift.on = false;
  EXPECT_THROW(encode_prompts(r, service.tokenizer(), &chat, {.context = 101}), ApiException);
}

TEST(Infill, TextsStandAroundTheGap) {
  const FakeService service({.fills_gaps = true});
  const text::Tokenizer& t = *service.tokenizer();
  const auto id = FakeService::gap_id;
  const auto bytes = [&](std::vector<std::int32_t>& to, std::string_view text) {
    for (const std::int32_t i : t.encode(text)) to.push_back(i);
  };
  std::vector<std::int32_t> plain{id("fim_pre")}, files{id("fim_rep")};
  if (t.add_bos()) plain.insert(plain.begin(), t.bos()), files.insert(files.begin(), t.bos());
  bytes(plain, "a = ");
  plain.push_back(id("fim_suf"));
  bytes(plain, " + b");
  plain.push_back(id("fim_mid"));
  EXPECT_EQ(encode_gap(t, {.prefix = "a = ", .suffix = " + b", .files = {}}), plain);
  bytes(files, "project\n");
  files.push_back(id("fim_sep"));
  bytes(files, "x.c\n");
  bytes(files, "int x;\n");
  files.push_back(id("fim_sep"));
  bytes(files, "current\n");
  for (const char* name : {"fim_pre", "fim_suf", "fim_mid"}) files.push_back(id(name));
  EXPECT_EQ(encode_gap(t, {.files = {{"x.c", "int x;"}}}), files);
  EXPECT_THROW(encode_gap(*FakeService().tokenizer(), {}), ApiException);
}

}  // namespace
}  // namespace kvasir::serve
