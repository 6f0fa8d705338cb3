// For tests: a file of random weights for any specification, and what a specification means, in float64, one row after
// the other, as plainly as it can be written.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "model/spec.hpp"
#include "model/spec_fields.hpp"
#include "weights/model_file.hpp"
#include "weights/quant.hpp"

namespace kvasir::model::testing {

// Matrices keep the size of what they multiply, norms are about 1, biases and scales are not small.
class RandomFile : public weights::ModelFile {
 public:
  explicit RandomFile(const ModelSpec& spec, std::string matrices = "f32", std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const TensorSpec& t : tensors_of(spec)) {
      std::vector<float> values(static_cast<std::size_t>(t.rows * t.columns));
      const bool vector = t.use == TensorSpec::Use::kVector;
      const float size = t.use == TensorSpec::Use::kMatrix ? 1.0f / std::sqrt(static_cast<float>(t.columns)) : 0.5f;
      for (float& v : values) v = normal(random) * size + (vector && !t.name.ends_with(".bias") ? 1.0f : 0.0f);
      if (t.name.ends_with("ssm_a"))  // states forget
        for (float& v : values) v = -std::abs(v);
      add(t.name, vector ? "f32" : matrices, t.shape(), values);
    }
  }
  void add(const std::string& name, const std::string& type, std::int64_t rows, std::int64_t columns,
           const std::vector<float>& values) {
    add(name, type, {columns, rows}, values);
  }
  void add(const std::string& name, const std::string& type, const std::vector<std::int64_t>& shape,
           const std::vector<float>& values) {
    const weights::Quant& quant = *kvasir::find(weights::quants(), type);
    std::vector<std::byte>& bytes = bytes_[name];
    bytes.resize(values.size() / static_cast<std::size_t>(quant.block) * static_cast<std::size_t>(quant.block_bytes));
    quant.quantise(values.data(), bytes.data(), static_cast<std::int64_t>(values.size()));
    tensors_.push_back({name, type, {1, 1, 1, 1}, static_cast<int>(shape.size()), bytes});
    std::copy(shape.begin(), shape.end(), tensors_.back().shape.begin());
  }
  void remove(const std::string& name) {
    std::erase_if(tensors_, [&](const weights::TensorInfo& t) { return t.name == name; });
  }
  const weights::Metadata& metadata() const override { return metadata_; }
  std::span<const weights::TensorInfo> tensors() const override { return tensors_; }
  const weights::TensorInfo* find(std::string_view name) const override {
    for (const auto& t : tensors_)
      if (t.name == name) return &t;
    return nullptr;
  }
  void drop(std::span<const std::byte>) const override {}

 private:
  weights::Metadata metadata_{"random.gguf"};
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::vector<weights::TensorInfo> tensors_;
};

using Row = std::vector<double>;

class Reference {
 public:
  Reference(const ModelSpec& spec, const weights::ModelFile& file) : spec_(spec), file_(file) {}

  // Logits of every token of one sequence. states: with Embedding::join.
  std::vector<Row> logits(const std::vector<std::int32_t>& ids, const std::vector<Row>& states = {}) {
    std::vector<Row> x;
    for (std::size_t p = 0; p < ids.size(); ++p) x.push_back(embed(ids[p], p));
    if (const Join& join = spec_.embedding.join)
      for (std::size_t p = 0; p < ids.size(); ++p) {
        Row both = norm(join.norm, x[p]);
        const Row state = norm(join.state_norm, states.at(p));
        both.insert(both.end(), state.begin(), state.end());
        x[p] = product(join.both, both);
      }
    second_.clear();
    if (const Vector& second = spec_.embedding.second) second_.assign(ids.size(), tensor_row(second.name, 0));
    keys_.assign(spec_.layers.size(), {});
    values_.assign(spec_.layers.size(), {});
    for (std::size_t l = 0; l < spec_.layers.size(); ++l) layer(l, x);
    for (Row& row : x) {
      row = product(spec_.head.output, norm(spec_.head.norm, row));
      for (double& v : row) v = capped(v * static_cast<double>(spec_.head.scale), spec_.head.soft_cap);
    }
    return x;
  }

 private:
  static double capped(double v, double cap) { return cap > 0 ? cap * std::tanh(v / cap) : v; }

