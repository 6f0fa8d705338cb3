// The numbers of the affine codecs; what every codec must do is in codec_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/test_data_fixture.hpp"
#include "kv/codec_fixture.hpp"
#include "kv/families/affine/affine_fixture.hpp"
#include "kv/families/packed/layout.hpp"
#include "simd/half.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kv {
namespace {

using codec_fixture::make_rows;
using codec_fixture::Subject;
using simd::on_every_isa;

std::size_t size(int n) { return static_cast<std::size_t>(n); }

// --- The quantiser -------------------------------------------------------------------------------------------------

struct Quantised {
  TestGroup group;
  std::vector<int> codes;
};

Quantised quantise(int bits, const std::vector<float>& x) {
  std::vector<std::uint8_t> codes(x.size());
  const TestGroup g = affine_test().quantize(bits, x.data(), static_cast<int>(x.size()), codes.data());
  return {g, {codes.begin(), codes.end()}};
}

TEST(AffineGrid, KnownAnswers) {
  on_every_isa([] {
    const Quantised four = quantise(2, {1, 2, 3, 4});
    EXPECT_EQ(four.group.s, 1.0f);
    EXPECT_EQ(four.group.m, 1.0f);
    EXPECT_EQ(four.codes[0] | four.codes[1] << 2 | four.codes[2] << 4 | four.codes[3] << 6, 228);

    const std::vector<float> x = {-1, -.5f, 0, .25f, .5f, 1, 1.5f, 2};
    const Quantised two = quantise(2, x);
    EXPECT_EQ(two.group.s, 1.0f);
    EXPECT_EQ(two.group.m, -1.0f);
    EXPECT_EQ(two.codes, (std::vector<int>{0, 0, 1, 1, 2, 2, 2, 3})) << "halves go to even";

    const Quantised sixteen = quantise(4, x);
    EXPECT_NEAR(sixteen.group.s, 0.2, 1e-4);
    const int want[] = {0, 2, 5, 6, 8, 10, 12, 15};
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sixteen.codes[i], want[i], i == 1 || i == 3 || i == 6);

    const Quantised same = quantise(2, std::vector<float>(8, 5.0f));
    EXPECT_EQ(same.group.s, 0.0f);
    EXPECT_EQ(same.group.m, 5.0f);
    EXPECT_EQ(same.codes, std::vector<int>(8, 0));

    // 3 steps of 2e-8 are none in halves.
    const Quantised tiny = quantise(2, {6e-8f, 0, 6e-8f, 0});
    EXPECT_EQ(tiny.group.s, 0.0f);
    EXPECT_EQ(tiny.codes, std::vector<int>(4, 0));
  });
}

// |x - x^| <= s/2 and what the rounding of s can cost; m is a number of the raw block and exact.
TEST(AffineGrid, ErrorIsAtMostHalfAStep) {
  for (const float unit : {1.0f, 1e-6f, 3e-3f, 6e4f / 5}) {
    for (const int bits : {2, 4}) {
      const int top = (1 << bits) - 1;
      for (unsigned seed = 0; seed < 50; ++seed) {
        std::vector<float> x = gaussian(32, seed);
        for (float& v : x) v = simd::f16_to_f32(simd::f32_to_f16(std::clamp(v, -5.0f, 5.0f) * unit));
        const Quantised q = quantise(bits, x);
        const auto [low, high] = std::minmax_element(x.begin(), x.end());
        const double exact = (static_cast<double>(*high) - *low) / top;
        const double bound = q.group.s / 2.0 + top * std::fabs(q.group.s - exact) + 1e-6 * unit;
        EXPECT_LE(std::fabs(q.group.s - exact), exact * 0x1p-11 + 0x1p-25);
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_LE(std::fabs(static_cast<double>(q.codes[i]) * q.group.s + q.group.m - x[i]), bound) << x[i];
      }
    }
  }
}

// --- HQQ -----------------------------------------------------------------------------------------------------------

