// Groups of every size that a name may give, at heads that are no multiple of 32: pages beside the quantiser in
// doubles, and products beside sums in doubles, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kv/codec_fixture.hpp"
#include "simd/half.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kv {
namespace affine_groups_test {

using codec_fixture::make_rows;
using codec_fixture::Subject;
using simd::on_every_isa;

std::size_t at(int row, int d, int c) { return static_cast<std::size_t>(row * d + c); }

double to_half(double x) { return simd::f16_to_f32(simd::f32_to_f16(static_cast<float>(x))); }

// What a group of numbers reads back as: minimum and step in halves, the nearest of 2^bits places.
void quantise(int bits, const std::vector<double*>& group) {
  const int top = (1 << bits) - 1;
  double low = *group[0], high = low;
  for (const double* x : group) low = std::min(low, *x), high = std::max(high, *x);
  const double s = to_half((high - low) / top);
  for (double* x : group) *x = low + s * (s > 0 ? std::clamp(std::nearbyint((*x - low) / s), 0.0, 1.0 * top) : 0);
}

// rows (128, d) in halves, in groups along tokens or along channels.
std::vector<double> reference(const std::vector<float>& rows, int d, int bits, int group, bool along_tokens) {
  std::vector<double> x;
  for (const float v : rows) x.push_back(to_half(v));
  const int lines = along_tokens ? d : kPageTokens;
  const int length = along_tokens ? kPageTokens : d;
  for (int line = 0; line < lines; ++line)
    for (int first = 0; first < length; first += group) {
      std::vector<double*> part;
      for (int i = first; i < std::min(first + group, length); ++i)
        part.push_back(&x[along_tokens ? at(i, d, line) : at(line, d, i)]);
      quantise(bits, part);
    }
  return x;
}

struct Kind {
  const char* name;
  int bits;
  bool along_tokens;
};
const Kind kKinds[] = {{"int2_channel", 2, true}, {"int4_channel", 4, true}, {"int2_token", 2, false},
                       {"int4_token", 4, false},  {"int8_token", 8, false},  {"hqq2", 2, false},
                       {"hqq3", 3, false}};
const int kHeads[] = {16, 48, 80, 112};

template <class Test>
void each(Test test) {
  for (const Kind& kind : kKinds)
    for (const int group : {4, 8, 16, 32})
      for (const int d : kHeads)
        for (const Side side : {Side::kKeys, Side::kValues}) {
          if (!kind.along_tokens && group > d) continue;
          const std::string name = std::string(kind.name) + ":" + std::to_string(group);
          SCOPED_TRACE(name + (side == Side::kKeys ? " keys " : " values ") + std::to_string(d));
          on_every_isa([&] { test(kind, group, Subject(name, d, side)); });
          if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(AffineGroups, PagesReadBackAsTheQuantiserInDoubles) {
  each([](const Kind& kind, int group, Subject s) {
    if (std::string(kind.name).starts_with("hqq")) return;  // it chooses its minima otherwise
    const auto rows = make_rows(s.d, 11);
    s.seal(rows, 0);
    const auto got = s.unsealed();
    const auto want = reference(rows, s.d, kind.bits, group, kind.along_tokens);
    int other = 0;  // halves that float and double round to different sides
    for (std::size_t i = 0; i < want.size(); ++i)
      other += std::fabs(got[i] - want[i]) > 2e-6 * (1 + std::fabs(want[i]));
    ASSERT_LE(other, static_cast<int>(want.size()) / 1000);
  });
}

// Within what codec_test has for all codecs.
TEST(AffineGroups, ProductsAreThoseOfTheRowsInDoubles) {
  each([](const Kind&, int, Subject s) {
    s.seal(make_rows(s.d, 12), 3);
    const auto rows = s.unsealed();
    const bool keys = s.side == Side::kKeys;
    const int length = keys ? s.d : kPageTokens, results = keys ? kPageTokens : s.d;
    const PageRef page = s.ref(0, kPageTokens);
    for (const int g : {1, 3, 9}) {
      auto x = gaussian(static_cast<std::size_t>(g * length), 13);
      if (!keys)
        for (float& w : x) w = std::exp(2 * w);  // weights: positive, few of them large
      std::vector<float> out(static_cast<std::size_t>(g * results) + 16, keys ? -7.0f : 0.0f);
      if (keys)
        s.codec->dots(s.head(), &page, 1, x.data(), g, out.data(), results);
      else
        s.codec->accumulate(s.head(), &page, 1, x.data(), length, g, out.data(), results);
      double error = 0, energy = 0;
      for (int r = 0; r < g; ++r)
        for (int i = 0; i < results; ++i) {
          double want = 0;
          for (int k = 0; k < length; ++k)
            want += static_cast<double>(x[at(r, length, k)]) * rows[keys ? at(i, s.d, k) : at(k, s.d, i)];
          error += std::pow(out[at(r, results, i)] - want, 2);
          energy += want * want;
        }
      ASSERT_LT(std::sqrt(error / energy), 0.02) << "g " << g;
      for (std::size_t i = static_cast<std::size_t>(g * results); i < out.size(); ++i)
        ASSERT_EQ(out[i], keys ? -7.0f : 0.0f) << "wrote behind the rows";
    }
  });
}

// A page that a KV head fills is the same bytes on every instruction set.
TEST(AffineGroups, BytesDoNotDependOnTheInstructionSet) {
  std::string of;
  std::vector<std::byte> first;
  int compared = 0;
  each([&](const Kind&, int, Subject s) {
    s.seal(make_rows(s.d, 14), 5);
    const std::string now = s.name + (s.side == Side::kKeys ? " keys " : " values ") + std::to_string(s.d);
    if (of != now) of = now, first = s.bytes();
    ASSERT_EQ(s.bytes(), first);
    ++compared;
  });
  EXPECT_GT(compared, 0);
}

}  // namespace affine_groups_test
}  // namespace kvasir::kv
