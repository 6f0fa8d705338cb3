#include "run/constraint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/splitmix.hpp"
#include "text/json_schema.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run {
namespace {

using Json = nlohmann::ordered_json;
using text::Matcher;

class Constraints : public ::testing::Test {
 protected:
  Constraints()
      : file_(weights::open_model_file(std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf")),
        tokenizer_(text::make_tokenizer(file_->metadata())),
        order_(std::make_shared<TokenOrder>(*tokenizer_)),
        vocabulary_(tokenizer_->size() + 3) {}  // as where a model's matrix has more rows

  // Tokens that are not masked.
  std::vector<std::int32_t> allowed(Constraint& c) const {
    std::vector<float> logits(static_cast<std::size_t>(vocabulary_), 1.0f);
    c.mask(logits);
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < vocabulary_; ++id) {
      const float x = logits[static_cast<std::size_t>(id)];
      EXPECT_TRUE(x == 1.0f || x == -INFINITY);
      if (x == 1.0f) ids.push_back(id);
    }
    return ids;
  }
  // The same, token by token.
  std::vector<std::int32_t> allowed_one_by_one(Matcher& m, Matcher::State state) const {
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < tokenizer_->size(); ++id) {
      if (tokenizer_->is_eog(id)) {
        if (m.accepts(state)) ids.push_back(id);
        continue;
      }
      if (tokenizer_->is_control(id) || tokenizer_->piece(id).empty()) continue;
      Matcher::State to = state;
      for (const char c : tokenizer_->piece(id)) {
        to = m.next(to, static_cast<std::uint8_t>(c));
        if (to == Matcher::kDead) break;
      }
      if (to != Matcher::kDead) ids.push_back(id);
    }
    return ids;
  }

  std::unique_ptr<weights::ModelFile> file_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::shared_ptr<const TokenOrder> order_;
  std::int32_t vocabulary_;
};

TEST_F(Constraints, AllowWhatTheGrammarDoes) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 30},
      "n": {"type": "integer"}, "any": true}, "required": ["name", "any"]})");
  const auto grammar = text::grammar_of_schema(schema, text::Unknown::kRefuse);
  std::uint64_t seed = 3;
  int ended = 0;
  for (int run = 0; run < 20; ++run) {
    Constraint c(grammar, order_, vocabulary_);
    Matcher m(grammar);
    Matcher::State state = m.start();
    for (int step = 0; step < 60 && !c.over(); ++step) {
      const std::vector<std::int32_t> ids = allowed(c);
      ASSERT_EQ(ids, allowed_one_by_one(m, state));
      ASSERT_FALSE(ids.empty());
      const std::int32_t id = ids[splitmix64(seed) % ids.size()];
      if (tokenizer_->is_eog(id)) break;
      c.accept(tokenizer_->piece(id));
      for (const char b : tokenizer_->piece(id)) state = m.next(state, static_cast<std::uint8_t>(b));
      EXPECT_EQ(c.over(), m.ends(state));
    }
    ended += c.over();
  }
  EXPECT_GT(ended, 0);
}

// So many states that all are forgotten but the one that counts, again and again: every character of the strings has
// its own.
TEST_F(Constraints, LongAnswersDoNotGrow) {
  constexpr int kLength = 20000;
  const auto grammar = text::grammar_of_schema(
      Json{{"items", {{"type", "string"}, {"minLength", kLength}, {"maxLength", kLength}}}}, text::Unknown::kRefuse);
  Constraint c(grammar, order_, vocabulary_);
  int forgotten = 0;
  std::size_t before = c.states(), most = 0;
  const auto accept = [&](const char* bytes) {  // true: that forgot states
    c.accept(bytes);
    const bool fewer = c.states() < before;
    forgotten += fewer;
    before = c.states();
    most = std::max(most, before);
    return fewer;
  };
  const auto may_quote = [&] {
    const std::vector<std::int32_t> ids = allowed(c);
    EXPECT_FALSE(ids.empty());
    return std::any_of(ids.begin(), ids.end(), [&](std::int32_t id) { return tokenizer_->piece(id)[0] == '"'; });
  };
  accept("[");
  EXPECT_TRUE(may_quote());  // a string may begin: a mask that a state of the same number must not get later
  for (int item = 0; item < 2; ++item) {
    accept(item == 0 ? "\"" : ", \"");
    for (int i = 0; i < kLength - 1; ++i) {
      const bool forgot = accept("\xc3\xa9");
      if (!forgot && i < kLength - 2) continue;
      ASSERT_FALSE(may_quote()) << item << ' ' << i;
    }
    accept("\xc3\xa9");
    const std::vector<std::int32_t> ids = allowed(c);
    ASSERT_FALSE(ids.empty());
    for (const std::int32_t id : ids) ASSERT_EQ(tokenizer_->piece(id)[0], '"') << tokenizer_->piece(id);
    accept("\"");
  }
  EXPECT_LE(most, Constraint::kMostStates);
  EXPECT_GE(forgotten, 2 * kLength * 2 / static_cast<int>(Constraint::kMostStates));
  EXPECT_FALSE(c.over());
  accept("]");
  EXPECT_TRUE(c.over());
}

// Grammars that cost much: fewer tokens are looked at, those of one byte all the same.
TEST_F(Constraints, CostlyGrammarsGetShorterTokens) {
  Json schema;
  for (int i = 0; i < 40; ++i)
    schema["anyOf"].push_back({{"type", "string"}, {"minLength", i}, {"maxLength", 500 + i}});
  const auto grammar = text::grammar_of_schema(schema, text::Unknown::kRefuse);
  Constraint c(grammar, order_, vocabulary_);
  Matcher m(grammar);
  c.accept("\"");
  const Matcher::State state = m.next(m.start(), '"');
  const std::vector<std::int32_t> some = allowed(c), all = allowed_one_by_one(m, state);
  EXPECT_LT(some.size(), all.size());
  EXPECT_TRUE(std::includes(all.begin(), all.end(), some.begin(), some.end()));
  for (const std::int32_t id : all)
    if (!tokenizer_->is_eog(id) && tokenizer_->piece(id).size() == 1) {
      EXPECT_TRUE(std::binary_search(some.begin(), some.end(), id)) << tokenizer_->piece(id);
    }
}

// Where the text may end, tokens that end texts are allowed besides those that go on; nothing else ever is.
TEST_F(Constraints, TheEndIsAllowedWhereTheTextMayEnd) {
  Constraint c(text::grammar_of_schema(Json::parse(R"({"type": "integer"})"), text::Unknown::kRefuse), order_,
               vocabulary_);
  const auto count_ends = [&] {
    std::size_t n = 0;
    for (const std::int32_t id : allowed(c)) n += tokenizer_->is_eog(id);
    return n;
  };
  EXPECT_EQ(count_ends(), 0u);
  c.accept("-");
  EXPECT_EQ(count_ends(), 0u);
  c.accept("1");
  EXPECT_EQ(count_ends(), order_->ends().size());
  EXPECT_GT(order_->ends().size(), 0u);
  EXPECT_FALSE(c.over());
  c.accept("00000000000000000");
  EXPECT_TRUE(c.over());
  EXPECT_EQ(allowed(c).size(), order_->ends().size());
}

}  // namespace
}  // namespace kvasir::run