TEST(Hqq, PowersAreAccurate) {
  on_every_isa([] {
    for (double x = 1e-12; x < 1e6; x *= 1.37) {
      const double want = std::pow(static_cast<float>(x), -0.3);
      EXPECT_NEAR(affine_test().power_of_error(static_cast<float>(x)), want, 1e-6 * want) << x;
    }
    EXPECT_EQ(affine_test().power_of_error(1.0f), 1.0f);
  });
}

TEST(Hqq, FirstStepOfTheReferenceSolver) {
  on_every_isa([] {
    const float x[] = {-1, -.5f, 0, .25f, .5f, 1, 1.5f, 2};
    EXPECT_NEAR(-affine_test().hqq_step(2, x, 8, 1.0f, -1.0f, 10.0f), 0.9656642, 2e-7);
  });
}

// mean |e|^p over groups of 64 of (128, d) rows, one number per group.
std::vector<double> group_errors(const std::vector<float>& x, const std::vector<float>& y, int d, double p) {
  std::vector<double> e;
  for (int t = 0; t < kPageTokens; ++t)
    for (int c = 0; c < d; c += 64) {
      double sum = 0;
      for (int i = c; i < c + 64; ++i) {
        const std::size_t at = size(t * d + i);
        sum += std::pow(std::fabs(static_cast<double>(x[at]) - y[at]), p);
      }
      e.push_back(sum / 64);
    }
  return e;
}

double mean(const std::vector<double>& x) {
  double s = 0;
  for (const double v : x) s += v;
  return s / static_cast<double>(x.size());
}

std::vector<float> round_trip(const std::string& name, int d, Side side, const std::vector<float>& rows, int skip = 0) {
  Subject s(name, d, side);
  s.seal(rows, skip);
  return s.unsealed();
}

TEST(Hqq, NoGroupGetsWorse) {
  for (const int bits : {2, 4, 8})
    for (const Side side : {Side::kKeys, Side::kValues})
      for (const unsigned seed : {1u, 2u}) {
        constexpr int d = 128;
        const auto rows = round_trip("f16", d, side, seed == 1 ? make_rows(d, 7) : gaussian(kPageTokens * d, 3));
        const std::string n = std::to_string(bits);
        const auto plain = group_errors(rows, round_trip("int" + n + "_token:64", d, side, rows), d, 0.7);
        const auto ours = group_errors(rows, round_trip("hqq" + n, d, side, rows), d, 0.7);
        int better = 0;
        for (std::size_t i = 0; i < plain.size(); ++i) {
          ASSERT_LE(ours[i], plain[i] * (1 + 1e-4)) << n << " bits, group " << i;
          better += ours[i] < plain[i] * 0.999;
        }
        EXPECT_GT(better, static_cast<int>(plain.size()) / 2) << n << " bits";
      }
}

// The released solver as it behaves: beta stays 10, one stop for all groups, the last iterate is kept.
double reference_error(const std::vector<float>& rows, int bits, int iterations) {
  const double top = (1 << bits) - 1;
  const std::size_t groups = rows.size() / 64;
  std::vector<double> inverse(groups), z(groups);
  for (std::size_t g = 0; g < groups; ++g) {
    const auto [low, high] = std::minmax_element(rows.begin() + static_cast<std::ptrdiff_t>(g * 64),
                                                 rows.begin() + static_cast<std::ptrdiff_t>(g * 64 + 64));
    inverse[g] = top / (static_cast<double>(*high) - *low);
    z[g] = -*low * inverse[g];
  }
  const auto code = [&](std::size_t g, double w) {
    return std::clamp(std::nearbyint(w * inverse[g] + z[g]), 0.0, top);
  };
  const auto error = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t g = i / 64;
      sum += std::fabs(rows[i] - (code(g, rows[i]) - z[g]) / inverse[g]);
    }
    return sum / static_cast<double>(rows.size());
  };
  double best = 1e9;
  for (int it = 0; it < iterations; ++it) {
    const double now = error();
    for (std::size_t g = 0; g < groups; ++g) {
      double sum = 0;
      for (std::size_t i = g * 64; i < g * 64 + 64; ++i) {
        const double c = code(g, rows[i]);
        const double e = rows[i] - (c - z[g]) / inverse[g];
        const double size = std::fabs(e);
        const double shrunk = e == 0 ? 0 : std::copysign(std::max(0.0, size - std::pow(size, -0.3) / 10), e);
        sum += c - (rows[i] - shrunk) * inverse[g];
      }
      z[g] = sum / 64;
    }
    if (now >= best) break;
    best = now;
  }
  return error();
}

