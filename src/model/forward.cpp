#include "model/forward.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/host.hpp"
#include "kernel/ops.hpp"
#include "kernel/streaming.hpp"

namespace kvasir::model {
namespace {

constexpr int kMostPanels = 24;  // of a piece of a product with many columns
// What one thread computes of a gated product before it multiplies the factors: panels and columns. Kernels of floats
// make operands of a panel once for all columns of a call.
struct GatedPiece {
  int panels;
  std::int64_t columns;
};
constexpr GatedPiece kGatedInts{kMostPanels, kernel::kTileColumns};
constexpr GatedPiece kGatedInFloats{kMostPanels / 4, kernel::kTileColumns * 4};
// Floats of its scratch for one factor.
constexpr std::int64_t kGatedFloats = kGatedInts.columns * kGatedInts.panels * kernel::kPanelRows;
static_assert(kGatedInts.panels % 2 == 0 && kGatedInFloats.panels % 2 == 0);  // whole blocks of 32 rows are prepared
static_assert(kGatedInFloats.columns * kGatedInFloats.panels * kernel::kPanelRows == kGatedFloats);
constexpr std::int64_t kTile = kernel::kTileColumns;  // rows that a thread computes by itself
constexpr std::int64_t kWidestElement = 4;            // bytes of an element of prepared activations, at most
constexpr int kRowGrain = 16;  // rows per piece of row-wise work: whole cache lines of a transposed activation tile

constexpr kernel::ActivationKind kKinds[] = {kernel::ActivationKind::kInt8, kernel::ActivationKind::kBf16,
                                             kernel::ActivationKind::kF32};
static_assert(std::size(kKinds) == kernel::kActivationKinds);

std::size_t index(kernel::ActivationKind kind) { return static_cast<std::size_t>(kind); }
// The longest row of activations that prepare() makes, in whole blocks.
std::int64_t widest(const Config& c) { return (std::max<std::int64_t>(c.dim, c.size(Dim::kOut)) + 31) / 32 * 32; }
bool in_floats(const Matrix& m) { return m.format->activation != kernel::ActivationKind::kInt8; }

// Whether a thread should take some rows through all of a layer's products, instead of all threads taking parts of each
// product for all rows. Then threads wait for each other twice per layer, not twelve times, and what a product writes
// is read by the next from the same core's cache; but every thread reads all weights, and once for 64 rows. So for
// layers that the last-level cache holds, and not for products in floats, whose kernels want more columns at once.
bool tiles_pay(const Model& model) {
  const std::uint64_t known = describe_host().last_level_cache();
  constexpr std::uint64_t kAssumed = 16 << 20;  // where a virtual machine hides its caches
  const std::uint64_t cache = known > 0 ? known : kAssumed;
  for (const Layer& l : model.layers()) {
    std::uint64_t bytes = 0;
    for (const Matrix* m : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) {
      if (in_floats(*m)) return false;
      bytes += static_cast<std::uint64_t>(m->panel_count() * m->panel_bytes);
    }
    if (bytes > cache / 2) return false;
  }
  return true;
}

}  // namespace

Forward::Sizes Forward::sizes(const Config& c, int max_tokens, int max_logits, int threads) {
  const std::int64_t n = max_tokens, dim = c.dim, ffn = c.ffn, pairs = std::max(1, c.rope_dims / 2);
  const std::int64_t out = c.size(Dim::kOut);
  const auto padded = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto rows = [&](std::int64_t width) { return padded(4 * n * width); };
  return {{rows(dim), rows(dim), rows(c.size(Dim::kQuery)), rows(c.size(Dim::kKey)), rows(c.size(Dim::kValue)),
           rows(out), rows(dim), padded(4 * threads * 2 * kGatedFloats), rows(pairs), rows(pairs),
           padded(4 * std::max(1, max_logits) * c.vocab)},
          {padded(n * kernel::activation_bytes(kernel::ActivationKind::kInt8, widest(c))),
           simd::active() == simd::Isa::kAvx512Bf16
               ? padded(n * kernel::activation_bytes(kernel::ActivationKind::kBf16, widest(c)))
               : 0,
           padded(n * kernel::activation_bytes(kernel::ActivationKind::kF32, widest(c)))},
          rows(ffn)};
}

std::int64_t Forward::Sizes::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t f : floats) sum += f;
  for (const std::int64_t p : prepared) sum += p;
  return sum + gate;
}

