#include "kv/share_policy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "kv/codec.hpp"
#include "kv/spec.hpp"

namespace kvasir::kv {
namespace {

// What a side of a layer may be stored as.
struct Width {
  std::string codec;
  double bytes;       // of a page of one head
  double distortion;  // of Gaussian rows
};

// By size, each losing less than those before it. Empty where no codec that shares go to takes such heads.
std::vector<Width> widths_of(int d, Side side) {
  std::vector<Width> all;
  for (const Entry<Codec>& entry : codecs()) {
    CodecParams params;
    if (!entry.value->share_distortion || entry.value->refuse(d, side, &params)) continue;
    std::string name = std::string(entry.name) + entry.value->share_params;
    const CodecSpec spec = parse_codec(name, d, side, "");
    const CodecSide& of = side == Side::kKeys ? spec.codec->k : spec.codec->v;
    all.push_back({std::move(name), static_cast<double>(of.bytes(d, spec.params)), spec.codec->share_distortion()});
  }
  std::sort(all.begin(), all.end(), [](const Width& a, const Width& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.distortion < b.distortion;
  });
  std::vector<Width> useful;
  for (Width& w : all)
    if (useful.empty() || w.distortion < useful.back().distortion) useful.push_back(std::move(w));
  return useful;
}

// One side of one layer.
struct Store {
  int layer;
  Side side;
  int heads;
  double gain;
  const std::vector<Width>* widths;
  std::size_t width = 0;

  const Width& at(std::size_t w) const { return (*widths)[w]; }
  double bytes(std::size_t w) const { return at(w).bytes * heads; }
  bool widest() const { return width + 1 == widths->size(); }
  double saved() const { return gain * (at(width).distortion - at(width + 1).distortion); }
  double cost() const { return bytes(width + 1) - bytes(width); }
};

// Spends `left` bytes above the fewest.
void spend(std::vector<Store>& stores, double left) {
  for (;;) {
    Store* best = nullptr;
    for (Store& s : stores) {
      if (s.widest() || s.cost() > left) continue;
      if (!best || s.saved() * best->cost() > best->saved() * s.cost()) best = &s;
    }
    if (!best) return;
    left -= best->cost();
    ++best->width;
  }
}

}  // namespace

std::vector<LayerCodecs> share_out(const CacheShape& shape, std::span<const double> gains, double share) {
  KVASIR_CHECK(share > 0 && gains.size() <= shape.layers.size());
  std::vector<LayerCodecs> all;
  for (int l = 0; l < shape.count(); ++l) all.push_back({l, l, "f16", "f16"});
  std::map<std::pair<int, Side>, std::vector<Width>> known;
  for (const bool local : {false, true}) {
    std::vector<Store> stores;
    double left = 0;
    for (int l = 0; l < shape.count(); ++l) {
      const LayerShape& s = shape.at(l);
      if (!s.attends() || s.kv_of >= 0 || (s.window > 0) != local) continue;
      for (const Side side : {Side::kKeys, Side::kValues}) {
        const int d = side == Side::kKeys ? s.head_dim : s.head_dim_v;
        const auto [widths, is_new] = known.try_emplace({d, side});
        if (is_new) widths->second = widths_of(d, side);
        if (widths->second.empty() || (side == Side::kValues && s.latent)) continue;
        const double gain = side == Side::kKeys ? gains[static_cast<std::size_t>(l)] : 1;
        // Latent keys are values, too.
        stores.push_back({l, side, s.kv_heads, s.latent ? gain + 1 : gain, &widths->second});
        left += share * 2 * kPageTokens * s.kv_heads * d - stores.back().bytes(0);
      }
    }
    spend(stores, left);
    for (const Store& s : stores) {
      LayerCodecs& layer = all[static_cast<std::size_t>(s.layer)];
      (s.side == Side::kKeys ? layer.k_codec : layer.v_codec) = s.at(s.width).codec;
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
