#include "select/unread.hpp"

#include <algorithm>
#include <cmath>

#include "simd/half.hpp"

namespace kvasir::select {

bool Unread::wanted(const kv::LayerStep& step, const kv::Part& p) {
  return p.chosen && !p.prompt && spec_of(p).unread && step.x.scoring.soft_cap == 0 && !step.x.scoring.slopes &&
         !step.x.scoring.distances;
}

// First block that counts: those before it are read, or have sinks, which are.
static std::int64_t first_block(const kv::Layout& l, const SelectSpec& spec, const kv::BlockCut& cut) {
  return std::min(cut.local, std::max<std::int64_t>(cut.initial, (l.sinks + spec.block - 1) / spec.block));
}

void Unread::estimate_all(const kv::Part& p, int head, int rows, const Question& q) const {
  const kv::Layout& l = arena_.layout;
  const std::int64_t first = first_block(l, spec_of(p), p.cut);
  for (int r = 0; r < rows; ++r) {
    const float* const row = q.scores + r * score_stride(memory_.layout());
    std::copy(row + first, row + p.cut.local, q.spent + first);
    const PowerSum all = add_powers(q.spent, first, p.cut.local);
    scratch_.answers().exponents_at(p.counters + head)[r] = all.most;
    scratch_.answers().sums_at(p.counters + head)[r] = static_cast<float>(all.sum);
  }
}

void Unread::estimate(const kv::LayerStep& step, const kv::Part& p, int head, int worker) const {
  const kv::Layout& l = arena_.layout;
  const SelectSpec& spec = spec_of(p);
  const kv::LayerLayout& layer = step.owner();
  float* const sums = scratch_.answers().sums_at(p.counters + head);
  const float* const exponents = scratch_.answers().exponents_at(p.counters + head);
  const auto rows = static_cast<int>(p.tokens * step.layer().group());
  const Question q = scratch_.question(worker);
  if (average(step, p, head, q.values) == 0) return void(std::fill_n(sums, rows, 0.0f));
  load_question(step, p, head, q, worker);
  const int pitch = summary_pitch(*spec.selector, layer.shape.head_dim);
  const std::int64_t first = first_block(l, spec, p.cut);
  const std::int64_t stride = score_stride(memory_.layout());
  const auto room = std::min<std::int64_t>(l.memory.pages, stride);
  std::int64_t count = 0;
  double* const read = q.totals;
  std::fill_n(read, rows, 0.0);
  const auto take = [&] {
    summaries().scores(q.summaries, count, 1, pitch, q.asked, rows, q.scores, stride);
    for (int r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < count; ++i)
        if (const float score = q.scores[r * stride + i]; score == score)
          read[r] += static_cast<double>(std::exp2(score - exponents[r]));
    count = 0;
  };
  each_block(scratch_.runs(p.counters + head), spec.block, [&](std::int64_t b) {
    if (b < first || b >= p.cut.local) return;
    const std::int64_t page = b / spec.blocks_per_page();
    q.summaries[count++] = arena_.summary(layer, head, p.sequence->pages[static_cast<std::size_t>(page)]) +
                           b % spec.blocks_per_page() * pitch * 2;
    if (count == room) take();
  });
  take();
  // A score stands for all tokens of its block.
  for (int r = 0; r < rows; ++r)
    sums[r] = static_cast<float>(std::max(0.0, static_cast<double>(sums[r]) - read[r]) * spec.block);
}

std::int64_t Unread::average(const kv::LayerStep& step, const kv::Part& p, int head, double* rest) const {
  const SelectSpec& spec = spec_of(p);
  const kv::LayerLayout& layer = step.owner();
  const int channels = layer.shape.sum_dim();
  const std::int64_t per_page = spec.blocks_per_page();
  const std::int64_t sealed = arena_.layout.sealed_at(p.position);
  // Adds `sign` times the values of block b to sum; returns its tokens.
  const auto add = [&](std::int64_t b, double sign, double* sum) {
    const std::int64_t page = b / per_page;
    const std::uint16_t* means = memory_.means(layer, head, p.sequence->pages[static_cast<std::size_t>(page)]);
    means += b % per_page * channels;
    const auto begin = static_cast<int>(b % per_page * spec.block);
    const int tokens = begin + spec.block - std::min(std::max(begin, arena_.first_row(page)), begin + spec.block);
    for (int c = 0; c < channels; ++c) sum[c] += sign * tokens * static_cast<double>(simd::f16_to_f32(means[c]));
    return tokens;
  };
  ValueSum& all = memory_.value_sum(*p.sequence, step.layer(), head);
  for (; all.pages < sealed; ++all.pages)
    for (std::int64_t b = 0; b < per_page; ++b) add(all.pages * per_page + b, 1, all.sum());
  std::copy_n(all.sum(), channels, rest);
  std::int64_t tokens =
      sealed * kv::kPageTokens - std::min<std::int64_t>(arena_.layout.sinks, sealed * kv::kPageTokens);
  each_block(scratch_.runs(p.counters + head), spec.block, [&](std::int64_t b) { tokens -= add(b, -1, rest); });
  float* const mean = scratch_.answers().means_at(p.counters + head);
  for (int c = 0; c < channels; ++c)
    mean[c] = tokens > 0 ? static_cast<float>(rest[c] / static_cast<double>(tokens)) : 0;
  return tokens;
}

void Unread::add(const kv::LayerStep& step, const kv::Part& p, int head, int rows, const kv::FoldScratch& room) const {
  const int channels = step.layer().shape.sum_dim();
  const auto& kernels = kernel::attention();
  const float* const mean = scratch_.answers().means_at(p.counters + head);
  kernels.clear(rows, channels, room.run);
  bool any = false;
  for (int r = 0; r < rows; ++r) {
    const float sum = scratch_.answers().sums_at(p.counters + head)[r];
    if (!(sum > 0)) continue;
    any = true;
    room.run.max[r] = scratch_.answers().exponents_at(p.counters + head)[r];
    room.run.sum[r] = sum;
    float* const out = room.run.out + static_cast<std::ptrdiff_t>(r) * kernel::out_pitch(channels);
    for (int c = 0; c < channels; ++c) out[c] = sum * mean[c];
  }
  if (any) kernels.fold(rows, channels, room.run, room.total);
}

}  // namespace kvasir::select
