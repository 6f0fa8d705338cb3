#include "model/key_factors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <variant>

#include "base/check.hpp"
#include "kv/feedback.hpp"
#include "kv/page.hpp"
#include "model/factors.hpp"
#include "model/model.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

// Elements of a row that are looked at: enough for its length, whatever the width of the model.
constexpr std::int64_t kSample = 512;
// Rows of a folder's matrix that are made together: those of 4-bit codes share words.
constexpr std::int64_t kTogether = 128;
// Rows that are summed up together: an addition does not wait for the one before it.
constexpr std::int64_t kAtOnce = 4;
static_assert(kTogether % kAtOnce == 0);
// A head's factors stay within so many times of each other's geometric mean.
constexpr double kMostFactor = 64;
// Of E k^2 E q^2 as the weights of norms give it, what is left when the means of pages are taken off and channels of
// large weights are the quieter ones: 1/5 in Gemma 3 270M.
constexpr double kNormedShare = 0.2;
constexpr double kLeastGain = 1;  // nats^2: a guess that is too low costs more than one that is too high

const weights::Quant& quant_of(const weights::TensorInfo& t) {
  const weights::Quant* quant = find(weights::quants(), t.quant);
  KVASIR_CHECK(quant != nullptr);
  return *quant;
}

// All of a tensor that holds a vector, as floats.
std::vector<float> floats(const Vector& v, const weights::ModelFile& file) {
  const weights::TensorInfo& t = *file.find(v.name);
  std::vector<float> all(static_cast<std::size_t>(t.rows() * t.columns()));
  quant_of(t).dequantise(t.bytes.data(), all.data(), t.rows() * t.columns());
  std::vector<float> part;
  for (std::int64_t i = 0; i < v.rows * v.columns; ++i) part.push_back(all[static_cast<std::size_t>(v.cut.at(i))]);
  return part;
}

// |W_r x|^2 of every row r, on average over x with independent elements of the sizes `input`; empty: 1.
std::vector<double> row_squares(const Linear& l, const std::vector<float>& input, const weights::ModelFile& file) {
  const weights::TensorInfo& t = *file.find(l.name);
  const weights::Quant& quant = quant_of(t);
  double factor = 1;
  if (const weights::TensorInfo* factors = factors_of(file, t)) {
    float f;
    std::memcpy(&f, factors->bytes.data(), sizeof f);
    factor = f;
  }
  const std::int64_t columns = t.columns();
  const std::int64_t unit =
      columns % std::max<std::int64_t>(quant.block, 64) == 0 ? std::max<std::int64_t>(quant.block, 64) : columns;
  const std::int64_t units = columns / unit;
  const std::int64_t taken = std::min(units, std::max<std::int64_t>(kSample / unit, 1));
  const std::size_t unit_bytes = static_cast<std::size_t>(t.row_bytes() / units);
  std::vector<std::byte> room;  // rows that are made, some together
  std::vector<std::int64_t> which;
  std::array<std::vector<std::byte>, kAtOnce> rooms;
  std::array<std::vector<float>, kAtOnce> w;
  for (std::vector<float>& one : w) one.resize(static_cast<std::size_t>(unit));
  std::vector<double> squares(static_cast<std::size_t>(l.rows));
  for (std::int64_t r = 0; r < l.rows; r += kAtOnce) {
    if (t.source && r % kTogether == 0) {
      which.clear();
      for (std::int64_t i = r; i < std::min(l.rows, r + kTogether); ++i) which.push_back(t.row_in_file(l.cut.at(i)));
      room.resize(which.size() * static_cast<std::size_t>(t.row_bytes()));
      t.source->read(which, room.data());
    }
    std::array<const std::byte*, kAtOnce> rows;
    for (std::size_t j = 0; j < kAtOnce; ++j) {  // the last ones again where there are fewer
      const std::int64_t n = std::min(l.rows - 1, r + static_cast<std::int64_t>(j));
      rows[j] = t.source ? room.data() + n % kTogether * t.row_bytes() : t.row(l.cut.at(n), rooms[j]);
    }
    std::array<double, kAtOnce> sums{};
    for (std::int64_t i = 0; i < taken; ++i) {
      const std::int64_t at = i * units / taken;
      for (std::size_t j = 0; j < kAtOnce; ++j)
        quant.dequantise(rows[j] + static_cast<std::size_t>(at) * unit_bytes, w[j].data(), unit);
      for (std::size_t c = 0; c < static_cast<std::size_t>(unit); ++c) {
        const double size = input.empty() ? 1.0 : static_cast<double>(input[static_cast<std::size_t>(at * unit) + c]);
        for (std::size_t j = 0; j < kAtOnce; ++j) {
          const double x = w[j][c] * size;
          sums[j] += x * x;
        }
      }
    }
    for (std::size_t j = 0; j < kAtOnce && r + static_cast<std::int64_t>(j) < l.rows; ++j)
      squares[static_cast<std::size_t>(r) + j] =
          sums[j] * factor * factor * static_cast<double>(units) / static_cast<double>(taken);
  }
  return squares;
}

