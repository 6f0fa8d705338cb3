#include "lab/eval/ppl.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "run/engine.hpp"

namespace kvasir::lab::eval {
namespace {

void nothing(std::int64_t, std::int64_t) {}

PplReport measure(const SubjectOptions& options, std::int64_t windows, bool decode = false) {
  Subject subject(options, {});
  const auto ids = ppl_tokens(subject.tokenizer(), read_text_file(fixture::text_path()));
  subject.load({});
  return measure_ppl(subject, ids, windows, {.decode = decode}, nothing);
}

std::string error_of(const SubjectOptions& options) {
  try {
    Subject subject(options, {});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Ppl, IsThatOfTheDefinition) {
  // The definition once more, with an engine of its own and libm on single rows.
  constexpr int kCtx = 160, kWindows = 2;
  const PplReport report = measure(fixture::options("f32", kCtx), kWindows);
  run::EngineOptions options;
  options.model = fixture::options("", kCtx).model;
  options.ctx = kCtx;
  options.kv = "f32";
  options.exact = true;  // F16 weights are computed in float32, as everywhere here
  options.chunk = kCtx;
  run::Engine engine(options, {.logits = kCtx});
  const auto ids = engine.tokenizer()->encode(read_text_file(fixture::text_path()), {.add_bos = true});
  const auto vocab = static_cast<std::size_t>(engine.model().spec().vocab);
  double nll = 0;
  int scored = 0;
  for (int w = 0; w < kWindows; ++w) {
    std::vector<std::int32_t> window(ids.begin() + w * kCtx, ids.begin() + (w + 1) * kCtx);
    window[0] = engine.tokenizer()->bos();
    kv::Sequence* s = engine.cache().create();
    const auto logits = engine.feed(s, window, kCtx);
    for (std::size_t p = kCtx / 2; p + 1 < kCtx; ++p) {
      double sum = 0;
      for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[p * vocab + i]));
      nll += std::log(sum) - logits[p * vocab + static_cast<std::size_t>(window[p + 1])];
      ++scored;
    }
    engine.cache().release(s);
  }
  EXPECT_EQ(report.scored, scored);
  EXPECT_EQ(report.scored, kWindows * (kCtx - 1 - kCtx / 2));
  EXPECT_TRUE(report.bos);
  EXPECT_NEAR(report.baseline_ppl, std::exp(nll / scored), 1e-6 * report.baseline_ppl);
}

// Beside dequantised floats: what an arithmetic costs, and nothing where it is that of the floats.
TEST(Ppl, AnArithmeticIsComparedWithFloats) {
  const auto divergence = [](const std::string& arithmetic) {
    SubjectOptions options = fixture::options("f32", 256);
    options.arithmetic = arithmetic;
    options.against_exact = true;
    const PplReport report = measure(options, 1);
    EXPECT_EQ(report.rows.size(), 1u);
    return report.rows.at(0).kl_mean;
  };
  EXPECT_LT(divergence("int8"), 1e-9);  // F16 weights are multiplied in float32
  EXPECT_GT(divergence("bf16"), 1e-7);
  EXPECT_LT(divergence("bf16"), 1e-2);
  EXPECT_THROW(divergence("exact"), Error);
}

TEST(Ppl, Float32IsExactlyItselfAndHalfIsNot) {
  SubjectOptions options = fixture::options("f32,f16,f32/bf16", 512);
  options.window = 0;
  options.sinks = 0;
  const PplReport report = measure(options, 1);
  ASSERT_EQ(report.rows.size(), 3u);
  const PplRow &f32 = report.rows[0], &f16 = report.rows[1], &mixed = report.rows[2];
  EXPECT_EQ(f32.kl_mean, 0);
  EXPECT_EQ(f32.kl_p99, 0);
  EXPECT_EQ(f32.nll_difference, 0);
  EXPECT_EQ(f32.nll_difference_error, 0);
  EXPECT_EQ(f32.top1, 1);
  EXPECT_EQ(f32.ppl, report.baseline_ppl);
  EXPECT_GT(f16.kl_mean, 0);
  EXPECT_LT(f16.kl_mean, 1e-6);
  EXPECT_GE(f16.kl_p99, f16.kl_mean);
  EXPECT_LT(f16.kl_p99, 1e-5);
  EXPECT_GT(f16.nll_difference_error, 0);
  EXPECT_LT(std::abs(f16.ppl_change()), 1e-3);
  EXPECT_GT(f16.top1, 0.98);
  // bf16 has 3 bits less: about 64 times the divergence, in values alone still several times
  EXPECT_GT(mixed.kl_mean, 3 * f16.kl_mean);
  // 4 layers, 2 heads of 64, 2 or 4 bytes
  EXPECT_EQ(f16.cost.bits_k, 16);
  EXPECT_EQ(f16.cost.bytes_per_token, 4 * 2 * 2 * 64 * 2);
  EXPECT_EQ(mixed.cost.bits_k, 32);
  EXPECT_EQ(mixed.cost.bits_v, 16);
  EXPECT_EQ(mixed.cost.bytes_per_token, 1.5 * f16.cost.bytes_per_token);
  EXPECT_EQ(mixed.cost.f16_bytes_per_token, f16.cost.bytes_per_token);
  // Queries in pages 2 and 3 see whole pages before their own sealed.
  double sealed = 0, seen = 0;
  for (int p = 256; p < 511; ++p) sealed += p / 128 * 128, seen += p + 1;
  EXPECT_DOUBLE_EQ(report.sealed_share, sealed / seen);
}

TEST(Ppl, GeneratedTokensScoreAsPromptsDoWithLosslessCodecs) {
  const PplReport prompt = measure(fixture::options("f16", 200), 1),
                  decode = measure(fixture::options("f16", 200), 1, true);
  EXPECT_EQ(prompt.rows[0].nll, decode.rows[0].nll);
  EXPECT_EQ(prompt.rows[0].kl_mean, decode.rows[0].kl_mean);
}

TEST(Ppl, ErrorsComeBeforeTheWork) {
  EXPECT_NE(error_of(fixture::options("f16,nonsense", 64)).find("--kv: 'nonsense': unknown codec"), std::string::npos);
  EXPECT_NE(error_of(fixture::options("f16,", 64)).find("separated by commas"), std::string::npos);
  EXPECT_NE(error_of(fixture::options("f16,bf16,f16", 64)).find("names 'f16' twice"), std::string::npos);
  EXPECT_NE(error_of(fixture::options("f16", 8192)).find("--ctx: is 8192, expected at most the model's context, 4096"),
            std::string::npos);
  EXPECT_EQ(count_windows(1000, 512, 0, "t"), 1);
  EXPECT_EQ(count_windows(5000, 512, 1030, "t"), 2);
  try {
    count_windows(300, 512, 0, "short.txt");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "short.txt: has 300 tokens; one window of --ctx needs 512");
  }
  EXPECT_THROW(count_windows(5000, 512, 511, "t"), Error);
}