  Row tensor_row(const std::string& name, std::int64_t row) const {
    const weights::TensorInfo& t = *file_.find(name);
    const weights::Quant& quant = *kvasir::find(weights::quants(), t.quant);
    std::vector<float> values(static_cast<std::size_t>(t.columns()));
    quant.dequantise(t.bytes.data() + row * (static_cast<std::int64_t>(t.bytes.size()) / t.rows()), values.data(),
                     t.columns());
    return {values.begin(), values.end()};
  }
  double element(const Vector& v, std::int64_t i) const {
    return tensor_row(v.name, 0)[static_cast<std::size_t>(v.cut.first + i)];
  }

  Row embed(std::int32_t id, std::size_t position) const {
    const Embedding& e = spec_.embedding;
    Row x = tensor_row(e.tokens.name, id);
    for (double& v : x) v *= static_cast<double>(e.scale);
    if (e.positions) {
      const Row learned = tensor_row(e.positions.name, static_cast<std::int64_t>(position));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += learned[i];
    }
    return norm(e.norm, x);
  }

  Row norm(const Norm& n, const Row& x) const {
    if (!n) return x;
    Row weight;
    for (std::int64_t r = 0; r < n.weight.rows && n.weight; ++r)
      for (const double w : tensor_row(n.weight.name, r)) weight.push_back(w);
    if (!n.weight) weight = {1.0};
    const Row bias = n.bias ? tensor_row(n.bias.name, 0) : Row{0.0};
    Row out(x.size());
    const auto width = static_cast<std::size_t>(n.width);
    for (std::size_t from = 0; from < x.size(); from += width) {
      double mean = 0, square = 0;
      for (std::size_t i = from; i < from + width; ++i) mean += x[i] / static_cast<double>(width);
      if (n.kind == NormKind::kRms) mean = 0;
      for (std::size_t i = from; i < from + width; ++i)
        square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(width);
      for (std::size_t i = from; i < from + width; ++i)
        out[i] = (x[i] - mean) / std::sqrt(square + static_cast<double>(n.eps)) * weight[i % weight.size()] +
                 bias[i % bias.size()];
    }
    return out;
  }

  static void clamp(Row& x, double most) {
    if (most > 0)
      for (double& v : x) v = std::clamp(v, -most, most);
  }

  // Queries or keys of one row.
  Row heads_of(const Attention& a, const Linear& l, const Norm& n, const Row& h, std::size_t position) const {
    Row x = product(l, h);
    clamp(x, static_cast<double>(a.clamp));
    if (!a.norm_after_rope) x = norm(n, x);
    rotate(x, a.d, a.rope, position);
    return a.norm_after_rope ? norm(n, x) : x;
  }

  static void heat(Row& q, const Temperature& t, std::size_t position) {
    if (!t) return;
    const double times =
        std::floor(static_cast<double>(static_cast<std::int64_t>(position) + t.offset) / static_cast<double>(t.length));
    for (double& v : q) v *= 1 + static_cast<double>(t.scale) * std::log(1 + times);
  }

  void gate(const Attention& a, const Row& g, Row& heads) const {
    for (std::size_t i = 0; i < heads.size(); ++i)
      heads[i] *= activated(a.gate_activation, g[i * g.size() / heads.size()]);
  }

  Row product(const Linear& l, const Row& x) const { return product(l.name, l.rows, l.cut, l.bias, 0, x); }
  // With matrix `i` of a stack.
  Row product(const Stack& s, std::int64_t i, const Row& x) const {
    return product(s.name, s.rows, {.first = i * (s.cut.of > 0 ? s.cut.of : s.rows) + s.cut.first}, s.bias, i, x);
  }
  Row product(const std::string& name, std::int64_t rows, const Cut& cut, const Vector& b, std::int64_t bias_row,
              const Row& x) const {
    Row y;
    const Row bias = b ? tensor_row(b.name, bias_row) : Row{};
    for (std::int64_t r = 0; r < rows; ++r) {
      const Row w = tensor_row(name, cut.at(r));
      double sum = b ? bias[static_cast<std::size_t>(b.cut.at(r))] : 0;
      for (std::size_t i = 0; i < w.size(); ++i) sum += w[i] * x[i];
      y.push_back(sum);
    }
    return y;
  }