// Channel c's pair, and what is left of a number that turns with it when its mean over a page is taken off.
struct Pairs {
  std::vector<int> of;        // (d)
  std::vector<double> turns;  // (d): 1 - |mean of exp(i angle t) over a page|^2
};
Pairs pairs_of(const ModelSpec& spec, const Attention& a) {
  Pairs p;
  p.turns.resize(static_cast<std::size_t>(a.d));
  for (int c = 0; c < a.d; ++c) p.of.push_back(c);
  if (a.rope < 0) return p;
  const Rope& rope = spec.ropes[static_cast<std::size_t>(a.rope)];
  const auto pairs = static_cast<int>(rope.frequencies.size());
  for (int i = 0; i < pairs; ++i) {
    const int first = rope.pairs == kernel::RopePairs::kAdjacent ? 2 * i : i;
    const int second = rope.pairs == kernel::RopePairs::kAdjacent ? 2 * i + 1 : i + pairs;
    const double angle = rope.frequencies[static_cast<std::size_t>(i)];
    const double sine = std::sin(angle / 2);
    const double mean = std::abs(sine) < 1e-9 ? 1 : std::sin(kv::kPageTokens * angle / 2) / (kv::kPageTokens * sine);
    p.of[static_cast<std::size_t>(second)] = first;
    p.turns[static_cast<std::size_t>(first)] = p.turns[static_cast<std::size_t>(second)] = 1 - mean * mean;
  }
  return p;
}

// E x^2 of the channels of keys or queries, (heads, d); empty: unknown.
std::vector<double> squares_of(const LayerSpec& layer, const Attention& a, const Linear& l, const Norm& norm,
                               const std::vector<double>& turns, const weights::ModelFile& file) {
  std::vector<double> squares;
  if (norm) {
    if (!norm.weight || norm.kind != NormKind::kRms) return squares;
    const std::vector<float> w = floats(norm.weight, file);
    for (std::int64_t i = 0; i < l.rows; ++i)
      squares.push_back(std::pow(static_cast<double>(w[static_cast<std::size_t>(i) % w.size()]), 2));
    return squares;
  }
  // Without norms and biases every channel depends on how the input is correlated, which the file does not say.
  if (!l.bias || !layer.norm || !layer.norm.weight) return squares;
  squares = row_squares(l, floats(layer.norm.weight, file), file);
  const std::vector<float> bias = floats(l.bias, file);
  for (std::size_t i = 0; i < squares.size(); ++i)
    squares[i] += static_cast<double>(bias[i]) * bias[i] * turns[i % static_cast<std::size_t>(a.d)];
  return squares;
}

// Sums over the channels of each pair, at its first channel.
std::vector<double> by_pair(const double* squares, const Pairs& pairs) {
  std::vector<double> sums(pairs.of.size());
  for (std::size_t c = 0; c < sums.size(); ++c) sums[static_cast<std::size_t>(pairs.of[c])] += squares[c];
  return sums;
}

// s of a head's channels, the `root` of keys / queries: its mean logarithm is 0, so that keys keep their size on the
// whole.
std::vector<float> head_factors(const double* k, const double* q, const Pairs& pairs, int root) {
  const std::vector<double> keys = by_pair(k, pairs), queries = by_pair(q, pairs);
  const double most = std::log(kMostFactor);
  std::vector<double> logs(keys.size());
  double mean = 0;
  for (std::size_t c = 0; c < logs.size(); ++c) {
    const auto pair = static_cast<std::size_t>(pairs.of[c]);
    if (keys[pair] > 0 && queries[pair] > 0) logs[c] = std::log(keys[pair] / queries[pair]) / root;
    mean += logs[c] / static_cast<double>(logs.size());
  }
  std::vector<float> factors;
  for (const double log : logs) factors.push_back(static_cast<float>(std::exp(std::clamp(log - mean, -most, most))));
  return factors;
}

