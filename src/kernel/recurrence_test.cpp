// Convolutions and states against float64, on every instruction set, whole and token by token.
#include "kernel/recurrence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kvasir::kernel {
namespace {

std::vector<simd::Isa> isas() {
  std::vector<simd::Isa> all;
  for (const simd::Isa isa : simd::kIsas)
    if (simd::supported(isa)) all.push_back(isa);
  return all;
}

class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : random_(seed) {}
  std::vector<float> operator()(std::size_t n, float size = 1, float mean = 0) {
    std::vector<float> x(n);
    for (float& v : x) v = mean + size * normal_(random_);
    return x;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

TEST(Recurrence, ConvolutionsAgreeWithFloat64) {
  Numbers numbers(1);
  for (const int taps : {1, 3, 4})
    for (const std::size_t channels : {1u, 16u, 37u, 96u})
      for (const bool silu : {false, true})
        for (const bool biased : {false, true}) {
          constexpr std::size_t kCount = 9;
          const std::size_t all = kCount + static_cast<std::size_t>(taps) - 1;
          const auto x = numbers(all * channels), w = numbers(static_cast<std::size_t>(taps) * channels),
                     bias = numbers(channels);
          std::vector<const float*> rows;
          for (std::size_t i = 0; i < all; ++i) rows.push_back(x.data() + i * channels);
          std::vector<float> first;
          for (const simd::Isa isa : isas()) {
            std::vector<float> out(kCount * (channels + 1), -1.0f);
            const auto n = static_cast<std::int64_t>(channels);
            recurrence_of(isa).convolve(
                {rows.data(), kCount, taps, w.data(), n, biased ? bias.data() : nullptr, n, silu, out.data(), n + 1});
            for (std::size_t i = 0; i < kCount; ++i) {
              for (std::size_t c = 0; c < channels; ++c) {
                double want = biased ? static_cast<double>(bias[c]) : 0;
                for (std::size_t j = 0; j < static_cast<std::size_t>(taps); ++j)
                  want += static_cast<double>(w[j * channels + c]) * static_cast<double>(rows[i + j][c]);
                if (silu) want /= 1 + std::exp(-want);
                ASSERT_NEAR(out[i * (channels + 1) + c], want, 2e-6) << simd::name(isa);
              }
              EXPECT_EQ(out[i * (channels + 1) + channels], -1) << "beyond the row";
            }
            if (first.empty()) first = out;
            EXPECT_EQ(out, first) << simd::name(isa);
          }
        }
}

TEST(Recurrence, RowsGetTheLengthThatIsAsked) {
  Numbers numbers(2);
  for (const std::size_t n : {8u, 24u, 128u})
    for (const simd::Isa isa : isas()) {
      auto x = numbers(3 * n);
      for (std::size_t i = 0; i < n; ++i) x[n + i] = 0;  // nothing to divide by but the least
      const auto before = x;
      recurrence_of(isa).normalise(x.data(), 3, static_cast<std::int64_t>(n), static_cast<std::int64_t>(n), 1e-6f,
                                   0.5f);
      for (std::size_t r = 0; r < 3; ++r) {
        double square = 0;
        for (std::size_t i = 0; i < n; ++i) square += std::pow(static_cast<double>(before[r * n + i]), 2);
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_NEAR(x[r * n + i], 0.5 * static_cast<double>(before[r * n + i]) / std::max(std::sqrt(square), 1e-6),
                      1e-6);
      }
    }
}

struct Sizes {
  std::size_t d, dv;
};

// In float64, one token.
void step(const Sizes& s, const float* q, const float* k, const float* v, double decay, double strength, bool delta,
          double skip, std::vector<double>& state, std::vector<double>& out) {
  for (std::size_t c = 0; c < s.dv; ++c) {
    double known = 0;
    for (std::size_t i = 0; i < s.d; ++i) {
      state[i * s.dv + c] *= decay;
      known += state[i * s.dv + c] * static_cast<double>(k[i]);
    }
    const double u = strength * (static_cast<double>(v[c]) - (delta ? known : 0));
    out[c] = skip * static_cast<double>(v[c]);
    for (std::size_t i = 0; i < s.d; ++i) {
      state[i * s.dv + c] += static_cast<double>(k[i]) * u;
      out[c] += state[i * s.dv + c] * static_cast<double>(q[i]);
    }
  }
}

TEST(Recurrence, StatesAgreeWithFloat64AndDoNotShowHowTokensCame) {
  constexpr std::size_t kCount = 40;
  for (const Sizes s : {Sizes{16, 16}, {8, 24}, {64, 64}, {128, 128}, {16, 40}, {128, 8}})
    for (const bool delta : {false, true}) {
      Numbers numbers(static_cast<std::uint32_t>(s.d + s.dv));
      const float size = 1 / std::sqrt(static_cast<float>(s.d));
      const auto q = numbers(kCount * s.d, size), k = numbers(kCount * s.d, size), v = numbers(kCount * s.dv);
      std::vector<float> gates(2 * kCount);
      const auto raw = numbers(2 * kCount);
      for (std::size_t i = 0; i < gates.size(); ++i) gates[i] = 1 / (1 + std::exp(-raw[i] - (i % 2 ? 0.0f : 2.0f)));
      const float skip = delta ? 0.0f : 0.7f;
      std::vector<double> exact(s.d * s.dv), row(s.dv), want;
      for (std::size_t t = 0; t < kCount; ++t) {
        step(s, &q[t * s.d], &k[t * s.d], &v[t * s.dv], gates[2 * t], gates[2 * t + 1], delta, skip, exact, row);
        want.insert(want.end(), row.begin(), row.end());
      }
      const std::size_t pitch = (s.dv + 15) / 16 * 16;
      std::vector<float> first;
      for (const simd::Isa isa : isas())
        for (const std::size_t chunk : {kCount, std::size_t{1}, std::size_t{7}}) {
          std::vector<float> state(s.d * pitch), out(kCount * s.dv);
          for (std::size_t t = 0; t < kCount; t += chunk) {
            const auto n = static_cast<std::int64_t>(std::min(chunk, kCount - t));
            const auto d = static_cast<std::int64_t>(s.d), dv = static_cast<std::int64_t>(s.dv);
            recurrence_of(isa).update({n, d, dv, static_cast<std::int64_t>(pitch), &q[t * s.d], &k[t * s.d], d,
                                       &v[t * s.dv], dv, &gates[2 * t], &gates[2 * t + 1], 2, delta, skip, state.data(),
                                       &out[t * s.dv], dv});
          }
          for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 3e-5) << simd::name(isa);
          for (std::size_t i = 0; i < s.d; ++i)
            for (std::size_t c = s.dv; c < pitch; ++c) ASSERT_EQ(state[i * pitch + c], 0);
          out.insert(out.end(), state.begin(), state.end());
          if (first.empty()) first = out;
          ASSERT_EQ(out, first) << simd::name(isa) << " in chunks of " << chunk;  // the same bits everywhere
        }
    }
}

// Every row of a state with a decay of its own.
TEST(Recurrence, DecaysByKeyAgreeWithFloat64) {
  constexpr std::size_t kCount = 40;
  for (const Sizes s : {Sizes{16, 16}, {8, 24}, {128, 128}, {16, 40}}) {
    Numbers numbers(static_cast<std::uint32_t>(s.d + s.dv));
    const float size = 1 / std::sqrt(static_cast<float>(s.d));
    const auto q = numbers(kCount * s.d, size), k = numbers(kCount * s.d, size), v = numbers(kCount * s.dv);
    const std::size_t pitch = (s.dv + 15) / 16 * 16, each = s.d + 1;
    std::vector<float> gates = numbers(kCount * each);  // decays, then a strength
    for (float& g : gates) g = 1 / (1 + std::exp(-g - 1));
    std::vector<double> exact(s.d * s.dv), row(s.dv), want;
    for (std::size_t t = 0; t < kCount; ++t) {
      for (std::size_t i = 0; i < s.d; ++i)
        for (std::size_t c = 0; c < s.dv; ++c) exact[i * s.dv + c] *= static_cast<double>(gates[t * each + i]);
      step(s, &q[t * s.d], &k[t * s.d], &v[t * s.dv], 1, gates[t * each + s.d], true, 0, exact, row);
      want.insert(want.end(), row.begin(), row.end());
    }
    std::vector<float> first;
    for (const simd::Isa isa : isas())
      for (const std::size_t chunk : {kCount, std::size_t{1}, std::size_t{7}}) {
        std::vector<float> state(s.d * pitch), out(kCount * s.dv);
        for (std::size_t t = 0; t < kCount; t += chunk) {
          const auto n = static_cast<std::int64_t>(std::min(chunk, kCount - t));
          const auto d = static_cast<std::int64_t>(s.d), dv = static_cast<std::int64_t>(s.dv);
          recurrence_of(isa).update({n, d, dv, static_cast<std::int64_t>(pitch), &q[t * s.d], &k[t * s.d], d,
                                     &v[t * s.dv], dv, &gates[t * each], &gates[t * each + s.d],
                                     static_cast<std::int64_t>(each), true, 0, state.data(), &out[t * s.dv], dv, true});
        }
        for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 3e-5) << simd::name(isa);
        if (first.empty()) first = out;
        ASSERT_EQ(out, first) << simd::name(isa) << " in chunks of " << chunk;
      }
  }
}

