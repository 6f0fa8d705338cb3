// SentencePiece Unigram: the best of all ways to cut a text, and what is done to the text before.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "text/charsmap.hpp"
#include "text/tokenizer.hpp"
#include "text/vocabularies_fixture.hpp"

namespace kvasir::text {
namespace unigram_test {

using Ids = std::vector<std::int32_t>;
using Pieces = std::vector<std::string>;

Pieces pieces(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  Pieces out;
  for (const auto id : t.encode(text, options)) out.emplace_back(t.piece(id));
  return out;
}

TEST(Unigram, TakesTheBestSum) {
  const auto t = make_tokenizer(unigram_vocabulary());
  EXPECT_EQ(pieces(*t, "the"), (Pieces{" the"}));
  EXPECT_EQ(pieces(*t, "hello"), (Pieces{" h", "ello"}));
  EXPECT_EQ(pieces(*t, "aaaaa"), (Pieces{" ", "a", "aaaa"}));
  EXPECT_EQ(t->decode(t->encode("hello the")), "hello the");
}

// Scores of every way to cut `text`, by trying all of them; unknown characters cost 10 more than the worst score.
double best_score(const weights::Metadata& m, const std::string& text) {
  std::map<std::string, double> score;
  double worst = 0;
  for (std::size_t i = 3; i < m.get_strings("tokenizer.ggml.tokens")->size(); ++i) {
    if ((*m.get_ints("tokenizer.ggml.token_type"))[i] != 1) continue;
    std::string piece = (*m.get_strings("tokenizer.ggml.tokens"))[i];
    if (piece.starts_with("\xe2\x96\x81")) piece.replace(0, 3, " ");
    score[piece] = static_cast<double>(static_cast<float>((*m.get_floats("tokenizer.ggml.scores"))[i]));
    worst = std::min(worst, score[piece]);
  }
  std::vector<double> best(text.size() + 1, -std::numeric_limits<double>::infinity());
  best[text.size()] = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    const auto c = unicode::decode_char(std::string_view(text).substr(i));
    if (!score.contains(text.substr(i, c.size))) best[i] = worst - 10 + best[i + c.size];
    for (std::size_t n = 1; i + n <= text.size(); ++n)
      if (const auto at = score.find(text.substr(i, n)); at != score.end())
        best[i] = std::max(best[i], at->second + best[i + n]);
  }
  return best[0];
}

TEST(Unigram, NoOtherWayIsBetter) {
  const auto m = unigram_vocabulary();
  const auto t = make_tokenizer(m);
  const auto& scores = *m.get_floats("tokenizer.ggml.scores");
  std::mt19937 random(4);
  const Pieces atoms = {"a", "aa", "the", "he", "l", "lo", "o", " ", "w", "orl", "d", "z", "\xc3\xbc"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += atoms[random() % atoms.size()];
    double sum = 0, worst = -7.3;
    for (const auto id : t->encode(text))
      sum += id == 0 ? static_cast<double>(static_cast<float>(worst)) - 10
                     : static_cast<double>(static_cast<float>(scores[static_cast<std::size_t>(id)]));
    std::string normal;  // spaces joined, none at the ends
    for (const char c : text)
      if (c != ' ' || (!normal.empty() && normal.back() != ' ')) normal += c;
    if (!normal.empty() && normal.back() == ' ') normal.pop_back();
    if (normal.find("zz") != std::string::npos) continue;  // unknown characters side by side are one token
    if (!normal.empty()) normal.insert(0, " ");
    ASSERT_NEAR(sum, normal.empty() ? 0 : best_score(m, normal), 1e-9) << text;
    ASSERT_EQ(t->decode(t->encode(text)).find("  "), std::string::npos);
  }
}

TEST(Unigram, SpacesAreJoinedOrKept) {
  auto m = unigram_vocabulary();
  EXPECT_EQ(pieces(*make_tokenizer(m), "  the   the "), (Pieces{" the", " the"}));
  EXPECT_EQ(pieces(*make_tokenizer(m), "   "), Pieces{});
  EXPECT_EQ(pieces(*make_tokenizer(m), " the", {.behind_text = true}), (Pieces{" the"}));
  EXPECT_EQ(pieces(*make_tokenizer(m), "the", {.behind_text = true}), (Pieces{"the"}));
  EXPECT_EQ(pieces(*make_tokenizer(m), "the\xe2\x96\x81the"), (Pieces{" the", " the"}));
  m.set("tokenizer.ggml.remove_extra_whitespaces", false);
  EXPECT_EQ(pieces(*make_tokenizer(m), " the "), (Pieces{" ", " the", " "}));
  m.set("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(pieces(*make_tokenizer(m), "the"), (Pieces{"the"}));
}

TEST(Unigram, UnknownCharactersAreOneTokenOrBytes) {
  const auto t = make_tokenizer(unigram_vocabulary());
  EXPECT_EQ(t->encode("zz\xff"), (Ids{t->find(" "), 0}));
  EXPECT_EQ(t->encode("zaz"), (Ids{t->find(" "), 0, t->find("a"), 0}));
  const auto bytes = make_tokenizer(unigram_vocabulary(true));
  EXPECT_EQ(pieces(*bytes, "z\xff"), (Pieces{" ", "z", "\xff"}));
  EXPECT_EQ(bytes->decode(bytes->encode("\xf0\x9f\x98\x81 \xff")), "\xf0\x9f\x98\x81 \xff");
}

TEST(Unigram, EosStandsBehindAndTagsStayWhole) {
  const auto t = make_tokenizer(unigram_vocabulary());
  EXPECT_TRUE(t->add_eos());
  EXPECT_FALSE(t->add_bos());
  EXPECT_EQ(pieces(*t, "the<tag>the", {.add_eos = true}), (Pieces{" the", "<tag>", " the", "</s>"}));
}

TEST(Unigram, ReplacesWhatTheTableSays) {
  auto m = unigram_vocabulary();
  m.set("tokenizer.ggml.precompiled_charsmap",
        charsmap_bytes({{"A", "a"}, {"T", "t"}, {"TH", "th"}, {"\t", " "}, {"\xe2\x80\x8b", ""}}));
  const auto t = make_tokenizer(m);
  EXPECT_EQ(pieces(*t,
                   "THe\tA\xe2\x80\x8b"
                   "A"),
            (Pieces{" the", " ", "aa"}));
  EXPECT_EQ(pieces(*t, "\t\xe2\x80\x8b"), Pieces{});
}

TEST(Unigram, LongTextsTakeLinearTime) {
  const auto t = make_tokenizer(unigram_vocabulary());
  for (const std::string unit : {"a", "z", "hello", " ", "<tag", "\xff", "\xc3\xbc"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    const double start = thread_cpu_seconds();
    t->encode(text);
    EXPECT_LT(thread_cpu_seconds() - start, 2.0) << unit;
  }
}

TEST(Charsmap, FindsTheLongestBeginning) {
  const Charsmap map(charsmap_bytes({{"a", "1"}, {"abc", "2"}, {"\xc3\xa4", "ae"}, {"x", ""}}), "test");
  EXPECT_EQ(map.find("abx").size, 1u);
  EXPECT_EQ(map.find("abx").text, "1");
  EXPECT_EQ(map.find("abcd").size, 3u);
  EXPECT_EQ(map.find("abcd").text, "2");
  EXPECT_EQ(map.find("\xc3\xa4").text, "ae");
  EXPECT_EQ(map.find("x").size, 1u);
  EXPECT_EQ(map.find("x").text, "");
  EXPECT_EQ(map.find("b").size, 0u);
  EXPECT_EQ(map.find(std::string_view("\0", 1)).size, 0u);
  EXPECT_EQ(map.find("").size, 0u);
  EXPECT_EQ(Charsmap().find("a").size, 0u);
}

TEST(Charsmap, BrokenTablesAreRefusedOrBounded) {
  auto bytes = charsmap_bytes({{"a", "1"}, {"abc", "2"}});
  const auto refused = [](std::vector<std::int64_t> table, const char* says) {
    try {
      const Charsmap map(table, "file: key");
      ADD_FAILURE() << says;
    } catch (const Error& e) {
      EXPECT_NE(e.message().find(says), std::string::npos) << e.message();
      EXPECT_EQ(e.context(), "file: key");
    }
  };
  refused({1, 2, 3}, "at least 4");
  refused({8, 0, 0, 0, 1, 2, 3, 4}, "at most 4");
  refused({3, 0, 0, 0, 1, 2, 3}, "multiple of 4");
  auto open = bytes;
  open.back() = 'x';
  refused(open, "expected a 0");
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    auto broken = bytes;
    for (int i = 0; i < 4; ++i) broken[4 + random() % (broken.size() - 6)] = random() % 256;
    const Charsmap map(broken, "");
    for (const char* text : {"a", "abc", "abcabc", "zz"}) EXPECT_LE(map.find(text).size, 6u);
  }
}

}  // namespace unigram_test
}  // namespace kvasir::text