// Factors of one layer from squares by channel, (kv_heads, d); returns its gain.
double balance(const Attention& a, const Pairs& pairs, const double* keys, const double* queries,
               std::vector<float>* factors) {
  const auto d = static_cast<std::size_t>(a.d);
  double gain = 0;
  for (std::size_t h = 0; h < static_cast<std::size_t>(a.kv_heads); ++h, keys += d, queries += d) {
    const std::vector<float> s = head_factors(keys, queries, pairs, 4);
    double key = 0, query = 0;
    for (std::size_t c = 0; c < d; ++c) {
      const double square = static_cast<double>(s[c]) * s[c];
      key += keys[c] / square;
      query += queries[c] * square;
    }
    const double scale = a.scale;
    gain += scale * scale * key * query / static_cast<double>(d) / a.kv_heads;
    factors->insert(factors->end(), s.begin(), s.end());
  }
  return gain;
}

// Of one layer; nothing is added to `factors` where s is 1.
double look_at(const ModelSpec& spec, const LayerSpec& layer, const weights::ModelFile& file,
               std::vector<float>* factors) {
  const auto* const mixer = std::get_if<Attention>(&layer.mixer);
  if (!mixer || !mixer->k || mixer->latent) return kUnknownGain;
  const Attention& a = *mixer;
  const auto d = static_cast<std::size_t>(a.d);
  const auto group = static_cast<std::size_t>(a.heads / a.kv_heads);
  const Pairs pairs = pairs_of(spec, a);
  const std::vector<double> k = squares_of(layer, a, a.k, a.k_norm, pairs.turns, file);
  // A query's bias moves scores as much as the rest of it does.
  const std::vector<double> all = squares_of(layer, a, a.q, a.q_norm, std::vector<double>(d, 1.0), file);
  if (k.empty() || all.empty()) return kUnknownGain;
  std::vector<double> q(k.size());
  for (std::size_t i = 0; i < all.size(); ++i) q[i / (group * d) * d + i % d] += all[i] / static_cast<double>(group);
  const double gain = (a.k_norm ? kNormedShare : 1) * balance(a, pairs, k.data(), q.data(), factors);
  return std::isfinite(gain) ? std::max(gain, kLeastGain) : kUnknownGain;
}

}  // namespace

KeyFacts key_facts(const ModelSpec& spec, const weights::ModelFile& file, bool exact) {
  check_tensors(spec, file, exact);
  KeyFacts facts;
  for (const LayerSpec& layer : spec.layers) {
    facts.factors.emplace_back();
    facts.gains.push_back(look_at(spec, layer, file, &facts.factors.back()));
  }
  return facts;
}

bool has_key_factors(const ModelSpec& spec, int layer) {
  const auto* a = std::get_if<Attention>(&spec.layers[static_cast<std::size_t>(layer)].mixer);
  return a && a->k && !a->latent;
}

namespace {

// A pair of channels as a complex number, x + i y, that RoPE turns by `angle` per position. A channel that does not
// turn is one of angle 0 without a second.
struct Turning {
  std::size_t x;
  std::size_t y;  // x: none
  double angle;
};
std::vector<Turning> turning_pairs(const ModelSpec& spec, const Attention& a) {
  const std::vector<int> first = pairs_of(spec, a).of;
  std::vector<Turning> list;
  std::vector<std::size_t> at(first.size());
  for (std::size_t c = 0; c < first.size(); ++c) {
    if (static_cast<std::size_t>(first[c]) == c) {
      at[c] = list.size();
      list.push_back({c, c, 0});
    } else {
      list[at[static_cast<std::size_t>(first[c])]].y = c;
    }
  }
  if (a.rope < 0) return list;
  const Rope& rope = spec.ropes[static_cast<std::size_t>(a.rope)];
  const auto step = static_cast<std::size_t>(rope.pairs == kernel::RopePairs::kAdjacent ? 2 : 1);
  for (Turning& t : list)
    if (t.x != t.y) t.angle = rope.frequencies[t.x / step];
  return list;
}

// Mean of exp(i angle t) over t = 0 .. kTurns - 1.
std::complex<double> mean_turn(double angle) {
  const double sine = std::sin(angle / 2);
  if (std::abs(sine) < 1e-9) return 1;
  return std::polar(std::sin(kTurns * angle / 2) / (kTurns * sine), (kTurns - 1) * angle / 2);
}

}  // namespace

