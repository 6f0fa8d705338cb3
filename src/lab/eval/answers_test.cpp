#include "lab/eval/answers.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "run/engine.hpp"
#include "simd/bf16_products.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::lab::eval {
namespace {

std::vector<std::vector<std::int32_t>> prompts_of(const Subject& subject) {
  const std::string text = read_text_file(fixture::text_path());
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::size_t length : {40u, 1500u})
    prompts.push_back(subject.tokenizer().encode(text.substr(0, length), {.add_bos = true}));
  return prompts;
}

TEST(Answers, TheBaselineSaysWhatTheEngineSays) {
  constexpr int kMost = 12;
  // A subject multiplies no weights as bf16, an engine does where that is faster.
  const simd::KeepIsa keep;
  if (const auto isa = simd::active(); simd::multiplies_bf16(isa)) simd::force(simd::kIsas[static_cast<int>(isa) - 1]);
  Subject subject(fixture::options("f16,rq2", 600), {});
  const auto prompts = prompts_of(subject);
  subject.load({});
  const AnswersReport report = measure_answers(subject, prompts, {&kMost, 1}, [](std::int64_t, std::int64_t) {});
  ASSERT_EQ(report.rows.size(), 3u);

  run::EngineOptions options;
  options.model = fixture::options("", 600).model;
  options.ctx = 600;
  options.kv = "f32";
  options.threads = 2;
  run::Engine engine(options, {});
  std::int64_t tokens = 0;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    kv::Sequence* s = engine.cache().create();
    std::span<const float> next = engine.feed(s, prompts[p]);
    std::vector<std::int32_t> ids;
    while (static_cast<int>(ids.size()) < kMost) {
      const auto id = static_cast<std::int32_t>(std::max_element(next.begin(), next.end()) - next.begin());
      if (engine.tokenizer()->is_eog(id)) break;
      ids.push_back(id);
      next = engine.decode(s, id);
    }
    engine.cache().release(s);
    const AnswerOf& a = report.rows[0].answers[p];
    EXPECT_EQ(a.ids, ids);
    EXPECT_EQ(a.text, engine.tokenizer()->decode(ids));
    EXPECT_TRUE(a.equal);
    EXPECT_EQ(a.same, static_cast<std::int64_t>(ids.size()));
    tokens += a.same;
  }
  EXPECT_EQ(report.tokens, tokens);
  EXPECT_EQ(report.rows[0].equal, 2);
  // A prompt within the window is answered alike by every codec: nothing is sealed.
  EXPECT_TRUE(report.rows[2].answers[0].equal);
  for (const AnswersRow& row : report.rows)
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      const AnswerOf& a = row.answers[p];
      const AnswerOf& reference = report.rows[0].answers[p];
      for (std::int64_t i = 0; i < a.same; ++i)
        EXPECT_EQ(a.ids[static_cast<std::size_t>(i)], reference.ids[static_cast<std::size_t>(i)]);
      EXPECT_EQ(a.equal, a.ids == reference.ids);
    }
}

TEST(Answers, StopsWhenAsked) {
  Subject subject(fixture::options("f16", 600), {});
  const auto prompts = prompts_of(subject);
  subject.load({});
  int calls = 0;
  const auto stop = [&](std::int64_t, std::int64_t) {
    if (++calls == 4) throw Error(Code::kCancelled, "stopped");
  };
  const int most = 12;
  EXPECT_THROW(measure_answers(subject, prompts, {&most, 1}, stop), Error);
  EXPECT_EQ(calls, 4);
  subject.baseline().cache->check_integrity();
}

}  // namespace
}  // namespace kvasir::lab::eval
