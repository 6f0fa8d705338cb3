#include "kv/share_policy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/check.hpp"
#include "kv/codec.hpp"
#include "kv/families/rotated/integer_levels.hpp"
#include "kv/spec.hpp"

namespace kvasir::kv {
namespace {

struct Width {
  const char* codec;
  int bits;
};
// Least squares shrinks keys and values, by 12 % at 2 bits. A softmax feels that more than the noise that it saves.
constexpr std::array<Width, 5> kWidths = {
    {{"rq2:unbiased", 2}, {"rq3:unbiased", 3}, {"rq4:unbiased", 4}, {"rq5:unbiased", 5}, {"rq8", 8}}};

// Relative distortion of Gaussian rows: Lloyd and Max; 44 dB at 8 bits.
double distortion(int bits) { return bits == 8 ? 4e-5 : integer_levels(bits).mse; }

// One side of one layer.
struct Store {
  int layer;
  Side side;
  double gain;
  std::array<double, kWidths.size()> bytes;  // of a page, all heads
  std::size_t width = 0;

  double saved() const { return gain * (distortion(kWidths[width].bits) - distortion(kWidths[width + 1].bits)); }
  double cost() const { return bytes[width + 1] - bytes[width]; }
};

bool rotates(int d, Side side) {
  CodecParams params;
  const Codec* codec = find(codecs(), "rq2");
  return codec && !codec->refuse(d, side, &params);
}

Store store_of(int layer, const LayerShape& s, Side side, double gain) {
  const int d = side == Side::kKeys ? s.head_dim : s.head_dim_v;
  Store store{layer, side, gain, {}};
  for (std::size_t w = 0; w < kWidths.size(); ++w) {
    const CodecSpec spec = parse_codec(kWidths[w].codec, d, side, "");
    const CodecSide& of = side == Side::kKeys ? spec.codec->k : spec.codec->v;
    store.bytes[w] = static_cast<double>(of.bytes(d, spec.params)) * s.kv_heads;
  }
  return store;
}

// Spends `left` bytes above the fewest.
void spend(std::vector<Store>& stores, double left) {
  for (;;) {
    Store* best = nullptr;
    for (Store& s : stores) {
      if (s.width + 1 == kWidths.size() || s.cost() > left) continue;
      if (!best || s.saved() * best->cost() > best->saved() * s.cost()) best = &s;
    }
    if (!best) return;
    left -= best->cost();
    ++best->width;
  }
}

}  // namespace

std::vector<LayerCodecs> share_out(const CacheShape& shape, std::span<const double> gains, double share) {
  KVASIR_CHECK(share > 0 && gains.size() == shape.layers.size());
  std::vector<LayerCodecs> all;
  for (int l = 0; l < shape.count(); ++l) all.push_back({l, l, "f16", "f16"});
  for (const bool local : {false, true}) {
    std::vector<Store> stores;
    double left = 0;
    for (int l = 0; l < shape.count(); ++l) {
      const LayerShape& s = shape.at(l);
      if (!s.attends() || s.kv_of >= 0 || (s.window > 0) != local) continue;
      for (const Side side : {Side::kKeys, Side::kValues}) {
        const int d = side == Side::kKeys ? s.head_dim : s.head_dim_v;
        if (!rotates(d, side) || (side == Side::kValues && s.latent)) continue;
        const double gain = side == Side::kKeys ? gains[static_cast<std::size_t>(l)] : 1;
        stores.push_back(store_of(l, s, side, s.latent ? gain + 1 : gain));  // latent keys are values, too
        left += share * 2 * kPageTokens * s.kv_heads * d - stores.back().bytes.front();
      }
    }
    spend(stores, left);
    for (const Store& s : stores) {
      LayerCodecs& layer = all[static_cast<std::size_t>(s.layer)];
      (s.side == Side::kKeys ? layer.k_codec : layer.v_codec) = kWidths[s.width].codec;
      if (shape.at(s.layer).latent) layer.v_codec = layer.k_codec;
    }
  }
  // Layers without attention store nothing: they are called as the next one with it, so that runs are long.
  for (int l = shape.count() - 2; l >= 0; --l) {
    LayerCodecs& layer = all[static_cast<std::size_t>(l)];
    const LayerCodecs& next = all[static_cast<std::size_t>(l) + 1];
    if (shape.at(l).attends()) continue;
    layer.k_codec = next.k_codec;
    layer.v_codec = next.v_codec;
  }
  std::vector<LayerCodecs> runs;
  for (LayerCodecs& layer : all) {
    const int owner = shape.at(layer.first).kv_of;
    if (owner >= 0) {
      layer.k_codec = all[static_cast<std::size_t>(owner)].k_codec;
      layer.v_codec = all[static_cast<std::size_t>(owner)].v_codec;
    }
    if (!runs.empty() && runs.back().k_codec == layer.k_codec && runs.back().v_codec == layer.v_codec)
      runs.back().last = layer.last;
    else
      runs.push_back(layer);
  }
  return runs;
}

}  // namespace kvasir::kv