void average_turns(const ModelSpec& spec, int layer, std::vector<float>* moments) {
  const auto& a = std::get<Attention>(spec.layers[static_cast<std::size_t>(layer)].mixer);
  const auto d = static_cast<std::size_t>(a.d);
  const std::vector<Turning> pairs = turning_pairs(spec, a);
  for (std::size_t head = 0; head + d * d <= moments->size(); head += d * d) {
    float* const h = moments->data() + head;
    for (const Turning& p : pairs)
      for (const Turning& o : pairs) {
        // Of p = x + i y and o = u + i v: E p o* turns by the difference of the angles, E p o by their sum.
        const auto of = [&](std::size_t r, std::size_t c, bool there) {
          return there ? static_cast<double>(h[r * d + c]) : 0.0;
        };
        const bool py = p.y != p.x, oy = o.y != o.x;
        const double xu = of(p.x, o.x, true), yv = of(p.y, o.y, py && oy);
        const double yu = of(p.y, o.x, py), xv = of(p.x, o.y, oy);
        const std::complex<double> difference = std::complex<double>(xu + yv, yu - xv) * mean_turn(p.angle - o.angle);
        const std::complex<double> sum = std::complex<double>(xu - yv, xv + yu) * mean_turn(p.angle + o.angle);
        h[p.x * d + o.x] = static_cast<float>((difference.real() + sum.real()) / 2);
        if (py && oy) h[p.y * d + o.y] = static_cast<float>((difference.real() - sum.real()) / 2);
        if (py) h[p.y * d + o.x] = static_cast<float>((sum.imag() + difference.imag()) / 2);
        if (oy) h[p.x * d + o.y] = static_cast<float>((sum.imag() - difference.imag()) / 2);
      }
  }
}

namespace {

// Factors of one layer whose codecs feed errors back; returns its gain.
double level_out(const Attention& a, const Pairs& pairs, const double* keys, const float* metric,
                 std::vector<float>* factors) {
  const auto d = static_cast<std::size_t>(a.d);
  const std::vector<double> ones(d, 1);
  std::vector<double> scaled(d * d);
  double gain = 0;
  for (std::size_t h = 0; h < static_cast<std::size_t>(a.kv_heads); ++h, keys += d, metric += d * d) {
    const std::vector<float> s = head_factors(keys, ones.data(), pairs, 2);
    double key = 0;
    for (std::size_t c = 0; c < d; ++c) {
      key += keys[c] / (static_cast<double>(s[c]) * s[c]);
      for (std::size_t i = 0; i < d; ++i)
        scaled[c * d + i] =
            static_cast<double>(metric[c * d + i]) * static_cast<double>(s[c]) * static_cast<double>(s[i]);
    }
    const double scale = a.scale;
    gain += scale * scale * key * kv::fed_back_noise(a.d, scaled.data()) / a.kv_heads;
    factors->insert(factors->end(), s.begin(), s.end());
  }
  return gain;
}

}  // namespace

KeyFacts key_facts(const ModelSpec& spec, const kv::GainMeter& meter, std::vector<std::vector<float>> moments,
                   const KeyFacts& known) {
  KeyFacts facts = known;
  facts.metrics.resize(spec.layers.size());
  for (int l = 0; l < spec.layer_count(); ++l) {
    const auto at = static_cast<std::size_t>(l);
    if (!has_key_factors(spec, l) || moments[at].empty()) continue;
    const auto& a = std::get<Attention>(spec.layers[at].mixer);
    const kv::GainMeter::Squares squares = meter.squares(l);
    if (squares.keys.empty()) continue;
    std::vector<float> factors;
    const double gain = level_out(a, pairs_of(spec, a), squares.keys.data(), moments[at].data(), &factors);
    if (!std::isfinite(gain)) continue;
    facts.factors[at] = std::move(factors);
    facts.gains[at] = gain;
    facts.metrics[at] = std::move(moments[at]);
  }
  return facts;
}

}  // namespace kvasir::model
