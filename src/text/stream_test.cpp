#include "text/stream.hpp"

#include <gtest/gtest.h>

#include <random>

#include "text/vocabularies_fixture.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

const std::string kReplacement = "\xef\xbf\xbd";

TEST(TextStream, HoldsIncompleteCharactersBack) {
  const auto t = make_tokenizer(byte_level_vocabulary("gpt-2"));
  TextStream stream(*t);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xe2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.pending(), 2u);
  EXPECT_EQ(stream.push(0xac), "\xe2\x82\xac");
  EXPECT_EQ(stream.push(0xf0), "");
  EXPECT_EQ(stream.push('b'), kReplacement + "b");  // the character can no longer come
  EXPECT_EQ(stream.push(0xff), kReplacement);
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.flush(), kReplacement);
  EXPECT_EQ(stream.flush(), "");
}

TEST(TextStream, LeadingSpaceDependsOnWhatStandsBefore) {
  const auto t = make_tokenizer(sentencepiece_vocabulary());
  const auto hello = t->find(" hello");
  EXPECT_EQ(TextStream(*t).push(hello), "hello");
  EXPECT_EQ(TextStream(*t, t->bos()).push(hello), "hello");
  EXPECT_EQ(TextStream(*t, hello).push(hello), " hello");
  EXPECT_EQ(TextStream(*t, t->find("<tag>")).push(hello), "hello");
}

TEST(TextStream, ControlTokensShowOnlyOnRequest) {
  const auto t = make_tokenizer(byte_level_vocabulary("gpt-2"));
  EXPECT_EQ(TextStream(*t).push(t->eos()), "");
  EXPECT_EQ(TextStream(*t, -1, true).push(t->eos()), "<|endoftext|>");
  EXPECT_EQ(TextStream(*t).push(t->find("<tag>")), "<tag>");
  EXPECT_EQ(TextStream(*t).push(t->size()), "");
}

TEST(TextStream, IsDecodeWithIllFormedBytesReplaced) {
  std::mt19937 random(5);
  for (const auto& metadata : {byte_level_vocabulary("qwen2"), sentencepiece_vocabulary()}) {
    const auto t = make_tokenizer(metadata);
    for (int round = 0; round < 2000; ++round) {
      std::vector<std::int32_t> ids(random() % 12);
      for (auto& id : ids) {
        // Mostly bytes above 0x7f, so that many sequences are nearly characters.
        id = random() % 4 == 0 ? static_cast<std::int32_t>(random() % static_cast<unsigned>(t->size()))
                               : static_cast<std::int32_t>(0x80 + random() % 0x80);
      }
      TextStream stream(*t);
      std::string text;
      for (const auto id : ids) {
        const auto part = stream.push(id);
        ASSERT_EQ(unicode::to_valid_utf8(part), part);
        ASSERT_LE(stream.pending(), 3u);
        text += part;
      }
      text += stream.flush();
      ASSERT_EQ(text, unicode::to_valid_utf8(t->decode(ids)));
    }
  }
}

}  // namespace
}  // namespace kvasir::text