std::int64_t Forward::planned_scratch(const Config& config, int max_tokens, int max_logits, int threads) {
  return sizes(config, max_tokens, max_logits, threads).total();
}

Forward::Forward(Team& team, const Model& model, kv::Cache& cache, int max_tokens, int max_logits)
    : team_(team), model_(model), cache_(cache), max_tokens_(max_tokens), max_logits_(max_logits) {
  KVASIR_CHECK(max_tokens >= 1 && max_logits >= 0);
  kernel::streaming();  // what KVASIR_STREAMING has that is wrong is an error here, not within a step
  const Sizes s = sizes(model.config(), max_tokens, max_logits, team.size());
  scratch_ = tensor::Buffer(tensor::Tag::kScratch, static_cast<std::size_t>(s.total()));
  float** const arrays[] = {&x_, &norm_, &q_, &k_, &v_, &heads_, &y_, &gated_, &cos_, &sin_, &logits_};
  std::byte* p = scratch_.data();
  for (std::size_t i = 0; i < std::size(arrays); ++i) {
    *arrays[i] = reinterpret_cast<float*>(p);
    p += s.floats[i];
  }
  for (const kernel::ActivationKind kind : kKinds) {
    prepared_[index(kind)] = p;
    p += s.prepared[index(kind)];
  }
  gate_ = p;
  tiles_ = tiles_pay(model);
  positions_.reserve(static_cast<std::size_t>(max_tokens));
  slices_.reserve(static_cast<std::size_t>(max_tokens));
}

std::span<const float> Forward::step(std::span<const Input> inputs) {
  slices_.clear();
  positions_.clear();
  rows_ = 0;
  int wanted = 0;
  for (const Input& in : inputs) {
    const int count = static_cast<int>(in.tokens.size());
    KVASIR_CHECK(count >= 1 && in.logits >= 0 && in.logits <= count);
    slices_.push_back({in.sequence, rows_, count, in.decode});
    const std::int64_t from = kv::Cache::length(*in.sequence);
    for (int i = 0; i < count; ++i) positions_.push_back(from + i);
    rows_ += count;
    wanted += in.logits;
  }
  KVASIR_CHECK(rows_ >= 1 && rows_ <= max_tokens_ && wanted <= max_logits_);
  cache_.begin(slices_);
  embed(inputs);
  rotate_tables(inputs);
  const auto& layers = model_.layers();
  in_blocks([&](Block& b) { project_in(b, layers[0]); });
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const int layer = static_cast<int>(l);
    if (observer_) observer_(layer, slices_, q_, k_, v_);
    cache_.attend(layer, q_, k_, v_, heads_, {score_scale(model_.config())});
    in_blocks([&](Block& b) {
      project_out(b, layers[l]);
      if (l + 1 < layers.size()) project_in(b, layers[l + 1]);
    });
  }
  cache_.commit();

  // Only the wanted rows go through the output matrix.
  const std::int64_t dim = model_.config().dim;
  int out = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const int first = slices_[i].row + slices_[i].count - inputs[i].logits;
    for (int r = 0; r < inputs[i].logits; ++r, ++out)
      if (first + r != out) std::copy_n(x_ + (first + r) * dim, dim, x_ + out * dim);
  }
  if (wanted > 0) {
    const Matrix* head[] = {&model_.output()};
    float* outs[] = {logits_};
    Block b = whole(wanted);
    prepare(b, head, x_, dim, model_.output_norm());
    multiply(b, head, outs);
  }
  return {logits_, static_cast<std::size_t>(wanted * model_.config().vocab)};
}

void Forward::embed(std::span<const Input> inputs) {
  std::size_t row = 0;
  for (const Input& in : inputs)
    for (std::int32_t id : in.tokens) {
      KVASIR_CHECK(id >= 0 && id < model_.config().vocab);
      model_.embed(id, x_ + static_cast<std::int64_t>(row++) * model_.config().dim);
    }
}

