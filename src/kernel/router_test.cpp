// The choice of experts against its definition, written plainly in double.
#include "kernel/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace kvasir::kernel {
namespace {

struct Choice {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Choice route(const Routing& rule, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  Choice c{std::vector<std::int32_t>(static_cast<std::size_t>(rule.used), -1),
           std::vector<float>(static_cast<std::size_t>(rule.used))};
  kernel::route(rule, logits.data(), bias.empty() ? nullptr : bias.data(), c.experts.data(), c.weights.data());
  return c;
}

std::vector<double> gated(Gating gating, const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) {
    const auto v = static_cast<double>(x);
    p.push_back(gating == Gating::kSigmoid ? 1 / (1 + std::exp(-v)) : std::exp(v));
    sum += p.back();
  }
  if (gating == Gating::kSoftmax)
    for (double& v : p) v /= sum;
  return p;
}

TEST(Router, ChoosesTheGreatestAndGivesTheirWeights) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  for (const Gating gating : {Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxOfChosen})
    for (const auto& [count, used] : {std::pair{1, 1}, {4, 4}, {8, 2}, {128, 8}, {300, 64}})
      for (const bool normalise : {false, true})
        for (const bool biased : {false, true}) {
          std::vector<float> logits(static_cast<std::size_t>(count)), bias;
          for (float& x : logits) x = normal(random);
          if (biased)
            for (int i = 0; i < count; ++i) bias.push_back(0.1f * normal(random));
          const Routing rule{count, used, gating, normalise, 2.5f};
          const Choice c = route(rule, logits, bias);

          const std::vector<double> p = gated(gating, logits);
          std::vector<std::int32_t> order(logits.size());
          std::iota(order.begin(), order.end(), 0);
          const auto rank = [&](std::int32_t e) {
            const auto i = static_cast<std::size_t>(e);
            const double score = gating == Gating::kSoftmaxOfChosen ? static_cast<double>(logits[i]) : p[i];
            return score + (biased ? static_cast<double>(bias[i]) : 0.0);
          };
          std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rank(a) > rank(b); });
          order.resize(static_cast<std::size_t>(used));
          std::sort(order.begin(), order.end());
          EXPECT_EQ(c.experts, order);
          double sum = 0;
          for (const auto e : order) sum += p[static_cast<std::size_t>(e)];
          if (!normalise && gating != Gating::kSoftmaxOfChosen) sum = 1;
          for (std::size_t j = 0; j < order.size(); ++j)
            EXPECT_NEAR(static_cast<double>(c.weights[j]), 2.5 * p[static_cast<std::size_t>(order[j])] / sum, 1e-6);
        }
}

// As transformers' sparsemixer computes it in evaluation.
TEST(Router, SparseMixerWeighsAmongThoseNearTheBest) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 2);
  bool alone = false, several = false;
  for (int round = 0; round < 400; ++round) {
    std::vector<float> x(round % 7 == 0 ? 2 : 16);
    for (float& v : x) v = round % 5 == 0 ? -1.0f - std::abs(normal(random)) : normal(random);
    const Routing rule{static_cast<int>(x.size()), 2, Gating::kSparseMixer, false, 1, 1, 1, 1, 0.2f};
    const Choice c = route(rule, x);
    std::array<std::int32_t, 2> want{-1, -1};
    std::array<double, 2> weight{};
    for (const std::size_t turn : {0u, 1u}) {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (static_cast<std::int32_t>(i) != want[0] &&
            (want[turn] < 0 || x[i] > x[static_cast<std::size_t>(want[turn])]))
          want[turn] = static_cast<std::int32_t>(i);
      const float top = x[static_cast<std::size_t>(want[turn])];
      for (std::size_t i = 0; i < x.size(); ++i)
        if ((turn == 0 || static_cast<std::int32_t>(i) != want[0]) &&
            (top - x[i]) / std::max(std::abs(x[i]), top) <= 2 * rule.jitter)
          sum += std::exp(static_cast<double>(x[i]) - static_cast<double>(top));
      weight[turn] = 1 / sum;
      alone |= weight[turn] == 1;
      several |= weight[turn] < 0.9;
    }
    const std::size_t first = want[0] < want[1] ? 0 : 1;
    EXPECT_EQ(c.experts, (std::vector{want[first], want[1 - first]}));
    EXPECT_NEAR(static_cast<double>(c.weights[0]), weight[first], 1e-6);
    EXPECT_NEAR(static_cast<double>(c.weights[1]), weight[1 - first], 1e-6);
  }
  EXPECT_TRUE(alone && several);
}