TEST(Recurrence, ScansAgreeWithFloat64AndDoNotShowHowTokensCame) {
  constexpr std::size_t kCount = 40;
  for (const Sizes s : {Sizes{16, 16}, {8, 24}, {16, 64}, {64, 40}}) {
    Numbers numbers(static_cast<std::uint32_t>(s.d + s.dv));
    const std::size_t pitch = (s.dv + 15) / 16 * 16, each = s.dv + 2 * s.d;
    auto gates = numbers(kCount * each);  // steps, keys, queries
    for (std::size_t t = 0; t < kCount; ++t)
      for (std::size_t c = 0; c < s.dv; ++c) gates[t * each + c] = std::log1p(std::exp(gates[t * each + c]));
    const auto v = numbers(kCount * s.dv), skip = numbers(s.dv);
    auto rates = numbers(s.d * s.dv);
    for (float& r : rates) r = -std::abs(r);
    std::vector<double> exact(s.d * s.dv), want;
    for (std::size_t t = 0; t < kCount; ++t)
      for (std::size_t c = 0; c < s.dv; ++c) {
        const double dt = gates[t * each + c], x = v[t * s.dv + c];
        double y = static_cast<double>(skip[c]) * x;
        for (std::size_t i = 0; i < s.d; ++i) {
          double& e = exact[i * s.dv + c];
          e = std::exp(dt * static_cast<double>(rates[i * s.dv + c])) * e +
              static_cast<double>(gates[t * each + s.dv + i]) * dt * x;
          y += static_cast<double>(gates[t * each + s.dv + s.d + i]) * e;
        }
        want.push_back(y);
      }
    std::vector<float> first;
    for (const simd::Isa isa : isas())
      for (const std::size_t chunk : {kCount, std::size_t{1}, std::size_t{7}}) {
        std::vector<float> state(s.d * pitch), out(kCount * s.dv);
        for (std::size_t t = 0; t < kCount; t += chunk) {
          const auto n = static_cast<std::int64_t>(std::min(chunk, kCount - t));
          const auto d = static_cast<std::int64_t>(s.d), dv = static_cast<std::int64_t>(s.dv);
          const float* const g = &gates[t * each];
          recurrence_of(isa).scan({n, d, dv, static_cast<std::int64_t>(pitch), &v[t * s.dv], dv, g, g + dv, g + dv + d,
                                   static_cast<std::int64_t>(each), rates.data(), dv, skip.data(), state.data(),
                                   &out[t * s.dv], dv});
        }
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_NEAR(out[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << simd::name(isa);
        for (std::size_t i = 0; i < s.d; ++i)
          for (std::size_t c = s.dv; c < pitch; ++c) ASSERT_EQ(state[i * pitch + c], 0);
        out.insert(out.end(), state.begin(), state.end());
        if (first.empty()) first = out;
        ASSERT_EQ(out, first) << simd::name(isa) << " in chunks of " << chunk;
      }
  }
}

TEST(Recurrence, GatesAgreeWithFloat64) {
  std::vector<float> x;
  for (double v = -30; v <= 30; v += 0.037) x.push_back(static_cast<float>(v));
  const auto n = static_cast<std::int64_t>(x.size());
  for (const simd::Isa isa : isas()) {
    auto soft = x, kept = x, held = x;
    recurrence_of(isa).softplus(soft.data(), n);
    recurrence_of(isa).forget(kept.data(), n, -0.7f, 0);
    recurrence_of(isa).forget(held.data(), n, 1.3f, -5);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], want = std::log1p(std::exp(v));
      ASSERT_NEAR(soft[i], want, 4e-7 * want) << v;
      ASSERT_NEAR(kept[i], std::exp(static_cast<double>(-0.7f) * want), 2e-6) << v;
      ASSERT_NEAR(held[i], std::exp(-5 / (1 + std::exp(static_cast<double>(-1.3f) * v))), 2e-6) << v;
    }
  }
}

}  // namespace
}  // namespace kvasir::kernel