// cos and sin of every row's angles: p * frequency in double, because a float angle loses digits at long contexts.
void Forward::rotate_tables(std::span<const Input>) {
  const Config& c = model_.config();
  const std::int64_t pairs = c.rope_dims / 2;
  team_.parallel_for(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(positions_[static_cast<std::size_t>(r)]) *
                             c.rope_frequency[static_cast<std::size_t>(i)];
        cos_[r * pairs + i] = static_cast<float>(std::cos(angle)) * c.rope_magnitude;
        sin_[r * pairs + i] = static_cast<float>(std::sin(angle)) * c.rope_magnitude;
      }
  });
}

Forward::Block Forward::whole(int rows) {
  Block b{0, rows, -1, norm_, y_, {}, {}};
  b.gated = {kKinds[0], gate_, rows, 0, rows};
  for (const kernel::ActivationKind kind : kKinds)
    b.prepared[index(kind)] = {kind, prepared_[index(kind)], rows, 0, rows};
  return b;
}

// Uses the scratch of whole() in parts, one for each thread.
Forward::Block Forward::tile(std::int64_t first, int worker) {
  const Config& c = model_.config();
  const int rows = static_cast<int>(std::min<std::int64_t>(kTile, rows_ - first));
  const std::int64_t skip = worker * kTile;
  Block b{first, rows, worker, norm_ + skip * c.dim, y_ + skip * c.dim, {}, {}};
  b.gated = {kKinds[0], gate_ + skip * kWidestElement * c.ffn, rows, 0, rows_};
  for (const kernel::ActivationKind kind : kKinds)
    b.prepared[index(kind)] = {kind, prepared_[index(kind)] + skip * kernel::activation_bytes(kind, widest(c)), rows, 0,
                               rows_};
  return b;
}

template <class F>
void Forward::in_blocks(const F& f) {
  const std::int64_t tiles = (rows_ + kTile - 1) / kTile;
  if (!tiles_ || tiles < 2 * team_.size()) {
    Block b = whole(rows_);
    return f(b);
  }
  // Shared out beforehand, so that a thread's rows are in its cache from layer to layer.
  team_.parallel_for(tiles, 1, tiles / team_.size(), [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t t = begin; t < end; ++t) {
      Block b = tile(t * kTile, worker);
      f(b);
    }
  });
}

// f on pieces of [0, n): by the team, or all at once by the thread that has the block.
void Forward::split(const Block& b, std::int64_t n, Share share, Team::Pieces f) const {
  if (b.worker < 0) return team_.parallel_for(n, share.grain, share.first, f);
  f(0, n, b.worker);
}

// Activations for the matrices that read x (rows, k), normed first when `norm` is given, in each form that one of them
// wants.
void Forward::prepare(Block& b, std::span<const Matrix* const> users, const float* x, std::int64_t k,
                      const float* norm) {
  bool wanted[kernel::kActivationKinds] = {};
  for (const Matrix* m : users) wanted[index(m->format->activation)] = true;
  for (kernel::Activations& a : b.prepared) a.k = k;
  const kernel::OpKernels& ops = kernel::ops();
  const kernel::ActivationKernels& act = kernel::activation();
  split(b, b.rows, {kRowGrain, kRowGrain}, [&](std::int64_t begin, std::int64_t end, int) {
    const float* source = x + begin * k;
    if (norm) {
      for (std::int64_t r = begin; r < end; ++r)
        ops.rms_norm(x + r * k, norm, b.norm + r * k, k, model_.config().norm_eps);
      source = b.norm + begin * k;
    }
    for (const kernel::Activations& a : b.prepared)
      if (wanted[index(a.kind)]) act.prepare(a, begin, end, source, k, {0, k});
  });
}

