#include "kernel/bidirectional.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "simd/bf16_products.hpp"
#include "simd/half.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kernel {
namespace {

struct Kind {
  float cap = 0;
  std::int64_t reach = -1;
  float slope = 0;
};

// In double, for every instruction set and for lengths and sizes that are no multiples of a vector.
TEST(Bidirectional, IsASoftmaxOverTheRowsThatAreSeen) {
  std::mt19937 noise(7);
  std::normal_distribution<float> normal;
  for (const std::int64_t n : {1, 2, 15, 16, 17, 130})
    for (const int d : {8, 24, 64})
      for (const auto& [cap, reach, slope] : {Kind{}, Kind{2}, Kind{.reach = 0}, Kind{.reach = 3}, Kind{2, 20, 0},
                                              Kind{.slope = 0.25f}, Kind{2, 40, 0.5f}}) {
        const int dv = d + 8;
        const std::int64_t q_stride = 2 * d + 3, k_stride = d + 1, v_stride = dv + 5, out_stride = dv + 2;
        const auto random = [&](std::int64_t count) {
          std::vector<float> x(static_cast<std::size_t>(count));
          for (float& f : x) f = normal(noise);
          return x;
        };
        const auto q = random(n * q_stride), k = random(n * k_stride), v = random(n * v_stride);
        const auto at = [](const std::vector<float>& x, std::int64_t i) {
          return static_cast<double>(x[static_cast<std::size_t>(i)]);
        };
        std::vector<double> want;
        for (std::int64_t i = 0; i < n; ++i) {
          std::vector<double> w;
          double total = 0;
          for (std::int64_t r = 0; r < n; ++r) {
            double s = 0;
            for (int c = 0; c < d; ++c) s += at(q, i * q_stride + c) * at(k, r * k_stride + c);
            s *= 0.25;
            if (cap > 0) s = static_cast<double>(cap) * std::tanh(s / static_cast<double>(cap));
            const std::int64_t distance = std::abs(r - i);
            s -= static_cast<double>(slope) * static_cast<double>(distance);
            w.push_back(reach >= 0 && distance > reach ? 0 : std::exp(s));
            total += w.back();
          }
          for (int c = 0; c < dv; ++c) {
            double sum = 0;
            for (std::int64_t r = 0; r < n; ++r) sum += w[static_cast<std::size_t>(r)] * at(v, r * v_stride + c);
            want.push_back(sum / total);
          }
        }
        std::vector<float> scratch(static_cast<std::size_t>(whole_head_scratch(n, d, dv)), NAN), first;
        for (const simd::Isa isa : simd::kIsas) {
          if (!simd::supported(isa)) continue;
          std::vector<float> out(static_cast<std::size_t>(n * out_stride), -1);
          bidirectional_of(isa).attend({n, d, dv, q.data(), k.data(), v.data(), q_stride, k_stride, v_stride, 0.25f,
                                        cap, out.data(), out_stride, reach, slope},
                                       scratch.data());
          for (std::int64_t i = 0; i < n; ++i) {
            for (int c = 0; c < dv; ++c)
              ASSERT_NEAR(at(out, i * out_stride + c), want[static_cast<std::size_t>(i * dv + c)], 2e-5)
                  << simd::name(isa) << " n " << n << " d " << d << " row " << i;
            EXPECT_EQ(out[static_cast<std::size_t>(i * out_stride + dv)], -1) << "beyond the row";
          }
          if (first.empty()) first = out;
          EXPECT_EQ(out, first) << simd::name(isa);  // the same bits everywhere
        }
      }
}

// Beside a softmax in double over queries, keys and values that are bf16 already: what is left is the rounding of
// weights.
TEST(Bidirectional, OfPairsRoundsWhatItMultiplies) {
  std::mt19937 noise(8);
  std::normal_distribution<float> normal;
  for (const simd::Isa isa : simd::kIsas) {
    if (!simd::supported(isa) || !simd::multiplies_bf16(isa)) continue;
    for (const std::int64_t n : {1, 15, 16, 33, 130})
      for (const int d : {8, 17, 72}) {
        const int stride = 3 * d + 1;
        std::vector<float> x(static_cast<std::size_t>(n * stride));
        for (float& f : x) f = normal(noise);
        const auto at = [&](std::int64_t row, int part, int c) {
          return static_cast<double>(
              simd::bf16_to_f32(simd::f32_to_bf16(x[static_cast<std::size_t>(row * stride + part * d + c)])));
        };
        const auto run = [&](std::int64_t first, std::int64_t count) {
          std::vector<float> scratch(static_cast<std::size_t>(whole_head_scratch(n, d, d)), NAN);
          std::vector<float> out(static_cast<std::size_t>(count * (d + 1)), -1);
          const float* const rows = x.data() + first * stride;
          bidirectional_of(isa).attend_pairs(
              {count, d, d, rows, rows + d, rows + 2 * d, stride, stride, stride, 0.25f, 0, out.data(), d + 1},
              scratch.data());
          return out;
        };
        const std::vector<float> out = run(0, n);
        for (std::int64_t i = 0; i < n; ++i) {
          std::vector<double> sums(static_cast<std::size_t>(d));
          double total = 0;
          for (std::int64_t r = 0; r < n; ++r) {
            double score = 0;
            for (int c = 0; c < d; ++c) score += at(i, 0, c) * at(r, 1, c);
            const double w = std::exp(0.25 * score);
            total += w;
            for (int c = 0; c < d; ++c) sums[static_cast<std::size_t>(c)] += w * at(r, 2, c);
          }
          for (int c = 0; c < d; ++c)
            ASSERT_NEAR(out[static_cast<std::size_t>(i * (d + 1) + c)], sums[static_cast<std::size_t>(c)] / total,
                        0.006)
                << simd::name(isa) << " n " << n << " d " << d << " row " << i;
          EXPECT_EQ(out[static_cast<std::size_t>(i * (d + 1) + d)], -1) << "beyond the row";
        }
        EXPECT_EQ(run(0, n), out);
      }
  }
}

}  // namespace
}  // namespace kvasir::kernel