TEST(Hqq, BeatsTheReferenceSolverOnGaussianGroups) {
  constexpr int d = 128;
  const auto rows = round_trip("f16", d, Side::kValues, gaussian(kPageTokens * d, 21));
  for (const int bits : {2, 3, 4}) {
    const double plain = reference_error(rows, bits, 0);
    const double reference = reference_error(rows, bits, 20);
    for (const Side side : {Side::kKeys, Side::kValues}) {
      const auto y = round_trip("hqq" + std::to_string(bits), d, side, rows);
      const double ours = mean(group_errors(rows, y, d, 1.0));
      EXPECT_LE(ours, reference) << bits << " bits, plain " << plain;
      EXPECT_LE(reference, plain) << bits;
      EXPECT_LE(ours, 0.97 * plain) << bits;
    }
  }
}

// --- Pages ---------------------------------------------------------------------------------------------------------

std::size_t page_bytes(const std::string& name, int d, Side side) { return Subject(name, d, side).page->size(); }

TEST(AffinePage, BytesAreExact) {
  for (const int d : {32, 64, 80, 96, 112, 128, 256}) {
    const std::size_t n = size(kPageTokens * d);
    const auto groups = [&](int g) { return size((d + g - 1) / g); };
    EXPECT_EQ(page_bytes("int4_channel", d, Side::kKeys) * 8, n * 5) << "5 bits per element";
    EXPECT_EQ(page_bytes("int4_channel:128", d, Side::kKeys) * 8, n * 4 + n / 4);
    EXPECT_EQ(page_bytes("int2_channel", d, Side::kKeys) * 8, n * 3);
    EXPECT_EQ(page_bytes("int2_channel:16", d, Side::kKeys) * 8, n * 4);
    EXPECT_EQ(page_bytes("int4_channel:4", d, Side::kKeys) * 8, n * 12);
    EXPECT_EQ(page_bytes("int2_channel", d, Side::kValues) * 8, n * 3);
    EXPECT_EQ(page_bytes("int4_channel:8", d, Side::kValues) * 8, n * 8);
    for (const Side side : {Side::kKeys, Side::kValues}) {
      EXPECT_EQ(page_bytes("int2_token", d, side), n / 4 + 4 * 128 * groups(32));
      EXPECT_EQ(page_bytes("int4_token", d, side), n / 2 + 4 * 128 * groups(32));
      EXPECT_EQ(page_bytes("int4_token:64", d, side), n / 2 + 4 * 128 * groups(64));
      EXPECT_EQ(page_bytes("int2_token:8", d, side), n / 4 + 4 * 128 * groups(8));
      EXPECT_EQ(page_bytes("int8_token:" + std::to_string(d), d, side), n + 4 * 128);
      EXPECT_EQ(page_bytes("hqq3", d, side), n * 3 / 8 + 4 * 128 * groups(64));
      EXPECT_EQ(page_bytes("uniform4", d, side), n / 2 + 4 * 128 * groups(128));
      EXPECT_EQ(page_bytes("uniform2", d, side), n / 4 + 4 * 128 * groups(32));
    }
  }
}