  void rotate(Row& x, int d, int rope, std::size_t position) const {
    if (rope < 0) return;
    const Rope& r = spec_.ropes[static_cast<std::size_t>(rope)];
    const std::size_t pairs = r.frequencies.size();
    for (std::size_t head = 0; head < x.size(); head += static_cast<std::size_t>(d))
      for (std::size_t i = 0; i < pairs; ++i) {
        const bool adjacent = r.pairs == kernel::RopePairs::kAdjacent;
        double& a = x[head + (adjacent ? 2 * i : i)];
        double& b = x[head + (adjacent ? 2 * i + 1 : i + pairs)];
        const double angle = static_cast<double>(position) * r.frequencies[i];
        const double c = std::cos(angle) * static_cast<double>(r.magnitude);
        const double s = std::sin(angle) * static_cast<double>(r.magnitude);
        const double turned = a * c - b * s;
        b = a * s + b * c;
        a = turned;
      }
  }

  // --- states -------------------------------------------------------------------------------------------------------

  Row whole(const Vector& v) const {
    Row all;
    for (std::int64_t r = 0; r < v.rows && v; ++r)
      for (const double x : tensor_row(v.name, r)) all.push_back(x);
    return all;
  }
  static double silu(double v) { return v / (1 + std::exp(-v)); }
  static double softplus(double v) { return std::log1p(std::exp(v)); }
  static double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

  // Of row p, with zeros before the first.
  Row convolved(const Convolution& c, const std::vector<Row>& rows, std::size_t p) const {
    const Row weight = whole(c.weight), bias = whole(c.bias);
    const auto taps = static_cast<std::size_t>(c.taps);
    Row out(rows[p].size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (c.bias) out[i] = bias[i];
      for (std::size_t j = 0; j < taps && j <= p; ++j) out[i] += weight[i * taps + taps - 1 - j] * rows[p - j][i];
    }
    return out;
  }
  std::vector<Row> products(const Linear& l, const std::vector<Row>& x) const {
    std::vector<Row> all;
    for (const Row& row : x) all.push_back(product(l, row));
    return all;
  }
  static Row times(Row a, const Row& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
    return a;
  }
  static Row part(const Row& x, std::size_t first, std::size_t n) {
    return {x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(first + n)};
  }

  std::vector<Row> mix(const NoMixer&, std::size_t, const std::vector<Row>& h) const {
    return std::vector<Row>(h.size(), Row(static_cast<std::size_t>(spec_.dim)));
  }

  std::vector<Row> mix(const ShortConv& c, std::size_t, const std::vector<Row>& h) const {
    std::vector<Row> rows, out;
    for (const Row& x : h) rows.push_back(times(product(c.b, x), product(c.u, x)));
    for (std::size_t p = 0; p < h.size(); ++p)
      out.push_back(product(c.o, times(product(c.c, h[p]), convolved(c.convolution, rows, p))));
    return out;
  }

  // What a state (keys, values) answers, and what it becomes.
  struct State {
    std::size_t d, dv;
    Row s = Row(d * dv);
    Row take(const Row& q, const Row& k, const Row& v, double decay, double strength, bool delta) {
      Row out(dv);
      for (std::size_t c = 0; c < dv; ++c) {
        double known = 0;
        for (std::size_t i = 0; i < d; ++i) {
          s[i * dv + c] *= decay;
          known += s[i * dv + c] * k[i];
        }
        const double u = strength * (v[c] - (delta ? known : 0));
        for (std::size_t i = 0; i < d; ++i) {
          s[i * dv + c] += k[i] * u;
          out[c] += s[i * dv + c] * q[i];
        }
      }
      return out;
    }
  };
  static Row unit(Row x, double least) {
    double square = 0;
    for (const double v : x) square += v * v;
    for (double& v : x) v /= std::max(std::sqrt(square), least);
    return x;
  }

