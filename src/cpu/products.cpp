#include "cpu/products.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/host.hpp"
#include "cpu/share.hpp"

namespace kvasir::cpu {
namespace {

// up = kCappedSilu of both; the gate is overwritten.
void cap_silu(const kernel::OpKernels& ops, float* gate, float* up, std::int64_t n) {
  ops.soft_cap(up, 25.0f, n);
  ops.gate[static_cast<std::size_t>(kernel::Activation::kSigmoid)](gate, up, up, n);
  ops.soft_cap(gate, 4.0f, n);
  for (std::int64_t i = 0; i < n; ++i) up[i] *= gate[i];
}

// u: a row's elements of up x, and then of what they become; g: of gate x, if there is one, which may be overwritten.
// Both with their biases.
void activate(const Hidden& h, float* g, float* u, std::int64_t count) {
  const kernel::OpKernels& ops = kernel::ops();
  const auto activation = static_cast<std::size_t>(h.activation);
  if (h.activation == kernel::Activation::kCappedSilu)
    cap_silu(ops, g, u, count);
  else if (h.gate)
    ops.gate[activation](g, u, u, count);
  else if (h.activation == kernel::Activation::kXielu)
    ops.xielu(u, *h.xielu, count);
  else
    ops.activate[activation](u, count);
}

void hidden_piece(const Rows& rows, const Hidden& h, Range panels, Range columns, float* u) {
  const std::int64_t row = panels.begin * kernel::kPanelRows;
  const std::int64_t count = std::min(panels.end * kernel::kPanelRows, h.up.rows) - row;
  const std::int64_t pitch = (panels.end - panels.begin) * kernel::kPanelRows;
  const kernel::OpKernels& ops = kernel::ops();
  float* const g = u + kPieceFloats;
  const auto multiply = [&](const Matrix& m, const kernel::Activations& input, float* to) {
    const kernel::Activations x = columns_of(input, columns.begin, columns.end);
    m.format->matmul(
        {m.panels + panels.begin * m.panel_bytes, m.k, m.rows - row, 0, panels.end - panels.begin, &x, to, pitch});
  };
  const auto product = [&](const Matrix& m, const kernel::Activations* low, const float* bias, float* to) {
    multiply(m, rows.input_of(m), to);
    float* const added = u + 2 * kPieceFloats;
    const bool adds = m.addend && low;
    if (adds) multiply(m.addend->b, *low, added);
    for (std::int64_t c = 0; c < columns.end - columns.begin; ++c) {
      if (adds) ops.add(to + c * pitch, added + c * pitch, count);
      if (bias) ops.add(to + c * pitch, bias + row, count);
    }
  };
  if (h.gate) product(*h.gate, h.gate_low, h.gate_bias, g);
  product(h.up, h.up_low, h.up_bias, u);
  for (std::int64_t c = 0; c < columns.end - columns.begin; ++c) {
    activate(h, g + c * pitch, u + c * pitch, count);
  }
  kernel::activation().prepare(rows.hidden, columns.begin, columns.end, u, pitch, {row, row + count});
  if (h.floats_too)
    kernel::activation().prepare(rows.float_hidden, columns.begin, columns.end, u, pitch, {row, row + count});
}

// Gives the order of `m` a place among those of the rows. Matrices that read the same have few.
void want_order(Rows& rows, const Matrix& m) {
  std::size_t i = 0;
  while (i < rows.ordered.size() && rows.ordered[i].order && rows.ordered[i].order != m.order) ++i;
  KVASIR_CHECK(std::cmp_less(i, rows.orders) && m.format->activation == rows.ordered[i].x.kind);
  rows.ordered[i].order = m.order;
  rows.ordered[i].x.k = m.k;
}

}  // namespace

// Piece by piece in scratch that stays in the L2 cache: written out and read back, the two factors of a 512-token step
// are tens of megabytes per layer, and of one token all threads would wait for one that prepares them.
void make_hidden_panels(const Rows& rows, const Hidden& h, Range panels, float* factors) {
  const bool floats = h.up.in_floats() || (h.gate && h.gate->in_floats());
  const Piece most = piece_in(floats, rows.count);
  for (std::int64_t p = panels.begin; p < panels.end; p += most.panels)
    for (std::int64_t first = 0; first < rows.count; first += most.columns)
      hidden_piece(rows, h, {p, std::min(p + most.panels, panels.end)},
                   {first, std::min(first + most.columns, std::int64_t{rows.count})}, factors);
}

TileRule::TileRule() {
  const std::uint64_t known = describe_host().last_level_cache();
  constexpr std::uint64_t kAssumed = 16 << 20;  // where a virtual machine hides its caches
  most_bytes_ = (known > 0 ? known : kAssumed) / 2;
}

void TileRule::add(const Matrix& m) {
  layer_bytes_ += static_cast<std::uint64_t>(m.bytes());
  if (m.in_floats() || layer_bytes_ > most_bytes_) pays_ = false;
}

Products::Products(Team& team, const RowScratch& scratch, ProductDevice* device, std::int64_t hidden)
    : team_(team), scratch_(scratch), device_(device) {
  if (device && hidden > 0)
    factors_ =
        tensor::Buffer(tensor::Tag::kScratch, static_cast<std::size_t>(2 * kDeviceColumns * hidden) * sizeof(float));
}

// f on pieces of [0, n): by the team, or all at once by the thread that has the rows.
void Products::split(const Rows& rows, std::int64_t n, std::int64_t first, std::int64_t grain, Team::Pieces f) const {
  if (rows.worker < 0) return team_.parallel_for(n, grain, first, f);
  f(0, n, rows.worker);
}

void Products::split_panels(const Rows& rows, std::int64_t panels, std::int64_t panel_bytes, Team::Pieces f) const {
  const Share share = share_of(panels, panel_bytes, rows.count, team_.size());
  if (rows.worker < 0 && share.by_speed)
    return team_.parallel_by_speed(panels, share.grain, share.first, kShareUnit, f);
  split(rows, panels, share.first, share.grain, f);
}

void Products::row_wise(const Rows& rows, RowPieces f) const {
  split(rows, rows.count, kRowGrain, kRowGrain, [&](std::int64_t begin, std::int64_t end, int) { f(begin, end); });
}

void Products::prepare(Rows& rows, std::span<const Matrix* const> users, const float* x, std::int64_t k,
                       RowNorm norm) const {
  bool wanted[kernel::kActivationKinds] = {};
  for (OrderedInput& o : rows.ordered) o.order = nullptr;
  for (const Matrix* m : users) {
    m->order ? want_order(rows, *m) : void(wanted[index(m->format->activation)] = true);
    if (rows.scales && m->addend) wanted[index(kernel::ActivationKind::kF32)] = true;
  }
  for (kernel::Activations& a : rows.inputs) a.k = k;
  split(rows, rows.count, kRowGrain, kRowGrain, [&](std::int64_t begin, std::int64_t end, int worker) {
    const float* source = x + begin * k;
    if (norm) {
      for (std::int64_t r = begin; r < end; ++r) norm(x + r * k, rows.normed + r * k);
      source = rows.normed + begin * k;
    }
    for (const kernel::Activations& a : rows.inputs)
      if (wanted[index(a.kind)]) kernel::activation().prepare(a, begin, end, source, k, {0, k});
    for (std::size_t i = 0; i < rows.ordered.size() && rows.ordered[i].order; ++i)
      for (std::int64_t r = begin; r < end; ++r) {
        float* const permuted = scratch_.permuted(worker);
        for (std::int64_t j = 0; j < k; ++j) permuted[j] = source[(r - begin) * k + rows.ordered[i].order[j]];
        kernel::activation().prepare(rows.ordered[i].x, r, r + 1, permuted, k, {0, k});
      }
  });
}

void Products::multiply_plain(const Rows& rows, std::span<const Matrix* const> matrices, std::span<float* const> outs,
                              InputOf input) const {
  constexpr std::size_t kMost = 8;
  std::array<const Matrix*, kMost> mine;
  std::array<float*, kMost> mine_out;
  if (wants_device(rows) && matrices.size() <= kMost) {
    std::array<const Matrix*, kMost> there;
    std::array<const kernel::Activations*, kMost> x;
    std::array<float*, kMost> there_out;
    std::size_t taken = 0, left = 0;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const bool takes = device_->takes(*matrices[i]);
      if (takes) x[taken] = &input(*matrices[i]);
      (takes ? there[taken] : mine[left]) = matrices[i];
      (takes ? there_out[taken++] : mine_out[left++]) = outs[i];
    }
    if (taken > 0 && device_->multiply({there.data(), taken}, {x.data(), taken}, {there_out.data(), taken}, false)) {
      if (left == 0) return;
      matrices = {mine.data(), left};
      outs = {mine_out.data(), left};
    }
  }
  std::int64_t panels = 0;
  for (const Matrix* m : matrices) panels += m->panel_count();
  split_panels(rows, panels, matrices[0]->panel_bytes, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const Matrix& m = *matrices[i];
      const std::int64_t from = std::max(begin - offset, std::int64_t{0}), to = std::min(end - offset, m.panel_count());
      const kernel::Activations& x = input(m);
      if (from < to) m.format->matmul({m.panels, m.k, m.rows, from, to, &x, outs[i], m.rows});
      offset += m.panel_count();
    }
  });
}