TEST(AffinePage, BadChoicesAreNamed) {
  EXPECT_THROW(Subject("int4_channel:96", 96, Side::kValues), Error);
  EXPECT_THROW(Subject("int4_channel:96", 96, Side::kKeys), Error);
  EXPECT_THROW(Subject("int4_token:48", 96, Side::kKeys), Error);
  EXPECT_THROW(Subject("int4_token:2", 96, Side::kKeys), Error);
  EXPECT_THROW(Subject("int4_token:12", 96, Side::kKeys), Error);
  EXPECT_THROW(Subject("int4_channel:256", 96, Side::kKeys), Error);
  EXPECT_THROW(Subject("int4_token:unbiased", 64, Side::kKeys), Error);
  EXPECT_THROW(Subject("uniform4:32", 64, Side::kKeys), Error);
  EXPECT_THROW(Subject("uniform2:64", 64, Side::kKeys), Error);
  EXPECT_NO_THROW(Subject("int4_token:96", 96, Side::kKeys));
}

// docs/formats/packed.md, for 2, 4 and 8 bits.
int code_at(const std::byte* codes, int bits, int depth_count, int lane, int depth) {
  const std::byte* unit =
      codes + size(lane / 16) * packed_panel_bytes(bits, depth_count) + size(depth / 16 * 32 * bits);
  const int byte = 4 * (lane % 16) + depth % 4;
  const int word = depth % 16 / 4;
  if (bits == 8) return std::to_integer<int>(unit[64 * word + byte]) ^ 128;
  if (bits == 4) return std::to_integer<int>(unit[64 * (word / 2) + byte]) >> (4 * (word % 2)) & 15;
  return std::to_integer<int>(unit[byte]) >> (2 * word) & 3;
}

float half_at(const std::byte* p, int i) {
  std::uint16_t h;
  std::memcpy(&h, p + 2 * i, 2);
  return simd::f16_to_f32(h);
}

// Pages read by the words of docs/formats/affine.md give the numbers that unseal gives.
TEST(AffinePage, LayoutIsTheDocumentedOne) {
  struct Case {
    const char* name;
    int bits;
    Side side;
    bool per_lane_group;  // scales per row of depth and group of lanes, else per lane and group of depth
    int group;
    double shift;
  };
  const Case cases[] = {
      {"int4_channel", 4, Side::kKeys, true, 32, 0},    {"int2_channel:64", 2, Side::kKeys, true, 64, 0},
      {"int4_token", 4, Side::kValues, true, 32, 0},    {"int8_token", 8, Side::kValues, true, 32, 0},
      {"int4_token:64", 4, Side::kKeys, false, 64, 0},  {"int8_token", 8, Side::kKeys, false, 32, 0},
      {"int2_channel:16", 2, Side::kKeys, true, 16, 0}, {"int4_channel:8", 4, Side::kKeys, true, 8, 0},
      {"int8_token:4", 8, Side::kKeys, false, 4, 0},    {"int2_token:8", 2, Side::kKeys, false, 8, 0},
      {"int4_token:4", 4, Side::kValues, true, 4, 0},   {"hqq4:16", 4, Side::kValues, true, 16, 0},
      {"int4_channel", 4, Side::kValues, false, 32, 0}, {"int2_channel:8", 2, Side::kValues, false, 8, 0},
      {"hqq2", 2, Side::kKeys, false, 64, 0},           {"uniform2", 2, Side::kValues, true, 32, 0.5},
      {"uniform4", 4, Side::kKeys, false, 128, 0.5}};
  for (const Case& c : cases)
    for (const int d : {64, 80, 256}) {
      SCOPED_TRACE(std::string(c.name) + " " + std::to_string(d));
      Subject s(c.name, d, c.side);
      s.seal(make_rows(d, 5), 3);
      const auto rows = s.unsealed();
      const int lanes = c.side == Side::kKeys ? kPageTokens : d;
      const int depth = c.side == Side::kKeys ? d : kPageTokens;
      const int per_group = c.per_lane_group ? depth : lanes;
      const int groups = ((c.per_lane_group ? lanes : depth) + c.group - 1) / c.group;
      const std::byte* codes = s.page->data() + 4 * per_group * groups;
      for (int lane = 0; lane < lanes; ++lane)
        for (int k = 0; k < depth; ++k) {
          const int j = (c.per_lane_group ? lane : k) / c.group;
          const int i = c.per_lane_group ? k : lane;
          const std::byte* group = s.page->data() + 4 * per_group * j;
          const double scale = half_at(group, i);
          const double first = half_at(group, per_group + i);
          const double want = (code_at(codes, c.bits, depth, lane, k) + c.shift) * scale + first;
          const double got = rows[c.side == Side::kKeys ? size(lane * d + k) : size(k * d + lane)];
          ASSERT_NEAR(got, want, 1e-6 * (256 * scale + std::fabs(first))) << lane << " " << k;
        }
    }
}

