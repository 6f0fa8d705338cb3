#include "run/sampling_options.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "base/error.hpp"
#include "run/sampler.hpp"

namespace kvasir::run {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SamplingOptions, WhatIsOutsideItsRangeIsNamed) {
  const auto message = [](auto change) -> std::string {
    SamplingOptions o;
    change(o);
    try {
      SamplerChain chain(o, 10);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kBadInput);
      return e.what();
    }
    return "accepted";
  };
  using O = SamplingOptions;
  EXPECT_EQ(message([](O&) {}), "accepted");
  EXPECT_EQ(message([](O& o) { o.top_p = 1.5f; }), "sampling.top_p: expected a number from 0 to 1, found '1.5'");
  const auto names = [&](const char* option, auto change) {
    const std::string text = message(change);
    EXPECT_NE(text.find("sampling." + std::string(option) + ": "), std::string::npos) << text;
  };
  names("temperature", [](O& o) { o.temperature = kNan; });
  names("temperature", [](O& o) { o.temperature = -1; });
  names("temperature", [](O& o) { o.temperature = kInf; });
  names("top_k", [](O& o) { o.top_k = -1; });
  names("top_p", [](O& o) { o.top_p = kNan; });
  names("min_p", [](O& o) { o.min_p = -0.5f; });
  names("repetition_penalty", [](O& o) { o.repetition_penalty = 0; });
  names("presence_penalty", [](O& o) { o.presence_penalty = kNan; });
  names("frequency_penalty", [](O& o) { o.frequency_penalty = 1e9f; });
  names("penalty_last_n", [](O& o) { o.penalty_last_n = -2; });
  names("seed", [](O& o) { o.seed = -2; });
  EXPECT_NE(message([](O& o) { o.logit_bias[10] = 1; }).find("logit_bias: token id 10"), std::string::npos);
  EXPECT_NE(message([](O& o) { o.logit_bias[3] = kInf; }).find("logit_bias: inf for token 3"), std::string::npos);
  EXPECT_NE(message([](O& o) { o.logit_bias[3] = kNan; }).find("logit_bias: nan for token 3"), std::string::npos);
}

TEST(SamplingOptions, LogitBiasFromText) {
  SamplingOptions o;
  add_logit_bias(o, "42=-1.5");
  add_logit_bias(o, "7=-inf");
  add_logit_bias(o, "42=2");
  EXPECT_EQ(o.logit_bias, (std::map<std::int32_t, float>{{7, -kInf}, {42, 2.0f}}));
  for (const char* bad : {"", "1", "=", "1=", "=1", "a=1", "1=x", "1=2 ", "99999999999=1", "1=1e99"}) {
    try {
      add_logit_bias(o, bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kBadInput);
      EXPECT_EQ(e.context(), "logit_bias");
    }
  }
}

}  // namespace
}  // namespace kvasir::run
