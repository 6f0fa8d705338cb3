#include "cpu/head_products.hpp"

#include <algorithm>

#include "cpu/share.hpp"

namespace kvasir::cpu {
namespace {

constexpr std::int64_t kWidestElement = 4;  // bytes of an element of prepared activations, at most

}  // namespace

HeadScratch HeadScratch::place(std::int64_t heads, std::int64_t width, int max_rows, Placer& p) {
  HeadScratch s;
  s.inputs_ = p.take<std::byte>(heads * (kWidestElement * max_rows * in_blocks(width) + 64));
  return s;
}

void HeadProducts::multiply(int rows, std::int64_t heads, const MatrixStack& stack, HeadRows<const float> x,
                            HeadRows<float> out) const {
  const Matrix& first = stack.first;
  const kernel::ActivationKind kind = first.format->activation;
  const std::int64_t bytes = (rows * kernel::activation_bytes(kind, first.k) + 63) / 64 * 64;  // of a head
  const auto inputs = [&](std::int64_t head) {
    return kernel::Activations{kind, scratch_.inputs_ + head * bytes, rows, first.k, rows};
  };
  const std::int64_t pieces = (rows + kRowGrain - 1) / kRowGrain;
  team_.parallel_for(heads * pieces, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / pieces, row = i % pieces * kRowGrain;
      const std::int64_t stop = std::min<std::int64_t>(rows, row + kRowGrain);
      kernel::activation().prepare(inputs(head), row, stop, x.data + row * x.row + head * x.head, x.row, {0, first.k});
    }
  });
  // Even numbers of panels for each head, so that no piece begins in the middle of a pair.
  const std::int64_t panels = first.panel_count(), even = (panels + 1) / 2 * 2;
  const Share share = share_of(even * heads, first.panel_bytes, rows, team_.size());
  team_.parallel_for(even * heads, share.grain, share.first, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t head = at / even, from = at - head * even;
      const std::int64_t to = std::min(end - head * even, panels);
      const kernel::Activations in = inputs(head);
      const Matrix m = stack[head];
      if (from < to) m.format->matmul({m.panels, m.k, m.rows, from, to, &in, out.data + head * out.head, out.row});
      at = std::min(end, (head + 1) * even);
    }
  });
}

}  // namespace kvasir::cpu