  std::vector<Row> mix(const Delta& m, std::size_t, const std::vector<Row>& h) const {
    const auto d = static_cast<std::size_t>(m.d), dv = static_cast<std::size_t>(m.dv);
    const auto groups = static_cast<std::size_t>(m.key_heads), heads = static_cast<std::size_t>(m.value_heads);
    const std::size_t r = heads / groups;
    std::vector<Row> rows, gates, as, bs;
    for (const Row& x : h) {
      Row qkv, z, b, a;
      if (m.qkvz) {
        const Row all = product(m.qkvz, x);
        qkv.resize(2 * groups * d + heads * dv);
        for (std::size_t g = 0; g < groups; ++g) {
          const std::size_t from = g * 2 * (d + r * dv);
          for (std::size_t i = 0; i < d; ++i) {
            qkv[g * d + i] = all[from + i];
            qkv[(groups + g) * d + i] = all[from + d + i];
          }
          for (std::size_t i = 0; i < r * dv; ++i) {
            qkv[2 * groups * d + g * r * dv + i] = all[from + 2 * d + i];
            z.push_back(all[from + 2 * d + r * dv + i]);
          }
        }
      } else {
        qkv = product(m.qkv, x);
        z = product(m.z, x);
      }
      if (m.ba) {
        const Row all = product(m.ba, x);
        for (std::size_t j = 0; j < heads; ++j) {
          b.push_back(all[j / r * 2 * r + j % r]);
          a.push_back(all[j / r * 2 * r + r + j % r]);
        }
      } else {
        b = product(m.beta, x);
        a = product(m.alpha, x);
      }
      rows.push_back(qkv);
      gates.push_back(z);
      as.push_back(a);
      bs.push_back(b);
    }
    const Row dt = whole(m.dt), decay = whole(m.decay);
    std::vector<State> states(heads, State{d, dv});
    std::vector<Row> out;
    for (std::size_t p = 0; p < h.size(); ++p) {
      Row y = convolved(m.convolution, rows, p), all;
      for (double& v : y) v = silu(v);
      for (std::size_t j = 0; j < heads; ++j) {
        const std::size_t g = m.tiled ? j % groups : j / r;
        Row q = unit(part(y, g * d, d), static_cast<double>(m.eps));
        for (double& v : q) v /= std::sqrt(static_cast<double>(d));
        const Row k = unit(part(y, (groups + g) * d, d), static_cast<double>(m.eps));
        const Row o =
            norm(m.norm, states[j].take(q, k, part(y, 2 * groups * d + j * dv, dv),
                                        std::exp(softplus(as[p][j] + dt[j]) * decay[j]), sigmoid(bs[p][j]), true));
        for (std::size_t i = 0; i < dv; ++i) all.push_back(o[i] * silu(gates[p][j * dv + i]));
      }
      out.push_back(product(m.o, all));
    }
    return out;
  }

  std::vector<Row> mix(const KeyedDelta& m, std::size_t, const std::vector<Row>& h) const {
    const auto d = static_cast<std::size_t>(m.d), dv = static_cast<std::size_t>(m.dv);
    const auto heads = static_cast<std::size_t>(m.heads);
    std::vector<Row> q, k, v;
    for (const Row& x : h) {
      if (m.qkv) {
        const Row all = product(m.qkv, x);
        q.push_back(part(all, 0, heads * d)), k.push_back(part(all, heads * d, heads * d));
        v.push_back(part(all, 2 * heads * d, heads * dv));
      } else {
        q.push_back(product(m.q, x)), k.push_back(product(m.k, x)), v.push_back(product(m.v, x));
      }
    }
    const auto through = [&](const Linear& down, const Linear& up, const Row& x) {
      return product(up, down ? product(down, x) : x);
    };
    const Row dt = whole(m.dt), decay = whole(m.decay);
    const auto silus = [](Row x) {
      for (double& y : x) y = silu(y);
      return x;
    };
    std::vector<State> states(heads, State{d, dv});
    std::vector<Row> out;
    for (std::size_t p = 0; p < h.size(); ++p) {
      const Row a = through(m.a_down, m.a, h[p]), z = through(m.z_down, m.z, h[p]), b = product(m.beta, h[p]);
      const Row yq = silus(convolved(m.q_convolution, q, p)), yk = silus(convolved(m.k_convolution, k, p));
      const Row yv = silus(convolved(m.v_convolution, v, p));
      Row all;
      for (std::size_t j = 0; j < heads; ++j) {
        Row forget;
        for (std::size_t i = 0; i < d; ++i) {
          const double x = a[j * d + i] + dt[j * d + i];
          forget.push_back(std::exp(m.floor == 0 ? -std::abs(decay[j]) * softplus(x)
                                                 : static_cast<double>(m.floor) * sigmoid(std::abs(decay[j]) * x)));
        }
        for (std::size_t i = 0; i < d; ++i)
          for (std::size_t c = 0; c < dv; ++c) states[j].s[i * dv + c] *= forget[i];
        Row unit_q = unit(part(yq, j * d, d), static_cast<double>(m.eps));
        for (double& x : unit_q) x /= std::sqrt(static_cast<double>(d));
        const Row o = norm(m.norm, states[j].take(unit_q, unit(part(yk, j * d, d), static_cast<double>(m.eps)),
                                                  part(yv, j * dv, dv), 1.0, sigmoid(b[j]), true));
        for (std::size_t i = 0; i < dv; ++i) all.push_back(o[i] * sigmoid(z[j * dv + i]));
      }
      out.push_back(product(m.o, all));
    }
    return out;
  }

