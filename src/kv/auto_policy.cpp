#include "kv/auto_policy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/splitmix.hpp"
#include "kv/layout.hpp"
#include "kv/spec.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {
namespace {

struct Candidate {
  std::string_view name;
  std::size_t bytes;  // of a page
  double distortion;
};

// By size.
std::vector<Candidate> candidates(int d, Side side) {
  std::vector<Candidate> list;
  for (const Entry<Codec>& entry : kv::codecs()) {
    const Codec& codec = *entry.value;
    CodecParams params;
    if (!codec.automatic || codec.refuse(d, side, &params)) continue;
    const CodecSide& of = side == Side::kKeys ? codec.k : codec.v;
    list.push_back({entry.name, of.bytes(d, params), relative_distortion(codec, params, d, side)});
  }
  std::stable_sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; });
  return list;
}

// The first candidate whose noise, sqrt(gain * distortion), is within the budget.
void choose(std::span<const Candidate> list, double gain, double budget, std::string* codec, double* noise) {
  *codec = "f16";
  *noise = 0;
  for (const Candidate& c : list) {
    const double e = std::sqrt(gain * c.distortion);
    if (!(e <= budget)) continue;  // also when the gain is no number
    *codec = c.name;
    *noise = e;
    return;
  }
}

// Pairs of independent Gaussians by Box and Muller.
void fill_gaussian(float* x, std::size_t n, std::uint64_t seed) {
  const auto uniform = [&] { return (static_cast<double>(splitmix64(seed) >> 11) + 0.5) * 0x1p-53; };
  for (std::size_t i = 0; i < n; i += 2) {
    const double r = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    x[i] = static_cast<float>(r * std::cos(angle));
    if (i + 1 < n) x[i + 1] = static_cast<float>(r * std::sin(angle));
  }
}

const char* raw_name(RawType type) { return type == RawType::kF32 ? "f32" : type == RawType::kF16 ? "f16" : "bf16"; }

}  // namespace

double relative_distortion(const Codec& codec, const CodecParams& params, int d, Side side) {
  using tensor::Buffer;
  using tensor::Tag;
  const bool keys = side == Side::kKeys;
  const CodecSide& of = keys ? codec.k : codec.v;
  const auto size = static_cast<std::size_t>(kPageTokens) * static_cast<std::size_t>(d);
  Buffer state;
  if (codec.state_bytes && codec.state_bytes(d) > 0) {
    state = Buffer(Tag::kScratch, codec.state_bytes(d));
    codec.init_state(state.data(), d, side, 0, 0);
  }
  const Head head{d, params, state.data()};
  const Buffer rows(Tag::kScratch, size * sizeof(float));
  float* x = rows.as<float>();  // (128, d)
  fill_gaussian(x, size, 1);

  const Codec& raw = *find(kv::codecs(), raw_name(codec.raw_type));
  const Buffer block(Tag::kScratch, size * sizeof(float) + kReadSlack);
  (keys ? raw.write_k : raw.write_v)(block.data(), kPageTokens, 0, kPageTokens, x, d, d);
  const Buffer page(Tag::kScratch, of.bytes(d, params) + kReadSlack);
  const Buffer scratch(Tag::kScratch, seal_floats(d) * sizeof(float));
  of.seal(head, block.data(), 0, scratch.as<float>(), page.data());
  const int panels = (d + kPanel - 1) / kPanel;
  const Buffer tile(Tag::kScratch, static_cast<std::size_t>(kPageTokens * panels * kPanel) * sizeof(float));
  of.unseal(head, {page.data(), 0, kPageTokens, kPageTokens}, tile.as<float>());

  if (of.to_basis) of.to_basis(head, kPageTokens, x, d);  // an orthogonal map: errors keep their size
  double error = 0;
  double energy = 0;
  for (int t = 0; t < kPageTokens; ++t)
    for (int c = 0; c < d; ++c) {
      const float y = tile.as<float>()[keys ? (t / kPanel * d + c) * kPanel + t % kPanel
                                            : (c / kPanel * kPageTokens + t) * kPanel + c % kPanel];
      const double truth = x[t * d + c];
      error += (truth - y) * (truth - y);
      energy += truth * truth;
    }
  return error / energy;
}

AutoChoice choose_codecs(const CacheShape& shape, std::span<const double> gains, double budget) {
  KVASIR_CHECK(budget > 0 && gains.size() <= shape.layers.size());
  std::map<std::pair<int, Side>, std::vector<Candidate>> known;
  const auto list = [&](int d, Side side) -> const std::vector<Candidate>& {
    auto [at, is_new] = known.try_emplace({d, side});
    if (is_new) at->second = candidates(d, side);
    return at->second;
  };
  AutoChoice choice;
  choice.budget = budget;
  for (std::size_t l = 0; l < gains.size(); ++l) {
    const LayerShape& s = shape.layers[l];
    AutoLayer layer;
    if (!s.attends()) {
      choice.layers.push_back({"f16", "f16"});  // of nothing
      continue;
    }
    // Latent keys are values, too.
    choose(list(s.head_dim, Side::kKeys), gains[l] + (s.latent ? 1 : 0), budget, &layer.k_codec, &layer.k_noise);
    if (s.latent)
      layer.v_codec = layer.k_codec;
    else
      choose(list(s.head_dim_v, Side::kValues), 1, budget, &layer.v_codec, &layer.v_noise);
    choice.layers.push_back(std::move(layer));
  }
  return choice;
}

