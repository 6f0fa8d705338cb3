#include "cpu/rows.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "simd/bf16_products.hpp"

namespace kvasir::cpu {
namespace {

constexpr std::int64_t kElementBytes = 4;  // bytes of an element of prepared activations, at most

}  // namespace

bool kind_used(kernel::ActivationKind kind, bool rounded) {
  if (kind == kernel::ActivationKind::kRounded || kind == kernel::ActivationKind::kInt8)
    return rounded == (kind == kernel::ActivationKind::kRounded);
  return kind != kernel::ActivationKind::kBf16 || (!rounded && simd::multiplies_bf16(simd::active()));
}

RowScratch RowScratch::place(const Widths& widths, int max_rows, int threads, Placer& p) {
  const std::int64_t n = max_rows;
  RowScratch s;
  s.widths_ = widths;
  s.widths_.input = in_blocks(widths.input);
  s.normed_ = p.take<float>(n * widths.dim);
  s.y_ = p.take<float>(n * widths.dim);
  s.factors_ = p.take<float>(threads * (widths.rank > 0 ? 3 : 2) * kPieceFloats);
  for (const kernel::ActivationKind kind : kKinds) {
    s.inputs_[index(kind)] =
        p.take<std::byte>(kind_used(kind, widths.rounded) ? n * kernel::activation_bytes(kind, s.widths_.input) : 0);
  }
  KVASIR_CHECK(widths.orders <= kMostOrders);
  for (int i = 0; i < widths.orders; ++i)
    s.ordered_[static_cast<std::size_t>(i)] =
        p.take<std::byte>(n * kernel::activation_bytes(ordered_kind(widths.rounded), s.widths_.input));
  s.permuted_ = p.take<float>(widths.orders > 0 ? threads * s.widths_.input : 0);
  s.hidden_ = p.take<std::byte>(kElementBytes * n * in_blocks(widths.hidden));
  if (widths.rank == 0) return s;
  for (float*& low : s.low_products_) low = p.take<float>(n * widths.rank);
  for (std::byte*& low : s.lows_) low = p.take<std::byte>(kElementBytes * n * widths.rank);
  s.float_hidden_ = p.take<std::byte>(kElementBytes * n * widths.hidden);
  return s;
}

Rows RowScratch::whole(int rows) const {
  Rows r{0, rows, -1, normed_, y_, {}, {}};
  r.hidden = {kKinds[0], hidden_, rows, 0, rows};
  for (const kernel::ActivationKind kind : kKinds) r.inputs[index(kind)] = {kind, inputs_[index(kind)], rows, 0, rows};
  set_orders(r, 0, rows);
  set_addends(r, 0, rows);
  return r;
}

Rows RowScratch::tile(std::int64_t first, int rows, int worker) const {
  const int count = static_cast<int>(std::min<std::int64_t>(kTile, rows - first));
  const std::int64_t skip = worker * kTile;
  Rows r{first, count, worker, normed_ + skip * widths_.dim, y_ + skip * widths_.dim, {}, {}};
  r.hidden = {kKinds[0], hidden_ + skip * kElementBytes * in_blocks(widths_.hidden), count, 0, rows};
  for (const kernel::ActivationKind kind : kKinds)
    r.inputs[index(kind)] = {kind, inputs_[index(kind)] + skip * kernel::activation_bytes(kind, widths_.input), count,
                             0, rows};
  set_orders(r, skip, rows);
  set_addends(r, skip, rows);
  return r;
}

// Of rows of a step of `whole`, of which `skip` lie before these.
void RowScratch::set_orders(Rows& r, std::int64_t skip, int whole) const {
  const kernel::ActivationKind kind = ordered_kind(widths_.rounded);
  r.orders = widths_.orders;
  for (std::size_t i = 0; i < static_cast<std::size_t>(r.orders); ++i)
    r.ordered[i] = {nullptr,
                    {kind, ordered_[i] + skip * kernel::activation_bytes(kind, widths_.input), r.count, 0, whole}};
}

void RowScratch::set_addends(Rows& r, std::int64_t skip, int whole) const {
  if (widths_.rank == 0) return;
  constexpr auto kKind = kernel::ActivationKind::kF32;
  for (std::size_t i = 0; i < lows_.size(); ++i) {
    r.low_products[i] = low_products_[i] + skip * widths_.rank;
    r.lows[i] = {kKind, lows_[i] + skip * kElementBytes * widths_.rank, r.count, 0, whole};
  }
  r.float_hidden = {kKind, float_hidden_ + skip * kElementBytes * widths_.hidden, r.count, 0, whole};
}

const kernel::Activations& Rows::input_of(const Matrix& m) const {
  if (!m.order) return inputs[index(m.format->activation)];
  for (std::size_t i = 0; i < static_cast<std::size_t>(orders); ++i)
    if (ordered[i].order == m.order) return ordered[i].x;
  KVASIR_CHECK(false);
  return hidden;
}

float* RowScratch::factors(int worker) const { return factors_ + (widths_.rank > 0 ? 3 : 2) * worker * kPieceFloats; }

}  // namespace kvasir::cpu
