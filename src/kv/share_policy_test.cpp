#include "kv/share_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kv/auto_policy.hpp"
#include "kv/spec.hpp"

namespace kvasir::kv {
namespace {

CacheShape shape_of(int layers, int d) {
  return CacheShape::uniform(layers, {.kv_heads = 2, .query_heads = 4, .head_dim = d, .head_dim_v = d});
}

CacheOptions with(std::vector<LayerCodecs> layers) {
  CacheOptions o;
  o.layers = std::move(layers);
  o.max_tokens = 4096;
  return o;
}

double bytes_of(const CacheShape& shape, const std::vector<LayerCodecs>& layers) {
  return plan_memory(shape, with(layers), 1).bytes_per_token;
}

// Of one layer; which of its sides.
std::string codec_at(const std::vector<LayerCodecs>& runs, int layer, Side side) {
  for (const LayerCodecs& r : runs)
    if (layer >= r.first && layer <= r.last) return side == Side::kKeys ? r.k_codec : r.v_codec;
  return "";
}

double noise_of(const CacheShape& shape, std::span<const double> gains, const std::vector<LayerCodecs>& runs) {
  double noise = 0;
  for (int l = 0; l < shape.count(); ++l)
    for (const Side side : {Side::kKeys, Side::kValues}) {
      const int d = shape.at(l).head_dim;
      const CodecSpec spec = parse_codec(codec_at(runs, l, side), d, side, "");
      noise += (side == Side::kKeys ? gains[static_cast<std::size_t>(l)] : 1) *
               relative_distortion(*spec.codec, spec.params, d, side);
    }
  return noise;
}

TEST(SharePolicy, StaysWithinTheShareAndUsesIt) {
  for (const int d : {64, 80, 128, 256})
    for (const double share : {0.16, 0.23, 0.30, 0.5}) {
      const CacheShape shape = shape_of(30, d);
      std::vector<double> gains;
      for (int l = 0; l < 30; ++l) gains.push_back(0.5 + l % 7);
      const double f16 = bytes_of(shape, {{0, 29, "f16", "f16"}});
      const double bytes = bytes_of(shape, share_out(shape, gains, share));
      EXPECT_LE(bytes, share * f16) << d << " " << share;
      EXPECT_GT(bytes, (share - 0.01) * f16) << d << " " << share;
    }
}

// All combinations of two layers.
TEST(SharePolicy, NoOtherChoiceOfTheSameBytesHasMuchLessNoise) {
  const CacheShape shape = shape_of(2, 64);
  const double gains[] = {0.7, 12};
  const char* const names[] = {"rq2:unbiased", "rq3:unbiased", "rq4:unbiased", "rq5:unbiased", "rq8"};
  for (const double share : {0.18, 0.24, 0.31, 0.4}) {
    const auto chosen = share_out(shape, gains, share);
    const double most = share * bytes_of(shape, {{0, 1, "f16", "f16"}});
    double least = 1e30;
    for (int i = 0; i < 625; ++i) {
      const std::vector<LayerCodecs> other = {{0, 0, names[i % 5], names[i / 5 % 5]},
                                              {1, 1, names[i / 25 % 5], names[i / 125]}};
      if (bytes_of(shape, other) <= most) least = std::min(least, noise_of(shape, gains, other));
    }
    EXPECT_LT(noise_of(shape, gains, chosen), 1.3 * least) << share << ": " << codecs_text(chosen);
  }
}

// No name of a codec decides, but what its entry says.
TEST(SharePolicy, GoesToCodecsThatSaySo) {
  const CacheShape shape = shape_of(8, 64);
  std::set<std::string> used;
  for (double share = 0.14; share < 0.6; share += 0.02)
    for (const double gain : {0.1, 5.0, 400.0})
      for (const LayerCodecs& r : share_out(shape, std::vector<double>(8, gain), share))
        used.insert({r.k_codec, r.v_codec});
  EXPECT_GE(used.size(), 4u);
  for (const std::string& name : used) {
    const Codec* codec = find(codecs(), name.substr(0, name.find(':')));
    ASSERT_TRUE(codec && codec->share_distortion) << name;
    EXPECT_TRUE(name.ends_with(codec->share_params)) << name;
  }
}

TEST(SharePolicy, ALayerThatSuffersGetsMore) {
  const CacheShape shape = shape_of(8, 64);
  std::vector<double> gains(8, 5.0);
  gains[0] = 4000;  // as keys with biases that no factor takes away
  const auto runs = share_out(shape, gains, 0.30);
  EXPECT_EQ(codec_at(runs, 0, Side::kKeys), "rq8") << codecs_text(runs);
  EXPECT_NE(codec_at(runs, 1, Side::kKeys), "rq8") << codecs_text(runs);
  gains[3] = 0.01;
  const std::string spared = codec_at(share_out(shape, gains, 0.30), 3, Side::kKeys);
  EXPECT_TRUE(spared == "rq2:unbiased" || spared == "rq3:unbiased") << spared;
}

// Windows' pages do not grow with the context, so neither kind of layer may live at the other's expense.
TEST(SharePolicy, LayersWithWindowsAreCountedApart) {
  CacheShape shape = shape_of(6, 64);
  for (const int l : {0, 1, 2, 4}) shape.layers[static_cast<std::size_t>(l)].window = 512;
  shape.layers[4].kv_of = 2;
  const double gains[] = {3, 90, 3, 5, 5, 5};
  const auto runs = share_out(shape, gains, 0.25);
  EXPECT_LE(bytes_of(shape, runs), 0.25 * bytes_of(shape, {{0, 5, "f16", "f16"}}));
  EXPECT_EQ(codec_at(runs, 4, Side::kKeys), codec_at(runs, 2, Side::kKeys));
  const CacheShape full = {{shape.at(3), shape.at(5)}};
  const double full_gains[] = {5, 5};
  EXPECT_EQ(codec_at(runs, 3, Side::kKeys), codec_at(share_out(full, full_gains, 0.25), 0, Side::kKeys));
}

TEST(SharePolicy, HeadsThatCannotBeTurnedStayRaw) {
  CacheShape shape = shape_of(2, 64);
  shape.layers[1].head_dim = shape.layers[1].head_dim_v = 24;
  const double gains[] = {5, 5};
  const auto runs = share_out(shape, gains, 0.30);
  EXPECT_EQ(codec_at(runs, 1, Side::kKeys), "f16");
  EXPECT_EQ(codec_at(runs, 1, Side::kValues), "f16");
  EXPECT_NE(codec_at(runs, 0, Side::kKeys), "f16");
}

TEST(SharePolicy, PresetsHaveTheirShares) {
  EXPECT_EQ(share_of("balanced"), 0.30);
  EXPECT_EQ(share_of("small"), 0.23);
  EXPECT_EQ(share_of("tiny"), 0.16);
  EXPECT_EQ(share_of("safe"), 0);
  EXPECT_EQ(share_of("rq4"), 0);
  EXPECT_DOUBLE_EQ(share_of("12.5%"), 0.125);
  for (const char* bad : {"%", "0%", "101%", "-5%", "nan%", "25 %", "25%%"}) {
    EXPECT_EQ(share_of(bad), 0) << bad;
    EXPECT_THROW(parse_pair(bad, "--kv"), Error) << bad;
  }
}

}  // namespace
}  // namespace kvasir::kv