// x: (rank), of one row. A scale of 0 leaves zeros, whatever A x is: what others ask for never reaches the row.
static void scale(const Addend& addend, const float* scales, float* x) {
  for (const Addend::Part& part : addend.parts) {
    const float s = scales[part.adapter];
    if (s == 0.0f)
      std::fill(x + part.begin, x + part.end, 0.0f);
    else if (s != 1.0f)
      kernel::ops().scale(x + part.begin, s, part.end - part.begin);
  }
}

// S A x of every addend, as its B reads it.
std::array<kernel::Activations, kMostAddends> Products::make_lows(const Rows& rows,
                                                                  std::span<const Addend* const> addends,
                                                                  const kernel::Activations& x) const {
  KVASIR_CHECK(addends.size() <= kMostAddends);
  std::array<kernel::Activations, kMostAddends> lows = rows.lows;
  std::array<const Matrix*, kMostAddends> a = {};
  for (std::size_t i = 0; i < addends.size(); ++i) a[i] = &addends[i]->a, lows[i].k = addends[i]->rank();
  multiply_plain(rows, {a.data(), addends.size()}, rows.low_products,
                 [&](const Matrix&) -> const kernel::Activations& { return x; });
  row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < addends.size(); ++i) {
      float* const low = rows.low_products[i] + begin * lows[i].k;
      for (std::int64_t r = begin; r < end; ++r) scale(*addends[i], rows.scales[r], low + (r - begin) * lows[i].k);
      kernel::activation().prepare(lows[i], begin, end, low, lows[i].k, {0, lows[i].k});
    }
  });
  return lows;
}