// Of groups: those with the best expert, or the best two, and then the best experts in them.
TEST(Router, OnlyOpenGroupsAreChosenFrom) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 2);
  for (const Gating gating : {Gating::kSoftmax, Gating::kSigmoid})
    for (const int best : {1, 2})
      for (const auto& [count, groups, open, used] :
           {std::array{8, 4, 1, 2}, {16, 4, 2, 3}, {160, 8, 3, 6}, {256, 8, 4, 8}, {12, 3, 3, 12}})
        for (const bool normalise : {false, true}) {
          std::vector<float> logits(static_cast<std::size_t>(count)), bias;
          for (float& x : logits) x = normal(random);
          for (int i = 0; i < count; ++i) bias.push_back(0.05f * normal(random));
          const Routing rule{count, used, gating, normalise, 1.0f, groups, open, best};
          const Choice c = route(rule, logits, bias);

          const std::vector<double> p = gated(gating, logits);
          const int size = count / groups;
          std::vector<std::pair<double, int>> sums;
          for (int g = 0; g < groups; ++g) {
            std::vector<double> scores;
            for (int i = g * size; i < (g + 1) * size; ++i)
              scores.push_back(p[static_cast<std::size_t>(i)] + static_cast<double>(bias[static_cast<std::size_t>(i)]));
            std::sort(scores.rbegin(), scores.rend());
            sums.push_back({-std::accumulate(scores.begin(), scores.begin() + best, 0.0), g});
          }
          std::sort(sums.begin(), sums.end());
          std::vector<std::pair<double, std::int32_t>> experts;
          for (int k = 0; k < open; ++k)
            for (int i = 0; i < size; ++i) {
              const auto e = static_cast<std::size_t>(sums[static_cast<std::size_t>(k)].second * size + i);
              experts.push_back({-(p[e] + static_cast<double>(bias[e])), static_cast<std::int32_t>(e)});
            }
          std::sort(experts.begin(), experts.end());
          std::vector<std::int32_t> expected;
          double sum = 0;
          for (int k = 0; k < used; ++k) {
            expected.push_back(experts[static_cast<std::size_t>(k)].second);
            sum += p[static_cast<std::size_t>(expected.back())];
          }
          std::sort(expected.begin(), expected.end());
          ASSERT_EQ(c.experts, expected) << count << " in " << groups;
          for (std::size_t j = 0; j < expected.size(); ++j)
            EXPECT_NEAR(static_cast<double>(c.weights[j]),
                        p[static_cast<std::size_t>(expected[j])] / (normalise ? sum : 1.0), 1e-6);
        }
}

TEST(Router, EqualOnesAreTakenInOrder) {
  EXPECT_EQ(route({6, 3}, {1, 2, 2, 2, 2, 0}).experts, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(route({6, 3}, {0, 0, 0, 0, 0, 0}).experts, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Router, ABiasChoosesAndDoesNotWeigh) {
  const Choice c = route({3, 1, Gating::kSigmoid, false}, {0, 0, 0}, {0, 0, 1});
  EXPECT_EQ(c.experts, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(c.weights, (std::vector<float>{0.5f}));
}

// The greatest logit is far from those that a bias chooses.
TEST(Router, WeightsOfTheChosenAddUp) {
  const Choice c = route({4, 2, Gating::kSoftmaxOfChosen, false}, {60, 1, 1, 0}, {-100, 0, 0, 0});
  EXPECT_EQ(c.experts, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(c.weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST(Router, SumsNearZeroDoNotDivide) {
  const Choice c = route({3, 2, Gating::kSigmoid, true}, {-200, -200, -300});
  EXPECT_EQ(c.experts, (std::vector<std::int32_t>{0, 1}));
  for (const float w : c.weights) EXPECT_LT(w, 1e-6f);
}

// Broken weights give broken numbers, and experts that exist.
TEST(Router, NotANumber) {
  const float nan = std::nanf("");
  for (const std::vector<float>& logits : {std::vector<float>{nan, nan, nan, nan}, {0, nan, 1, nan}, {nan, 5, 4, 3}})
    for (const Gating gating : {Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxOfChosen}) {
      const Choice c = route({4, 2, gating, true}, logits);
      EXPECT_LT(c.experts[0], c.experts[1]);
      EXPECT_GE(c.experts[0], 0);
      EXPECT_LT(c.experts[1], 4);
    }
}

}  // namespace
}  // namespace kvasir::kernel