// How the panels of a product with `rows` columns are shared out, always in even numbers, which kernels take in pairs
// and quantised activations need. With few columns weights are read once, and what costs time is that threads ask for
// more: where cores do not share a cache the counter takes long to come (base/team.hpp), while memory waits. So
// small products are halved (or as many threads as there are), and of large ones a sixteenth is left for those that
// end first.
Forward::Share Forward::share(std::int64_t panels, std::int64_t panel_bytes, int rows) const {
  if (rows > kernel::kGemvColumns) {
    const std::int64_t pieces = grain(panels);
    return {pieces, pieces};
  }
  constexpr std::int64_t kSmall = 1 << 20;  // bytes of a thread
  const std::int64_t threads = team_.size(), fair = panels / threads;
  const std::int64_t first = fair * 15 / 16 / kernel::kStreams * kernel::kStreams;
  if (first == 0 || fair * panel_bytes < kSmall) {
    const std::int64_t all = (panels + 2 * threads - 1) / (2 * threads) * 2;
    return {all, all};
  }
  const std::int64_t rest = (panels - first * threads + threads - 1) / threads;
  return {first, (rest + kernel::kStreams - 1) / kernel::kStreams * kernel::kStreams};
}

// Panels per piece of a product with many columns: large, so that the activations of a tile are read from the L2 cache
// for most of its panels (kernels of floats also take panels three at a time). Among the sizes that are possible the
// one that leaves the least to the busiest thread: 36 panels as 12 12 12 are 24 for one of two threads, as 6 6 6 6 6 6
// they are 18.
std::int64_t Forward::grain(std::int64_t panels) const {
  static_assert(kMostPanels % 6 == 0);
  constexpr std::int64_t most = kMostPanels, unit = 2;
  const std::int64_t threads = team_.size();
  const std::int64_t rounds = std::max<std::int64_t>((panels + most * threads - 1) / (most * threads), 2);
  std::int64_t best = most, least = INT64_MAX;
  for (std::int64_t r = rounds; r < rounds + 3; ++r) {
    const std::int64_t even = (panels + r * threads - 1) / (r * threads);
    const std::int64_t size = (even + unit - 1) / unit * unit;
    const std::int64_t pieces = (panels + size - 1) / size, last = panels - (pieces - 1) * size;
    const std::int64_t busiest =
        pieces % threads == 1 ? pieces / threads * size + last : (pieces + threads - 1) / threads * size;
    if (busiest < least) least = busiest, best = size;
  }
  return best;
}

// outs[i] = matrices[i] times the prepared activations, all in one parallel region.
void Forward::multiply(const Block& b, std::span<const Matrix* const> matrices, std::span<float* const> outs) {
  std::int64_t panels = 0;
  for (const Matrix* m : matrices) panels += m->panel_count();
  split(b, panels, share(panels, matrices[0]->panel_bytes, b.rows), [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const Matrix& m = *matrices[i];
      const std::int64_t from = std::max(begin - offset, std::int64_t{0}), to = std::min(end - offset, m.panel_count());
      const kernel::Activations& x = b.prepared[index(m.format->activation)];
      if (from < to) m.format->matmul({m.panels, m.k, m.rows, from, to, &x, outs[i], m.rows});
      offset += m.panel_count();
    }
  });
}

void Forward::multiply(const Block& b, const Matrix& m, const kernel::Activations& x, float* out) {
  split(b, m.panel_count(), share(m.panel_count(), m.panel_bytes, b.rows),
        [&](std::int64_t begin, std::int64_t end, int) {
          m.format->matmul({m.panels, m.k, m.rows, begin, end, &x, out, m.rows});
        });
}

// b.gated = silu(gate x) * (up x) for two matrices of one shape. Piece by piece in scratch that stays in the L2 cache:
// written out and read back, the two factors of a 512-token step are tens of megabytes per layer, and of one token all
// threads would wait for one that prepares them.
void Forward::multiply_gated(const Block& b, const Matrix& gate, const Matrix& up) {
  const std::int64_t panels = gate.panel_count();
  const bool floats = in_floats(gate) || in_floats(up);
  const GatedPiece most = floats && b.rows > kGatedInts.columns ? kGatedInFloats : kGatedInts;
  split(b, panels, share(panels, 2 * gate.panel_bytes, b.rows), [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t p = begin; p < end; p += most.panels)
      for (std::int64_t first = 0; first < b.rows; first += most.columns)
        gated_piece(b, gate, up, {p, std::min(p + most.panels, end)},
                    {first, std::min(first + most.columns, std::int64_t{b.rows})}, worker);
  });
}

