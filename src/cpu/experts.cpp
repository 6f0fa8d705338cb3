#include "cpu/experts.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.hpp"
#include "cpu/share.hpp"

namespace kvasir::cpu {
namespace {

// Rows gathered at a time, or one expert's if it has more: a few megabytes, which stay in a cache between the products.
constexpr std::int64_t kGathered = 1024;

std::array<bool, kernel::kActivationKinds> kinds_of(const ExpertStacks& e) {
  std::array<bool, kernel::kActivationKinds> wanted{};
  wanted[index(e.up.first.format->activation)] = true;
  if (e.gate) wanted[index(e.gate->first.format->activation)] = true;
  return wanted;
}

}  // namespace

ExpertScratch ExpertScratch::place(const Widths& w, int max_rows, Placer& p) {
  ExpertScratch s;
  if (w.experts == 0) return s;
  const std::int64_t n = max_rows, chosen = n * w.used;
  s.most_columns_ = std::max(n, std::min(chosen, kGathered));
  s.logits_ = p.take<float>(n * w.experts);
  s.shared_weights_ = p.take<float>(n);
  s.chosen_ = p.take<std::int32_t>(chosen);
  s.weights_ = p.take<float>(chosen);
  s.begin_ = p.take<std::int32_t>(w.experts + 1);
  s.rows_ = p.take<std::int32_t>(chosen);
  s.row_weights_ = p.take<float>(chosen);
  s.active_ = p.take<std::int32_t>(w.experts);
  for (const kernel::ActivationKind kind : kKinds)
    s.inputs_[index(kind)] = p.take<std::byte>(
        kind_used(kind, w.rounded) ? s.most_columns_ * kernel::activation_bytes(kind, in_blocks(w.dim)) : 0);
  s.hidden_ =
      p.take<std::byte>(s.most_columns_ * kernel::activation_bytes(kernel::ActivationKind::kF32, in_blocks(w.hidden)));
  return s;
}

// Experts active[first], ..., active[first + count - 1] and their rows, which lie side by side.
struct ExpertProducts::Pass {
  int first, count;
  std::int64_t begin, columns;
};

void ExpertProducts::choose(Range rows, const kernel::Routing& rule, const float* choice_bias,
                            const float* weight_scales) const {
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    std::int32_t* const chosen = scratch_.chosen_ + r * rule.used;
    float* const weights = scratch_.weights_ + r * rule.used;
    kernel::route(rule, scratch_.logits_ + r * rule.count, choice_bias, chosen, weights);
    for (int i = 0; weight_scales && i < rule.used; ++i) weights[i] *= weight_scales[chosen[i]];
  }
}

std::span<const std::int32_t> ExpertProducts::predict(Range rows, const kernel::Routing& rule,
                                                      const float* choice_bias) const {
  choose(rows, rule, choice_bias, nullptr);
  std::int32_t* const list = scratch_.chosen_ + rows.begin * rule.used;
  std::int32_t* const end = scratch_.chosen_ + rows.end * rule.used;
  std::sort(list, end);
  return {list, std::unique(list, end)};
}

void ExpertProducts::add(const Rows& rows, const float* x, const ExpertStacks& e, const kernel::Routing& rule) {
  KVASIR_CHECK(rows.worker < 0);
  const int active = sort(rows.count, rule);
  const std::int64_t bytes = e.up.first.bytes() + e.down.first.bytes() + (e.gate ? e.gate->first.bytes() : 0);
  bytes_read_ += active * bytes;
  const ExpertScratch& s = scratch_;
  // Of experts that do not all fit, half are read while the others are computed.
  const int room = e.source ? e.source->room() : active;
  const int together = active <= room ? active : std::max(1, room / 2);
  for (Pass pass{0, 0, 0, 0}; pass.first < active; pass.first += pass.count) {
    pass.count = 0;
    pass.columns = 0;
    pass.begin = s.begin_[s.active_[pass.first]];
    while (pass.first + pass.count < active && pass.count < together) {
      const std::int32_t expert = s.active_[pass.first + pass.count];
      const std::int64_t end = s.begin_[expert + 1] - pass.begin;
      if (end > s.most_columns_) break;
      pass.columns = end;
      ++pass.count;
    }
    if (e.source) {
      const std::span<const std::int32_t> list(s.active_ + pass.first, static_cast<std::size_t>(active - pass.first));
      e.source->need(list.first(static_cast<std::size_t>(pass.count)));
      const auto next = list.subspan(static_cast<std::size_t>(pass.count));
      e.source->expect(next.first(std::min(next.size(), static_cast<std::size_t>(together))));
    }
    if (rows.count > 1 || e.weigh_inputs) gather(rows, pass, x, e);
    make_hidden(rows, pass, e);
    multiply(rows, pass, e);
  }
}