TEST(AffinePage, ConstantGroupsAreExact) {
  for (const char* name : {"int2_channel", "int4_token", "int8_token", "hqq4", "uniform2"})
    for (const Side side : {Side::kKeys, Side::kValues}) {
      std::vector<float> rows(kPageTokens * 64);
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = std::string(name) == "int2_channel" ? 0.25f * static_cast<float>(i % 64)   // per channel
                                                      : -0.5f * static_cast<float>(i / 64);  // per token
      EXPECT_EQ(round_trip(name, 64, side, rows), rows) << name;
    }
}

// The worked example of kivi.md, its four tokens (keys) and four channels (values) repeated.
TEST(AffinePage, WorkedExampleOfTwoBitAttention) {
  constexpr int d = 32;
  const float k[4][4] = {{0, 1, -1, 2}, {1, 1, 0, 4}, {2, -1, 1, 6}, {3, 3, 2, 8}};
  const float v[4][4] = {{0, 1, 2, 3}, {4, -2, 0, 2}, {1, 1, 1, 1}, {-1, .5f, 2, 5}};
  std::vector<float> keys(kPageTokens * d), values(kPageTokens * d);
  for (int t = 0; t < kPageTokens; ++t)
    for (int c = 0; c < d; ++c) {
      keys[size(t * d + c)] = k[t % 4][c % 4];
      values[size(t * d + c)] = v[t % 4][c % 4];
    }
  on_every_isa([&] {
    Subject ks("int2_channel", d, Side::kKeys);
    Subject vs("int2_token", d, Side::kValues);
    ks.seal(keys, 0);
    vs.seal(values, 0);
    const float want_s[] = {1, 4.0f / 3, 1, 2};
    const float want_m[] = {0, -1, -1, 2};
    const int codes[4][4] = {{0, 1, 2, 3}, {2, 2, 0, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
    const std::byte* packed = ks.page->data() + 4 * d * 4;
    for (int c = 0; c < d; ++c) {
      EXPECT_NEAR(half_at(ks.page->data(), c), want_s[c % 4], 1e-3);
      EXPECT_EQ(half_at(ks.page->data(), d + c), want_m[c % 4]);
      for (int t = 0; t < kPageTokens; ++t) EXPECT_EQ(code_at(packed, 2, d, t, c), codes[c % 4][t % 4]);
    }

    std::vector<float> q(d, 0.0f);
    const float first[] = {1, 0, .5f, -.25f};
    for (int c = 0; c < 4; ++c) q[size(c)] = first[c] / 2;
    std::vector<float> scores(kPageTokens);
    const PageRef kp = ks.ref(0, kPageTokens);
    ks.codec->dots(ks.head(), &kp, 1, q.data(), 1, scores.data(), kPageTokens);
    for (int t = 0; t < 4; ++t) EXPECT_NEAR(scores[size(t)], -0.5 + 0.5 * t, 0.01) << t;

    double total = 0;
    for (int t = 0; t < 4; ++t) total += std::exp(static_cast<double>(scores[size(t)]));
    EXPECT_NEAR(std::log(total), 1.7873387, 0.01);
    std::vector<float> weights(kPageTokens, 0.0f);
    for (int t = 0; t < 4; ++t) weights[size(t)] = static_cast<float>(std::exp(scores[size(t)]) / total);
    std::vector<float> out(d);
    const PageRef vp = vs.ref(0, kPageTokens);
    vs.codec->accumulate(vs.head(), &vp, 1, weights.data(), kPageTokens, 1, out.data(), d);
    const double want[] = {0.4905705, 0.4977847, 1.8442396, 3.1906947};
    for (int c = 0; c < d; ++c) EXPECT_NEAR(out[size(c)], want[c % 4], 0.02) << c;
  });
}

double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, energy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    energy += static_cast<double>(x[i]) * x[i];
  }
  return error / energy;
}