std::vector<LayerCodecs> AutoChoice::codecs() const {
  std::vector<LayerCodecs> list;
  for (int l = 0; const AutoLayer& layer : layers) {
    if (!list.empty() && list.back().k_codec == layer.k_codec && list.back().v_codec == layer.v_codec)
      list.back().last = l;
    else
      list.push_back({l, l, layer.k_codec, layer.v_codec});
    ++l;
  }
  return list;
}

double AutoChoice::largest_noise() const {
  double noise = 0;
  for (const AutoLayer& layer : layers) noise = std::max({noise, layer.k_noise, layer.v_noise});
  return noise;
}

std::string AutoChoice::text() const {
  char numbers[96] = "";
  if (largest_noise() > 0)
    std::snprintf(numbers, sizeof numbers, "; noise at most %.3f of %.3g nats", largest_noise(), budget);
  return codecs_text(codecs()) + numbers + " (" + source + ")";
}

GainMeter::GainMeter(const CacheShape& shape, float scale, int sinks)
    : shape_(shape), scale_(scale), sinks_(sinks), layers_(shape.layers.size()) {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const LayerShape& s = shape.layers[l];
    const auto d = static_cast<std::size_t>(s.head_dim);
    layer.query_squares.resize(static_cast<std::size_t>(s.query_heads) * d);
    layer.heads.resize(static_cast<std::size_t>(s.kv_heads));
    for (Head& head : layer.heads) {
      head.page.sum.resize(d);
      head.page.squares.resize(d);
      head.deviations.resize(d);
    }
  }
}

void GainMeter::close_page(Head& head) const {
  PageSums& p = head.page;
  if (p.count > 1) {
    for (std::size_t c = 0; c < p.sum.size(); ++c)
      head.deviations[c] += p.squares[c] - p.sum[c] * p.sum[c] / static_cast<double>(p.count);
    head.degrees += p.count - 1;
  }
  std::fill(p.sum.begin(), p.sum.end(), 0);
  std::fill(p.squares.begin(), p.squares.end(), 0);
  p.count = 0;
}

void GainMeter::add(int layer_index, std::int64_t first, int n, const float* q, const float* k) {
  if (!k) return;
  Layer& layer = layers_[static_cast<std::size_t>(layer_index)];
  const LayerShape& shape = shape_.at(layer_index);
  const int d = shape.head_dim;
  for (int r = 0; r < n; ++r) {
    const std::int64_t position = first + r;
    if (position % kPageTokens == 0)
      for (Head& head : layer.heads) close_page(head);
    const float* query = q + static_cast<std::ptrdiff_t>(r) * shape.query_heads * d;
    const float* key = k + static_cast<std::ptrdiff_t>(r) * shape.kv_heads * d;
    if (position < sinks_) continue;
    for (double& squares : layer.query_squares) {
      squares += static_cast<double>(*query) * *query;
      ++query;
    }
    for (Head& head : layer.heads) {
      for (std::size_t c = 0; c < head.page.sum.size(); ++c, ++key) {
        head.page.sum[c] += *key;
        head.page.squares[c] += static_cast<double>(*key) * *key;
      }
      ++head.page.count;
    }
    ++layer.tokens;
  }
}

std::int64_t GainMeter::tokens() const {
  std::int64_t least = -1;
  for (std::size_t l = 0; l < layers_.size(); ++l)
    if (shape_.layers[l].attends() && shape_.layers[l].kv_of < 0)
      least = least < 0 ? layers_[l].tokens : std::min(least, layers_[l].tokens);
  return std::max<std::int64_t>(least, 0);
}

GainMeter::Squares GainMeter::squares(int layer_index) const {
  const Layer& layer = layers_[static_cast<std::size_t>(layer_index)];
  Squares of;
  if (layer.tokens == 0) return of;
  const LayerShape& s = shape_.at(layer_index);
  const auto d = static_cast<std::size_t>(s.head_dim);
  of.queries.resize(layer.heads.size() * d);
  for (std::size_t i = 0; i < layer.query_squares.size(); ++i)
    of.queries[i / d / static_cast<std::size_t>(s.group()) * d + i % d] +=
        layer.query_squares[i] / static_cast<double>(layer.tokens) / s.group();
  for (Head head : layer.heads) {
    close_page(head);
    for (const double deviations : head.deviations)
      of.keys.push_back(deviations / static_cast<double>(std::max<std::int64_t>(head.degrees, 1)));
  }
  return of;
}

std::vector<double> GainMeter::gains() const {
  const auto total = [](std::span<const double> x) { return std::accumulate(x.begin(), x.end(), 0.0); };
  std::vector<double> gains;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const LayerShape& s = shape_.layers[l];
    if (!s.attends()) {
      gains.push_back(1);
      continue;
    }
    const auto d = static_cast<std::size_t>(s.head_dim);
    double worst = 0;
    for (std::size_t h = 0; h < static_cast<std::size_t>(s.query_heads); ++h) {
      Head head = layer.heads[h / static_cast<std::size_t>(s.group())];
      close_page(head);
      const double key = total(head.deviations) / static_cast<double>(std::max<std::int64_t>(head.degrees, 1));
      const double query = total(std::span(layer.query_squares).subspan(h * d, d)) /
                           static_cast<double>(std::max<std::int64_t>(layer.tokens, 1));
      worst = std::max(worst, scale_ * scale_ * query * key / s.head_dim);
    }
    gains.push_back(worst);
  }
  return gains;
}

}  // namespace kvasir::kv