std::int64_t ExpertProducts::take_bytes_read() { return std::exchange(bytes_read_, 0); }

// The rows of each expert behind each other, in order; returns how many experts have any.
int ExpertProducts::sort(int rows, const kernel::Routing& rule) {
  const ExpertScratch& s = scratch_;
  const std::int64_t chosen = std::int64_t{rows} * rule.used;
  std::fill_n(s.begin_, rule.count + 1, 0);
  for (std::int64_t i = 0; i < chosen; ++i) ++s.begin_[s.chosen_[i]];
  int active = 0;
  std::int32_t end = 0;
  for (int e = 0; e < rule.count; ++e) {
    if (s.begin_[e] > 0) s.active_[active++] = e;
    s.begin_[e] = end += s.begin_[e];
  }
  s.begin_[rule.count] = end;
  // From behind, so that begin_ ends up where each begins and rows stay in order.
  for (std::int64_t i = chosen; i-- > 0;) {
    const std::int32_t at = --s.begin_[s.chosen_[i]];
    s.rows_[at] = static_cast<std::int32_t>(i / rule.used);
    s.row_weights_[at] = s.weights_[i];
  }
  return active;
}

// The rows of a pass's i-th expert. A single row is what the others of its step are prepared as.
Rows ExpertProducts::part(const Rows& rows, const Pass& pass, int i, const ExpertStacks& e) const {
  const ExpertScratch& s = scratch_;
  const std::int32_t expert = s.active_[pass.first + i];
  const std::int64_t from = s.begin_[expert] - pass.begin, count = s.begin_[expert + 1] - s.begin_[expert];
  Rows r = rows;
  r.count = static_cast<int>(count);
  const std::int64_t k = e.up.first.k;
  for (const kernel::ActivationKind kind : kKinds)
    if (rows.count > 1 || e.weigh_inputs)
      r.inputs[index(kind)] = {kind, s.inputs_[index(kind)] + from * kernel::activation_bytes(kind, k), count, k};
  const kernel::ActivationKind kind = e.down.first.format->activation;
  r.hidden = {kind, s.hidden_ + from * kernel::activation_bytes(kind, e.down.first.k), count, e.down.first.k};
  return r;
}

// Copies rows side by side and prepares them, as many at a time as a thread's scratch holds.
void ExpertProducts::gather(const Rows& rows, const Pass& pass, const float* x, const ExpertStacks& e) const {
  const std::int64_t k = e.up.first.k;
  const auto wanted = kinds_of(e);
  const std::int64_t most = std::clamp<std::int64_t>(2 * kPieceFloats / k, 1, kRowGrain);
  KVASIR_CHECK(k <= 2 * kPieceFloats);
  team_.parallel_for(pass.columns, kRowGrain, [&](std::int64_t begin, std::int64_t end, int worker) {
    float* const copies = rows_.factors(worker);
    std::int64_t from = 0;  // of the expert in the pass
    for (int i = 0; i < pass.count && from < end; ++i) {
      const Rows r = part(rows, pass, i, e);
      const std::int32_t* const list = scratch_.rows_ + pass.begin + from;
      const std::int64_t stop = std::min<std::int64_t>(end - from, r.count);
      for (std::int64_t c = std::max<std::int64_t>(begin - from, 0); c < stop; c += most) {
        const std::int64_t n = std::min(most, stop - c);
        for (std::int64_t j = 0; j < n; ++j) {
          std::copy_n(x + list[c + j] * k, k, copies + j * k);
          if (e.weigh_inputs) kernel::ops().scale(copies + j * k, scratch_.row_weights_[pass.begin + from + c + j], k);
        }
        for (const kernel::Activations& a : r.inputs)
          if (wanted[index(a.kind)]) kernel::activation().prepare(a, c, c + n, copies, k, {0, k});
      }
      from += r.count;
    }
  });
}