void Forward::gated_piece(const Block& b, const Matrix& gate, const Matrix& up, Range panels, Range columns,
                          int worker) {
  const std::int64_t width = gate.rows, row = panels.begin * kernel::kPanelRows;
  const std::int64_t count = std::min(panels.end * kernel::kPanelRows, width) - row;
  const std::int64_t pitch = (panels.end - panels.begin) * kernel::kPanelRows;
  float* const g = gated_ + 2 * worker * kGatedFloats;
  float* const u = g + kGatedFloats;
  const auto product = [&](const Matrix& m, float* to) {
    const kernel::Activations x = columns_of(b.prepared[index(m.format->activation)], columns.begin, columns.end);
    m.format->matmul(
        {m.panels + panels.begin * m.panel_bytes, m.k, m.rows - row, 0, panels.end - panels.begin, &x, to, pitch});
  };
  product(gate, g);
  product(up, u);
  for (std::int64_t c = 0; c < columns.end - columns.begin; ++c)
    kernel::ops().silu_mul(g + c * pitch, u + c * pitch, g + c * pitch, count);
  kernel::activation().prepare(b.gated, columns.begin, columns.end, g, pitch, {row, row + count});
}

void Forward::add_residual(const Block& b) {
  const std::int64_t dim = model_.config().dim;
  split(b, b.rows, {kRowGrain, kRowGrain}, [&](std::int64_t begin, std::int64_t end, int) {
    kernel::ops().add(x_ + (b.first + begin) * dim, b.y + begin * dim, (end - begin) * dim);
  });
}

// Bias, head norm and RoPE of one row of queries and keys.
void Forward::rotate(float* q, float* k, const Layer& layer, std::int64_t row) {
  const Config& c = model_.config();
  const kernel::OpKernels& ops = kernel::ops();
  const std::int64_t pairs = c.rope_dims / 2;
  const auto heads = [&](float* x, int count, const float* bias, const float* norm) {
    if (bias) ops.add(x, bias, static_cast<std::int64_t>(count) * c.head_dim);
    for (int h = 0; h < count; ++h, x += c.head_dim) {
      if (norm) ops.rms_norm(x, norm, x, c.head_dim, c.norm_eps);
      ops.rope(x, cos_ + row * pairs, sin_ + row * pairs, pairs, c.arch->rope);
    }
  };
  heads(q, c.heads, layer.q_bias, layer.q_norm);
  heads(k, c.kv_heads, layer.k_bias, layer.k_norm);
}

float Forward::score_scale(const Config& config) { return 1.0f / std::sqrt(static_cast<float>(config.head_dim)); }

// Queries, keys and values of a layer.
void Forward::project_in(Block& b, const Layer& layer) {
  const Config& c = model_.config();
  const std::int64_t dq = c.size(Dim::kQuery), dk = c.size(Dim::kKey), dv = c.size(Dim::kValue);
  float *const q = q_ + b.first * dq, *const k = k_ + b.first * dk, *const v = v_ + b.first * dv;
  const Matrix* qkv[] = {&layer.q, &layer.k, &layer.v};
  float* outs[] = {q, k, v};
  prepare(b, qkv, x_ + b.first * c.dim, c.dim, layer.attn_norm);
  multiply(b, qkv, outs);
  split(b, b.rows, {kRowGrain, kRowGrain}, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      rotate(q + r * dq, k + r * dk, layer, b.first + r);
      if (layer.v_bias) kernel::ops().add(v + r * dv, layer.v_bias, dv);
    }
  });
}

// From what attention gives to the end of the layer.
void Forward::project_out(Block& b, const Layer& layer) {
  const Config& c = model_.config();
  const Matrix *o[] = {&layer.o}, *gate_up[] = {&layer.gate, &layer.up};
  float* y[] = {b.y};
  prepare(b, o, heads_ + b.first * c.size(Dim::kOut), c.size(Dim::kOut), nullptr);
  multiply(b, o, y);
  add_residual(b);
  prepare(b, gate_up, x_ + b.first * c.dim, c.dim, layer.ffn_norm);
  b.gated.kind = layer.down.format->activation;
  b.gated.k = c.ffn;
  multiply_gated(b, layer.gate, layer.up);
  multiply(b, layer.down, b.gated, b.y);
  add_residual(b);
}

}  // namespace kvasir::model
