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
            }).find("expected one of: lookup, model, mtp"),
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