void ExpertProducts::make_hidden(const Rows& rows, const Pass& pass, const ExpertStacks& e) const {
  const Matrix& up = e.up.first;
  const std::int64_t panels = up.panel_count(), even = (panels + 1) / 2 * 2;
  const std::int64_t bytes = e.gate ? up.panel_bytes + e.gate->first.panel_bytes : up.panel_bytes;
  const Share share = share_of(even * pass.count, bytes, rows.count, team_.size());
  team_.parallel_for(
      even * pass.count, share.grain, share.first, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t at = begin; at < end;) {
          const std::int64_t i = at / even, first = i * even, stop = std::min(end - first, panels);
          const std::int64_t expert = scratch_.active_[pass.first + i];
          const Matrix up_e = e.up[expert], gate_e = e.gate ? (*e.gate)[expert] : Matrix{};
          const auto bias = [&](const float* all) { return all ? all + expert * up.rows : nullptr; };
          const Hidden h{e.activation, e.gate ? &gate_e : nullptr, bias(e.gate_bias), up_e, bias(e.up_bias)};
          if (at - first < stop)
            make_hidden_panels(part(rows, pass, static_cast<int>(i), e), h, {at - first, stop}, rows_.factors(worker));
          at = std::min(end, first + even);
        }
      });
}

// Every thread takes some rows of the result through all experts, in their order.
void ExpertProducts::multiply(const Rows& rows, const Pass& pass, const ExpertStacks& e) const {
  const Matrix& down = e.down.first;
  const kernel::OpKernels& ops = kernel::ops();
  const auto piece = [&](const Rows& r, std::int64_t i, Range panels, Range columns, float* out) {
    const std::int32_t expert = scratch_.active_[pass.first + i];
    const Matrix m = e.down[expert];
    const std::int64_t row = panels.begin * kernel::kPanelRows;
    const std::int64_t count = std::min(panels.end * kernel::kPanelRows, m.rows) - row;
    const std::int64_t pitch = (panels.end - panels.begin) * kernel::kPanelRows;
    const kernel::Activations x = columns_of(r.hidden, columns.begin, columns.end);
    m.format->matmul(
        {m.panels + panels.begin * m.panel_bytes, m.k, m.rows - row, 0, panels.end - panels.begin, &x, out, pitch});
    const std::int64_t first = scratch_.begin_[expert];
    for (std::int64_t c = columns.begin; c < columns.end; ++c) {
      float* const sums = out + (c - columns.begin) * pitch;
      if (e.down_bias) ops.add(sums, e.down_bias + expert * m.rows + row, count);
      if (!e.weigh_inputs) ops.scale(sums, scratch_.row_weights_[first + c], count);
      ops.add(rows.y + scratch_.rows_[first + c] * m.rows + row, sums, count);
    }
  };
  const Share share = share_of(down.panel_count(), pass.count * down.panel_bytes, rows.count, team_.size());
  team_.parallel_for(down.panel_count(), share.grain, share.first,
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       float* const out = rows_.factors(worker);
                       for (int i = 0; i < pass.count; ++i) {
                         const Rows r = part(rows, pass, i, e);
                         const Piece most = piece_in(down.in_floats(), r.count);
                         for (std::int64_t p = begin; p < end; p += most.panels)
                           for (std::int64_t c = 0; c < r.count; c += most.columns)
                             piece(r, i, {p, std::min(p + most.panels, end)},
                                   {c, std::min<std::int64_t>(c + most.columns, r.count)}, out);
                       }
                     });
}

}  // namespace kvasir::cpu