// outs[i] += B (S A x) of the matrices that have addends; x in floats.
void Products::add_addends(const Rows& rows, std::span<const Matrix* const> matrices, std::span<float* const> outs,
                           const kernel::Activations& x) const {
  if (!rows.scales) return;
  std::array<const Addend*, kMostAddends> addends = {};
  std::array<float*, kMostAddends> to = {};
  std::size_t count = 0;
  std::int64_t panels = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (!matrices[i]->addend) continue;
    KVASIR_CHECK(count < kMostAddends);
    to[count] = outs[i];
    addends[count++] = matrices[i]->addend;
    panels += matrices[i]->panel_count();
  }
  if (count == 0) return;
  const auto lows = make_lows(rows, {addends.data(), count}, x);
  const Piece most = piece_in(true, rows.count);
  split_panels(rows, panels, addends[0]->b.panel_bytes, [&](std::int64_t begin, std::int64_t end, int worker) {
    float* const added = scratch_.factors(worker);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < count; offset += addends[i++]->b.panel_count()) {
      const Matrix& b = addends[i]->b;
      const std::int64_t stop = std::min(end - offset, b.panel_count());
      for (std::int64_t p = std::max(begin - offset, std::int64_t{0}); p < stop; p += most.panels)
        for (std::int64_t first = 0; first < rows.count; first += most.columns) {
          const std::int64_t panel_end = std::min(p + most.panels, stop), row = p * kernel::kPanelRows;
          const std::int64_t last = std::min(first + most.columns, std::int64_t{rows.count});
          const std::int64_t pitch = (panel_end - p) * kernel::kPanelRows;
          const kernel::Activations low = columns_of(lows[i], first, last);
          b.format->matmul({b.panels + p * b.panel_bytes, b.k, b.rows - row, 0, panel_end - p, &low, added, pitch});
          for (std::int64_t c = first; c < last; ++c)
            kernel::ops().add(to[i] + c * b.rows + row, added + (c - first) * pitch, std::min(pitch, b.rows - row));
        }
    }
  });
}