  std::vector<Row> mix(const Mamba& m, std::size_t, const std::vector<Row>& h) const {
    const auto n = static_cast<std::size_t>(m.state), channels = static_cast<std::size_t>(m.channels);
    const std::vector<Row> rows = products(m.x, h), z = products(m.z, h);
    const Row decay = whole(m.decay), skip = whole(m.skip);
    std::vector<State> states(channels, State{n, 1});
    std::vector<Row> out;
    for (std::size_t p = 0; p < h.size(); ++p) {
      Row u = convolved(m.convolution, rows, p), all;
      for (double& v : u) v = silu(v);
      const Row k = norm(m.k_norm, product(m.k, u)), q = norm(m.q_norm, product(m.q, u));
      const Row steps = product(m.dt, norm(m.t_norm, product(m.t, u)));
      for (std::size_t c = 0; c < channels; ++c) {
        const double step = softplus(steps[c]);
        for (std::size_t i = 0; i < n; ++i) states[c].s[i] *= std::exp(step * decay[c * n + i]);
        const Row o = states[c].take(q, k, {u[c]}, 1.0, step, false);
        all.push_back((o[0] + skip[c] * u[c]) * silu(z[p][c]));
      }
      out.push_back(product(m.o, all));
    }
    return out;
  }

  std::vector<Row> mix(const Mamba2& m, std::size_t, const std::vector<Row>& h) const {
    const auto n = static_cast<std::size_t>(m.state), width = static_cast<std::size_t>(m.head_dim);
    const auto heads = static_cast<std::size_t>(m.heads), groups = static_cast<std::size_t>(m.groups);
    const std::vector<Row> rows = products(m.x, h), z = products(m.z, h), dt = products(m.dt, h);
    const Row bias = whole(m.bias), decay = whole(m.decay), skip = whole(m.skip);
    std::vector<State> states(heads, State{n, width});
    std::vector<Row> out;
    for (std::size_t p = 0; p < h.size(); ++p) {
      Row y = convolved(m.convolution, rows, p), all;
      for (double& v : y) v = silu(v);
      for (std::size_t j = 0; j < heads; ++j) {
        const std::size_t g = j / (heads / groups);
        const Row v = part(y, j * width, width), k = part(y, heads * width + g * n, n);
        const Row q = part(y, heads * width + (groups + g) * n, n);
        const double step = softplus(dt[p][j] + bias[j]);
        const Row o = states[j].take(q, k, v, std::exp(step * decay[j]), step, false);
        for (std::size_t i = 0; i < width; ++i) all.push_back((o[i] + skip[j] * v[i]) * silu(z[p][j * width + i]));
      }
      out.push_back(product(m.o, norm(m.norm, all)));
    }
    return out;
  }

  // --- layers -------------------------------------------------------------------------------------------------------

