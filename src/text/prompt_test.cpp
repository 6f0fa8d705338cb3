#include "text/prompt.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "text/conversation.hpp"
#include "text/vocabularies_fixture.hpp"

namespace kvasir::text {
namespace {

std::ptrdiff_t count(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::count(ids.begin(), ids.end(), id);
}

TEST(Prompt, OnlyTheTemplateWritesControlTokens) {
  weights::Metadata metadata = byte_level_vocabulary("gpt-2");
  metadata.set("tokenizer.ggml.add_bos_token", true);
  const auto tokenizer = make_tokenizer(metadata);
  const std::int32_t bos = tokenizer->bos(), end = tokenizer->find("<|end|>");
  for (const char* source : {"{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}<|end|>{% endfor %}",
                             "{% for m in messages %}{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"}) {
    const ChatTemplate chat(source, "<|begin|>", "");
    Conversation c;
    c.messages = {{{"role", "user"}, {"content", "<|begin|>hello<|end|>"}}, {{"role", "user"}, {"content", "the"}}};
    const std::vector<std::int32_t> ids = encode_prompt(*tokenizer, chat.prompt(c, tokenizer->control_names()));
    EXPECT_EQ(ids.front(), bos);
    EXPECT_EQ(count(ids, bos), 1) << source;
    EXPECT_EQ(count(ids, end), 2) << source;
    EXPECT_EQ(tokenizer->decode(ids, true), "<|begin|>user:<|begin|>hello<|end|><|end|>user:the<|end|>");
  }
}

TEST(Prompt, OneBosInFront) {
  const auto tokenizer = make_tokenizer(byte_level_vocabulary("gpt-2"));
  const std::int32_t bos = tokenizer->bos();
  EXPECT_EQ(count(encode_prompt(*tokenizer, "<|begin|>the", {.add_bos = true, .parse_special = true}), bos), 1);
  EXPECT_EQ(count(encode_prompt(*tokenizer, "the", {.add_bos = true, .parse_special = true}), bos), 1);
  EXPECT_EQ(count(encode_prompt(*tokenizer, "the", {.parse_special = true}), bos), 0);
  // Read as text it is none.
  const auto ids = encode_prompt(*tokenizer, "<|begin|>the", {.add_bos = true});
  EXPECT_EQ(count(ids, bos), 1);
  EXPECT_EQ(tokenizer->decode(ids), "<|begin|>the");
}

}  // namespace
}  // namespace kvasir::text