void Products::multiply(const Rows& rows, std::span<const Matrix* const> matrices, std::span<float* const> outs) const {
  multiply_plain(rows, matrices, outs, [&](const Matrix& m) -> const kernel::Activations& { return rows.input_of(m); });
  add_addends(rows, matrices, outs, rows.inputs[index(kernel::ActivationKind::kF32)]);
}

void Products::multiply_hidden(const Rows& rows, const Matrix& m, float* out) const {
  const Matrix* const matrices[] = {&m};
  float* const outs[] = {out};
  multiply_plain(rows, matrices, outs, [&](const Matrix&) -> const kernel::Activations& { return rows.hidden; });
  add_addends(rows, matrices, outs, rows.float_hidden);
}

// The factors by a device, run by run of columns; all else here. False: it is lost, and nothing was made.
bool Products::make_hidden_there(Rows& rows, const Hidden& h) const {
  const std::array<const Matrix*, 2> matrices = {&h.up, h.gate};
  const std::size_t count = h.gate ? 2 : 1;
  const std::int64_t width = h.up.rows;
  auto* const u = factors_.as<float>();
  float* const g = u + kDeviceColumns * width;
  const std::array<float*, 2> outs = {u, g};
  const kernel::OpKernels& ops = kernel::ops();
  for (std::int64_t first = 0; first < rows.count; first += kDeviceColumns) {
    const std::int64_t end = std::min(first + kDeviceColumns, std::int64_t{rows.count});
    const kernel::Activations up = columns_of(rows.input_of(h.up), first, end);
    const bool alike = h.gate && &rows.input_of(*h.gate) == &rows.input_of(h.up);
    const kernel::Activations gate = h.gate && !alike ? columns_of(rows.input_of(*h.gate), first, end) : up;
    const std::array<const kernel::Activations*, 2> x = {&up, alike ? &up : &gate};
    const bool again = end < rows.count;
    if (!device_->multiply({matrices.data(), count}, {x.data(), count}, {outs.data(), count}, again)) return false;
    team_.parallel_for(end - first, kRowGrain, [&](std::int64_t begin, std::int64_t stop, int) {
      for (std::int64_t c = begin; c < stop; ++c) {
        if (h.gate && h.gate_bias) ops.add(g + c * width, h.gate_bias, width);
        if (h.up_bias) ops.add(u + c * width, h.up_bias, width);
        activate(h, g + c * width, u + c * width, width);
      }
      const float* const from = u + begin * width;
      kernel::activation().prepare(rows.hidden, first + begin, first + stop, from, width, {0, width});
      if (h.floats_too)
        kernel::activation().prepare(rows.float_hidden, first + begin, first + stop, from, width, {0, width});
    });
  }
  return true;
}

void Products::make_hidden(Rows& rows, const Hidden& h, const Matrix& down) const {
  rows.hidden.kind = down.format->activation;
  rows.hidden.k = down.k;
  rows.float_hidden.k = down.k;
  Hidden all = h;
  all.floats_too = rows.scales && down.addend;
  std::array<const Addend*, 2> addends = {};
  std::size_t count = 0;
  if (rows.scales && h.gate && h.gate->addend) addends[count++] = h.gate->addend;
  if (rows.scales && h.up.addend) addends[count++] = h.up.addend;
  std::array<kernel::Activations, kMostAddends> lows;
  if (count > 0) {
    lows = make_lows(rows, {addends.data(), count}, rows.inputs[index(kernel::ActivationKind::kF32)]);
    all.gate_low = &lows[0];
    all.up_low = &lows[count - 1];
  }
  const auto factor_bytes = static_cast<std::size_t>(2 * kDeviceColumns * h.up.rows) * sizeof(float);
  if (count == 0 && wants_device(rows) && factor_bytes <= factors_.size() && device_->takes(h.up) &&
      (!h.gate || device_->takes(*h.gate)) && make_hidden_there(rows, h))
    return;
  const std::int64_t bytes = h.gate ? 2 * h.gate->panel_bytes : h.up.panel_bytes;
  split_panels(rows, h.up.panel_count(), bytes, [&](std::int64_t begin, std::int64_t end, int worker) {
    make_hidden_panels(rows, all, {begin, end}, scratch_.factors(worker));
  });
}

}  // namespace kvasir::cpu