  void layer(std::size_t number, std::vector<Row>& x) {
    const LayerSpec& l = spec_.layers[number];
    for (std::size_t p = 0; l.second != Second::kNone && p < x.size(); ++p) {
      const Row before = x[p];
      for (std::size_t i = 0; i < before.size(); ++i) x[p][i] += second_[p][i];
      if (l.second == Second::kSwapped) second_[p] = before;
    }
    std::vector<Row> normed;
    for (const Row& row : x) normed.push_back(norm(l.norm, row));
    std::vector<Row> mixed = std::visit([&](const auto& m) { return mix(m, number, normed); }, l.mixer);
    if (l.beside) {
      const std::vector<Row> more = mix(l.beside, number, normed);
      for (std::size_t p = 0; p < x.size(); ++p)
        for (std::size_t i = 0; i < x[p].size(); ++i) mixed[p][i] += more[p][i];
    }
    const double scale = l.output_scale ? element(l.output_scale, 0) : 1.0;
    for (std::size_t p = 0; p < x.size(); ++p) {
      if (!std::holds_alternative<NoMixer>(l.mixer)) mixed[p] = norm(l.post_mixer, mixed[p]);
      Row sum = x[p];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(l.residual_scale) * mixed[p][i];
      const Row h = norm(l.feed_norm, l.parallel ? x[p] : sum);
      const Row fed = std::visit(
          [&](const auto& f) {
            if constexpr (requires { feed(f, h, h); })
              return feed(f, h, std::holds_alternative<Experts>(l.feed) ? h : sum);
            else
              return feed(f, h);
          },
          l.feed);
      const Row more = std::holds_alternative<NoFeed>(l.feed) ? fed : norm(l.post_feed, fed);
      for (std::size_t i = 0; i < sum.size(); ++i)
        x[p][i] = (sum[i] + static_cast<double>(l.residual_scale) * more[i]) * scale;
      x[p] = norm(l.end_norm, x[p]);
    }
  }

  std::vector<Row> mix(const Attention& a, std::size_t number, const std::vector<Row>& x) {
    std::vector<Row> queries, gates, out;
    for (std::size_t p = 0; p < x.size(); ++p) {
      const Row& h = x[p];
      queries.push_back(heads_of(a, a.q, a.q_norm, h, p));
      heat(queries[p], a.temperature, p);
      if (a.gate) gates.push_back(product(a.gate, h));
      if (a.kv_of >= 0) continue;
      keys_[number].push_back(heads_of(a, a.k, a.k_norm, h, p));
      values_[number].push_back(product(a.v_of_k ? a.k : a.v, h));
      clamp(values_[number][p], static_cast<double>(a.clamp));
      values_[number][p] = norm(a.v_norm, values_[number][p]);
    }
    const std::size_t source = a.kv_of >= 0 ? static_cast<std::size_t>(a.kv_of) : number;
    for (std::size_t p = 0; p < x.size(); ++p) {
      Row heads = attend(a, queries[p], keys_[source], values_[source], p);
      if (a.gate) gate(a, gates[p], heads);
      out.push_back(product(a.o, heads));
    }
    return out;
  }

