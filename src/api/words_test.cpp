// Options of requests that only some faces had once: the same words in C++ and C, and the answers that they promise.
#include <gtest/gtest.h>

#include <stdexcept>

#include "kvasir/engine.hpp"
#include "kvasir/kvasir.h"

namespace kvasir {
namespace {

const std::string kWordsModel = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

Engine words_engine(Options more) {
  more.insert(more.begin(), {{"threads", 2}, {"ctx", 2048}});
  return Engine(kWordsModel, more);
}

std::string words_text(const char* what, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += what + std::to_string(i) + ", and nobody knew why. ";
  return text;
}

Options words_request(Options more = {}) {
  more.insert(more.begin(), {{"n_predict", 24}, {"temperature", 0.9}, {"seed", 7}, {"ignore_eos", true}});
  more.emplace_back("logprobs", true);
  return more;
}

void expect_same(const Reply& a, const Reply& b) {
  EXPECT_EQ(a.ids, b.ids);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (std::size_t i = 0; i < a.logprobs.size(); ++i) EXPECT_EQ(a.logprobs[i].logprob, b.logprobs[i].logprob) << i;
}

template <class F>
std::string words_refused(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

bool drafted(const Reply& r) { return r.receipt.json.find("\"drafters\"") != std::string::npos; }

TEST(Words, DraftsLeaveAnswersAsTheyAreAndRequestsChooseAmongThem) {
  const std::string prompt = words_text("The old house stood on the hill number ", 20);
  Engine plain = words_engine({});
  const Reply alone = plain.generate(prompt, words_request());
  Engine e = words_engine({{"draft", "lookup"}, {"draft", "model:" + kWordsModel}, {"draft_always", true}});
  for (const char* draft : {"true", "lookup", "model", "false"}) {
    const Reply r = e.generate(prompt, words_request({{"draft", draft}}));
    expect_same(r, alone);
    EXPECT_EQ(drafted(r), draft != std::string("false"));
    EXPECT_EQ(r.receipt.json.find("\"model\":{\"drafted\"") != std::string::npos,
              draft == std::string("true") || draft == std::string("model"));
  }
  EXPECT_EQ(words_refused([&] {
              e.generate("x", {{"draft", "mtp"}});
            }),
            "draft: unknown drafter 'mtp', expected one of: lookup, model");
  EXPECT_NE(words_refused([&] {
              plain.generate("x", {{"draft", "lookup"}});
            }).find("there are none (see --draft)"),
            std::string::npos);
  EXPECT_NE(words_refused([&] {
              words_engine({{"draft", "guess"}});
            }).find("expected one of: assistant, lookup, model, mtp"),
            std::string::npos);
}

TEST(Words, ReuseHasThreeWords) {
  // The same passage at another place of a text is only reused with "blend", and then repaired or refused in words.
  const std::string a = words_text("The old house stood on the hill number ", 50), b = words_text("A cat of age ", 9);
  Engine e = words_engine({{"reuse", "blend"}, {"blend_strategy", "first_rows"}});
  e.generate(a, words_request());
  const Reply off = e.generate(b + a, words_request({{"reuse", "off"}}));
  const Reply exact = e.generate(b + a, words_request({{"reuse", "exact"}}));
  EXPECT_EQ(off.receipt.json.find("\"blend\""), std::string::npos);
  expect_same(off, exact);
  const std::string c = words_text("It was a stormy night of ", 9);
  const Reply moved = e.generate(c + a, words_request());
  EXPECT_NE(moved.receipt.json.find("\"relocated_tokens\""), std::string::npos);
  EXPECT_NE(moved.receipt.json.find("\"refused\":null"), std::string::npos) << moved.receipt.json;
  EXPECT_LT(moved.receipt.computed_tokens, moved.prompt_tokens / 2);
  EXPECT_EQ(e.generate(c + a, words_request({{"reuse", false}})).receipt.reused_tokens, 0);
  EXPECT_EQ(words_refused([&] {
              e.generate("x", {{"reuse", "sometimes"}});
            }),
            "reuse: expected one of off, exact, blend, found 'sometimes'");
  EXPECT_NE(words_refused([&] { e.generate("x", {{"blend_ratio", 3}}); }).find("blend_ratio"), std::string::npos);
}

TEST(Words, RequestsSelectWithinTheEnginesSelector) {
  const std::string prompt = words_text("The old house stood on the hill number ", 40);
  Engine e = words_engine({{"select", "quest:budget=256:block=16"}});
  const Reply more = e.generate(prompt, words_request());
  EXPECT_NE(more.receipt.json.find("\"select\""), std::string::npos);
  const Reply all = e.generate(prompt, words_request({{"select", "all"}, {"reuse", false}}));
  Engine dense = words_engine({});
  expect_same(all, dense.generate(prompt, words_request()));
  EXPECT_NE(words_refused([&] {
              dense.generate("x", {{"select", "quest"}});
            }).find("does not suit --select all"),
            std::string::npos);
}

TEST(Words, ABatchHasTheAnswersThatEachWouldHaveAlone) {
  const std::vector<std::string> prompts{words_text("The old house stood on the hill number ", 20), "A cat", "He said",
                                         words_text("The old house stood on the hill number ", 20) + "A cat"};
  Engine e = words_engine({{"running", 3}});
  const std::vector<Reply> together = e.generate_batch(prompts, words_request());
  ASSERT_EQ(together.size(), prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i)
    expect_same(together[i], e.generate(prompts[i], words_request({{"reuse", false}})));
  EXPECT_TRUE(e.generate_batch({}).empty());
  EXPECT_NE(words_refused([&] { e.generate_batch(prompts, {{"top_p", 3}}); }).find("top_p"), std::string::npos);
}

TEST(Words, AlternativesStandBesideProbabilities) {
  Engine e = words_engine({});
  const Reply r = e.generate("A cat", {{"n_predict", 4}, {"temperature", 0}, {"logprobs", 3}});
  ASSERT_EQ(r.logprobs.size(), 4u);
  for (const TokenProbability& t : r.logprobs) {
    ASSERT_EQ(t.top.size(), 3u);
    EXPECT_EQ(t.top[0].id, t.id);  // greedy
    EXPECT_EQ(t.top[0].logprob, t.logprob);
    EXPECT_GE(t.top[1].logprob, t.top[2].logprob);
  }
  EXPECT_TRUE(e.generate("A cat", {{"n_predict", 4}, {"logprobs", true}}).logprobs.at(0).top.empty());
  EXPECT_TRUE(e.generate("A cat", {{"n_predict", 4}, {"logprobs", false}}).logprobs.empty());
}

TEST(Words, WhatIsKeptIsForgotten) {
  Engine e = words_engine({});
  const std::string prompt = words_text("The old house stood on the hill number ", 30);
  const Reply cold = e.generate(prompt, words_request());
  EXPECT_GT(e.generate(prompt, words_request()).receipt.reused_tokens, 128);
  e.reset_cache();
  const Reply again = e.generate(prompt, words_request());
  EXPECT_EQ(again.receipt.reused_tokens, 0);
  expect_same(again, cold);
  EXPECT_GT(e.generate(prompt, words_request()).receipt.reused_tokens, 128);
}

TEST(Words, DraftsAreCountedByStep) {
  Engine e = words_engine({{"draft", "model:" + kWordsModel}, {"draft_always", true}});
  EXPECT_EQ(e.stats().drafts.steps, 0u);
  EXPECT_TRUE(e.stats().drafts.histogram.empty());
  e.generate("A cat", {{"n_predict", 24}, {"temperature", 0}, {"ignore_eos", true}});
  const EngineStats::Drafts d = e.stats().drafts;
  EXPECT_GT(d.accepted, 0u);
  EXPECT_EQ(d.tokens, 23u);  // the first one is the prompt's
  std::uint64_t right = 0;
  for (std::size_t n = 0; n < d.histogram.size(); ++n) right += n * d.histogram[n];
  EXPECT_EQ(right, d.accepted);
}

TEST(Words, VectorsOfTexts) {
  Engine e = words_engine({});
  const std::vector<std::string> texts{"A cat", words_text("The old house stood on the hill number ", 9)};
  const auto vectors = e.embed(texts);
  ASSERT_EQ(vectors.size(), 2u);
  double squares = 0;
  for (const float x : vectors[0]) squares += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_EQ(e.embed(std::span(&texts[1], 1)).front(), vectors[1]);
  EXPECT_EQ(e.embed(texts, {{"dimensions", 8}}).front().size(), 8u);
  EXPECT_EQ(words_refused([&] {
              e.embed(texts, {{"pooling", "all"}});
            }),
            "--pooling: 'all', expected mean, cls or last");
  kvasir_engine* engine = nullptr;
  ASSERT_EQ(kvasir_engine_open(kWordsModel.c_str(), nullptr, nullptr, nullptr, &engine), KVASIR_OK) << kvasir_error();
  float* vector = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvasir_embed(engine, texts[0].data(), texts[0].size(), nullptr, &vector, &count), KVASIR_OK)
      << kvasir_error();
  EXPECT_EQ(std::vector<float>(vector, vector + count), vectors[0]);
  kvasir_free(vector);
  kvasir_engine_close(engine);
}

TEST(Words, CBatchesAndReset) {
  kvasir_engine* engine = nullptr;
  const char* const options[] = {"running=2", "ctx=1024", nullptr};
  ASSERT_EQ(kvasir_engine_open(kWordsModel.c_str(), options, nullptr, nullptr, &engine), KVASIR_OK) << kvasir_error();
  const char* const prompts[] = {"A cat", "He said", "The sea"};
  const std::size_t sizes[] = {5, 7, 7};
  const char* const request[] = {"n_predict=8", "temperature=0", nullptr};
  kvasir_reply* replies[3] = {};
  ASSERT_EQ(kvasir_generate_batch(engine, prompts, sizes, 3, request, replies), KVASIR_OK) << kvasir_error();
  for (int i = 0; i < 3; ++i) {
    kvasir_reply* alone = nullptr;
    ASSERT_EQ(kvasir_generate(engine, prompts[i], sizes[i], request, nullptr, nullptr, &alone), KVASIR_OK);
    EXPECT_STREQ(kvasir_reply_text(replies[i], nullptr), kvasir_reply_text(alone, nullptr));
    kvasir_reply_free(alone);
    kvasir_reply_free(replies[i]);
  }
  EXPECT_EQ(kvasir_engine_reset_cache(engine), KVASIR_OK) << kvasir_error();
  EXPECT_EQ(kvasir_engine_reset_cache(nullptr), KVASIR_BAD_INPUT);
  const char* const wrong[] = {"n_predict=many", nullptr};
  replies[0] = nullptr;
  EXPECT_EQ(kvasir_generate_batch(engine, prompts, sizes, 3, wrong, replies), KVASIR_BAD_INPUT);
  EXPECT_EQ(replies[0], nullptr);
  EXPECT_EQ(kvasir_generate_batch(engine, nullptr, sizes, 3, request, replies), KVASIR_BAD_INPUT);
  kvasir_engine_close(engine);
}

TEST(Words, RowsStandForTokens) {
  kvasir_engine* engine = nullptr;
  const char* const options[] = {"ctx=1024", nullptr};
  ASSERT_EQ(kvasir_engine_open(kWordsModel.c_str(), options, nullptr, nullptr, &engine), KVASIR_OK) << kvasir_error();
  Engine e = words_engine({});
  std::vector<std::int32_t> ids = e.tokenize(words_text("The old house stood on the hill number ", 12), true);
  ASSERT_GT(ids.size(), 100u);
  const Reply whole = e.generate(ids, words_request({{"reuse", false}}));
  const std::vector<float> values = e.rows_of(std::span(ids).subspan(10, 60));
  float* c_values = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(kvasir_rows_of(engine, ids.data() + 10, 60, &c_values, &size), KVASIR_OK) << kvasir_error();
  EXPECT_EQ(std::vector<float>(c_values, c_values + size), values);
  EXPECT_EQ(static_cast<std::int64_t>(size), 60 * e.info().width);
  std::fill_n(ids.begin() + 10, 60, -1);
  const PromptRows rows[] = {{10, values}};
  expect_same(e.generate(ids, rows, words_request()), whole);
  const kvasir_rows c_rows{10, c_values, 60};
  const char* const request[] = {"n_predict=24", "temperature=0.9", "seed=7", "ignore_eos=true", nullptr};
  kvasir_reply* reply = nullptr;
  ASSERT_EQ(kvasir_generate_rows(engine, ids.data(), ids.size(), &c_rows, 1, request, nullptr, nullptr, &reply),
            KVASIR_OK)
      << kvasir_error();
  EXPECT_EQ(kvasir_reply_text(reply, nullptr), whole.text);
  kvasir_reply_free(reply);
  kvasir_free(c_values);
  kvasir_engine_close(engine);
  ids[12] = 5;
  EXPECT_EQ(words_refused([&] { e.generate(ids, rows); }),
            "rows: at 10 stand where the prompt has tokens, expected -1");
  const PromptRows odd[] = {{10, {1, 2, 3}}};
  EXPECT_NE(words_refused([&] { e.generate(ids, odd); }).find("have 3 numbers, expected rows of"), std::string::npos);
}

TEST(Words, COptionsAreTheSame) {
  const char* const options[] = {"threads=2", "ctx=1024", "draft=lookup", "draft_always=true", nullptr};
  kvasir_engine* engine = nullptr;
  ASSERT_EQ(kvasir_engine_open(kWordsModel.c_str(), options, nullptr, nullptr, &engine), KVASIR_OK) << kvasir_error();
  const std::string prompt = words_text("The old house stood on the hill number ", 20);
  std::string texts[2];
  for (int i = 0; i < 2; ++i) {
    const char* const request[] = {"n_predict=16", "temperature=0", "reuse=exact", i ? "draft=false" : "draft=lookup",
                                   nullptr};
    kvasir_reply* reply = nullptr;
    ASSERT_EQ(kvasir_generate(engine, prompt.data(), prompt.size(), request, nullptr, nullptr, &reply), KVASIR_OK)
        << kvasir_error();
    texts[i] = kvasir_reply_text(reply, nullptr);
    EXPECT_EQ(std::string(kvasir_reply_json(reply)).find("\"drafters\"") != std::string::npos, i == 0);
    kvasir_reply_free(reply);
  }
  EXPECT_EQ(texts[0], texts[1]);
  kvasir_reply* none = nullptr;
  const char* const wrong[] = {"draft=mtp", nullptr};
  EXPECT_EQ(kvasir_generate(engine, "x", 1, wrong, nullptr, nullptr, &none), KVASIR_BAD_INPUT);
  EXPECT_STREQ(kvasir_error(), "draft: unknown drafter 'mtp', expected one of: lookup");
  kvasir_engine_close(engine);
}

}  // namespace
}  // namespace kvasir
