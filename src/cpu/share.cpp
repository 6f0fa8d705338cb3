#include "cpu/share.hpp"

#include <algorithm>

#include "kernel/matmul.hpp"
#include "kernel/streaming.hpp"

namespace kvasir::cpu {

// With few columns weights are read once, and what costs time is that threads ask for more: where cores do not share a
// cache the counter takes long to come (base/team.hpp), while memory waits. So small products are halved (or as many
// threads as there are), and of large ones a sixteenth is left for those that end first.
Share share_of(std::int64_t panels, std::int64_t panel_bytes, int columns, int threads) {
  if (columns > kernel::kGemvColumns) {
    const std::int64_t pieces = piece_of(panels, threads);
    return {pieces, pieces};
  }
  constexpr std::int64_t kSmall = 1 << 20;  // bytes of a thread
  const std::int64_t team = threads, fair = panels / team;
  const std::int64_t first = fair * 15 / 16 / kernel::kStreams * kernel::kStreams;
  if (first == 0 || fair * panel_bytes < kSmall) {
    const std::int64_t all = (panels + 2 * team - 1) / (2 * team) * 2;
    return {all, all, true};
  }
  const std::int64_t rest = (panels - first * team + team - 1) / team;
  static_assert(kernel::kStreams % kShareUnit == 0);
  return {first, (rest + kernel::kStreams - 1) / kernel::kStreams * kernel::kStreams, true};
}

// Large, so that the activations of a tile are read from the L2 cache for most of its panels (kernels of floats also
// take panels three at a time). Among the sizes that are possible the one that leaves the least to the busiest thread:
// 36 panels as 12 12 12 are 24 for one of two threads, as 6 6 6 6 6 6 they are 18.
std::int64_t piece_of(std::int64_t panels, int team) {
  static_assert(kMostPanels % 6 == 0);
  constexpr std::int64_t most = kMostPanels, unit = 2;
  const std::int64_t threads = team;
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

}  // namespace kvasir::cpu