  Row attend(const Attention& a, const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values,
             std::size_t position) const {
    Row out;
    const auto d = static_cast<std::size_t>(a.d), dv = static_cast<std::size_t>(a.dv);
    const auto window = static_cast<std::size_t>(a.window);
    std::size_t first = window > 0 && position + 1 > window ? position + 1 - window : 0;
    if (a.chunked) first = position - position % window;
    for (std::size_t h = 0; h < static_cast<std::size_t>(a.heads); ++h) {
      const std::size_t kv = h * static_cast<std::size_t>(a.kv_heads) / static_cast<std::size_t>(a.heads);
      Row weights, sum(dv);
      double total = a.sinks ? std::exp(element(a.sinks, static_cast<std::int64_t>(h))) : 0;
      for (std::size_t t = first; t <= position; ++t) {
        double score = 0;
        for (std::size_t i = 0; i < d; ++i) score += q[h * d + i] * keys[t][kv * d + i];
        score = capped(score * static_cast<double>(a.scale), a.soft_cap);
        if (!a.slopes.empty()) score -= static_cast<double>(a.slopes[h]) * static_cast<double>(position - t);
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      for (std::size_t t = first; t <= position; ++t)
        for (std::size_t i = 0; i < dv; ++i) sum[i] += weights[t - first] / total * values[t][kv * dv + i];
      out.insert(out.end(), sum.begin(), sum.end());
    }
    return out;
  }

  static double activated(Activation activation, double v) {
    switch (activation) {
      case Activation::kSilu:
        return v / (1 + std::exp(-v));
      case Activation::kGeluTanh:
        return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      case Activation::kGeluErf:
        return v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
      case Activation::kRelu:
        return v > 0 ? v : 0;
      case Activation::kRelu2:
        return v > 0 ? v * v : 0;
      case Activation::kSigmoid:
        return 1 / (1 + std::exp(-v));
      case Activation::kClampedSilu:
        return std::min(v, 7.0) / (1 + std::exp(-1.702 * std::min(v, 7.0)));
      case Activation::kSoftplus:
        return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
      case Activation::kCappedSilu:
        return 4 * std::tanh(v / 4) / (1 + std::exp(-v));
      case Activation::kXielu:
        break;  // golden_test has it
    }
    return 0;
  }
  static double factor(Activation activation, double up) {
    if (activation == Activation::kCappedSilu) return 25 * std::tanh(up / 25);
    return activation == Activation::kClampedSilu ? std::clamp(up, -7.0, 7.0) + 1 : up;
  }
  // `gate` may be empty.
  static Row hidden(Activation activation, const Row& gate, const Row& up) {
    Row out;
    for (std::size_t i = 0; i < up.size(); ++i)
      out.push_back(gate.empty() ? activated(activation, up[i])
                                 : activated(activation, gate[i]) * factor(activation, up[i]));
    return out;
  }

  Row feed(const NoFeed&, const Row& h) const { return Row(h.size()); }

  Row feed(const Dense& f, const Row& h) const {
    return product(f.down, hidden(f.activation, f.gate ? product(f.gate, h) : Row{}, product(f.up, h)));
  }

  static Row gated(Gating gating, const Row& logits) {
    Row out;
    double sum = 0;
    for (const double v : logits) out.push_back(gating == Gating::kSigmoid ? 1 / (1 + std::exp(-v)) : std::exp(v));
    for (const double v : out) sum += v;
    for (double& v : out) v /= gating == Gating::kSoftmax ? sum : 1;
    return out;
  }

  Row feed(const DenseAndExperts& both, const Row& h, const Row& x) const {
    Row out = norm(both.dense_post, feed(both.dense, h));
    const Row row = both.experts.router_norm ? norm(both.experts.router_norm, x) : norm(both.experts_norm, x);
    const Row y = norm(both.experts_post, feed(both.experts, norm(both.experts_norm, x), row));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += y[i];
    return out;
  }

  // `row` is what the router reads.
  Row feed(const Experts& e, const Row& h, const Row& row) const {
    Row logits = product(e.router, row);
    for (double& v : logits) v *= static_cast<double>(e.router_scale);
    const Row scores = gated(e.routing.gating, logits);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < scores.size(); ++i) order.push_back(i);
    const auto rank = [&](std::size_t i) {
      return (e.routing.gating == Gating::kSoftmaxOfChosen ? logits[i] : scores[i]) +
             (e.choice_bias ? element(e.choice_bias, static_cast<std::int64_t>(i)) : 0.0);
    };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rank(a) > rank(b); });
    order.resize(static_cast<std::size_t>(e.routing.used));
    double sum = 0;
    for (const std::size_t i : order) sum += scores[i];
    if (!e.routing.normalise && e.routing.gating != Gating::kSoftmaxOfChosen) sum = 1;
    Row out(h.size());
    if (e.shared.up) {
      out = feed(e.shared, h);
      if (e.shared_gate)
        for (double& v : out) v /= 1 + std::exp(-product(e.shared_gate, h)[0]);
    }
    for (const std::size_t i : order) {
      const auto n = static_cast<std::int64_t>(i);
      const double weight = static_cast<double>(e.routing.scale) * scores[i] / sum *
                            (e.weight_scales ? element(e.weight_scales, n) : 1.0);
      Row x = h;
      for (double& v : x) v *= e.weigh_inputs ? weight : 1.0;
      const Row y =
          product(e.down, n, hidden(e.activation, e.gate ? product(e.gate, n, x) : Row{}, product(e.up, n, x)));
      for (std::size_t j = 0; j < y.size(); ++j) out[j] += (e.weigh_inputs ? 1.0 : weight) * y[j];
    }
    return out;
  }

  const ModelSpec& spec_;
  const weights::ModelFile& file_;
  std::vector<std::vector<Row>> keys_, values_;  // by layer, of every token
  std::vector<Row> second_;                      // of every token, with Embedding::second
};

}  // namespace kvasir::model::testing