// The parts of a window together are its mean, and the later ones are what is scored without a curve.
TEST(Ppl, ACurveIsOfAllOfAWindow) {
  constexpr int kCtx = 160, kWindows = 2;
  Subject subject(fixture::options("f32", kCtx), {});
  const auto ids = ppl_tokens(subject.tokenizer(), read_text_file(fixture::text_path()));
  subject.load({});
  const PplReport report = measure_ppl(subject, ids, kWindows, {.curve = true}, nothing);
  const PplReport half = measure_ppl(subject, ids, kWindows, {}, nothing);
  EXPECT_TRUE(half.places.empty());
  EXPECT_EQ(report.scored, kWindows * (kCtx - 1));
  ASSERT_EQ(report.places.size(), static_cast<std::size_t>(kCurveParts));
  EXPECT_EQ(report.places.front(), 10);
  EXPECT_EQ(report.places.back(), kCtx);
  const PplRow& row = report.rows[0];
  EXPECT_EQ(row.curve, report.baseline_curve);  // f32 against itself
  double all = 0, second = 0;
  for (std::size_t i = 0; i < row.curve.size(); ++i) {
    const double tokens = i + 1 < row.curve.size() ? 10 : 9;  // the last one has nothing behind it
    all += tokens * row.curve[i];
    if (i >= row.curve.size() / 2) second += tokens * row.curve[i];
  }
  EXPECT_NEAR(all / (kCtx - 1), row.nll, 1e-9);
  EXPECT_NEAR(second / (kCtx / 2 - 1), half.rows[0].nll, 1e-9);
}

TEST(Ppl, StopsWhenAsked) {
  Subject subject(fixture::options("f16", 64), {});
  const auto ids = ppl_tokens(subject.tokenizer(), read_text_file(fixture::text_path()));
  subject.load({});
  int calls = 0;
  EXPECT_THROW(measure_ppl(subject, ids, 4, {},
                           [&](std::int64_t, std::int64_t) {
                             if (++calls == 5) throw Error(Code::kCancelled, "stopped");
                           }),
               Error);
  EXPECT_EQ(calls, 5);
  subject.baseline().cache->check_integrity();
}

TEST(Ppl, ListsMayUseSemicolonsForNamesWithCommas) {
  EXPECT_EQ(split_kv("a,b/c"), (std::vector<std::string>{"a", "b/c"}));
  EXPECT_EQ(split_kv("a:32,unbiased;b"), (std::vector<std::string>{"a:32,unbiased", "b"}));
}

}  // namespace
}  // namespace kvasir::lab::eval