TEST(AffinePage, ChannelsWithOutliersWantScalesPerChannel) {
  const auto rows = make_rows(128, 3);
  EXPECT_LT(relative_error(rows, round_trip("int2_channel", 128, Side::kKeys, rows)),
            0.6 * relative_error(rows, round_trip("int2_token", 128, Side::kKeys, rows)));
}

// --- Keys and values of a real model -------------------------------------------------------------------------------

// (heads, tokens, dim) of one file, or nothing.
struct Recorded {
  int heads = 0, tokens = 0, dim = 0;
  std::vector<float> x;
};

Recorded read_recorded(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::uint32_t header[5];
  if (!f.read(reinterpret_cast<char*>(header), sizeof header) || header[0] != 0x544B5651) return {};
  Recorded r{static_cast<int>(header[2]), static_cast<int>(header[3]), static_cast<int>(header[4]), {}};
  r.x.resize(size(r.heads * r.tokens * r.dim));
  f.read(reinterpret_cast<char*>(r.x.data()), static_cast<std::streamsize>(r.x.size() * 4));
  return f ? r : Recorded{};
}

// Signal to noise in dB over all layers and heads, of the 96 tokens that fill whole groups: the 3 before them would
// have groups of their own in codecs with scales per channel.
double snr(const std::string& name, Side side, int first = 29) {
  double error = 0, energy = 0;
  for (const char* layer : {"3", "7", "11", "15"}) {
    const Recorded r = read_recorded(fixture::test_data("kv/qwen35_layer") + layer +
                                     (side == Side::kKeys ? "_keys.bin" : "_values.bin"));
    if (r.x.empty()) return std::nan("");
    const int skip = kPageTokens - r.tokens;
    for (int h = 0; h < r.heads; ++h) {
      std::vector<float> rows(size(kPageTokens * r.dim), 0.0f);
      std::copy_n(&r.x[size(h * r.tokens * r.dim)], r.tokens * r.dim, rows.begin() + skip * r.dim);
      const auto got = round_trip(name, r.dim, side, rows, skip);
      for (std::size_t i = size(first * r.dim); i < rows.size(); ++i) {
        error += (static_cast<double>(rows[i]) - got[i]) * (static_cast<double>(rows[i]) - got[i]);
        energy += static_cast<double>(rows[i]) * rows[i];
      }
    }
  }
  return 10 * std::log10(energy / error);
}

TEST(AffineRealData, SignalToNoise) {
  if (std::isnan(snr("f16", Side::kKeys))) GTEST_SKIP() << "no recorded keys and values";
  struct Case {
    const char* name;
    double k, v;
  };
  for (const auto& [name, k, v] : {Case{"int2_channel", 11.92, 0}, Case{"int4_channel", 26.00, 0},
                                   Case{"uniform2", 8.39, 0}, Case{"uniform4", 17.91, 16.99}}) {
    // The three tokens before 32 have a group of their own per channel, which flatters.
    EXPECT_NEAR(snr(name, Side::kKeys, 32), k, 0.15) << name;
    if (v > 0) {
      EXPECT_NEAR(snr(name, Side::kValues), v, 0.15) << name;
    }
  }
  for (const char* name : {"int2_token", "int4_token", "int4_token:64", "int8_token", "hqq2", "hqq3", "hqq4", "hqq8"})
    std::printf("%s: keys %.2f dB, values %.2f dB\n", name, snr(name, Side::kKeys), snr(name, Side::kValues));
}

}  // namespace
}  // namespace kvasir::kv
