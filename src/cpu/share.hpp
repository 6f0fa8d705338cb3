// How the panels of a product are shared out over a team.
#pragma once

#include <cstdint>

namespace kvasir::cpu {

inline constexpr int kMostPanels = 24;  // in a piece of a product with many columns

// Arguments of Team::parallel_for: panels in every thread's first piece, and in each piece that is handed out after it.
struct Share {
  std::int64_t first, grain;
  bool by_speed = false;  // Team::parallel_by_speed: first pieces are most of the work, and no longer than all of it
};
inline constexpr std::int64_t kShareUnit = 2;  // of pieces

// Both are even: kernels take panels in pairs, and quantised activations need pairs.
Share share_of(std::int64_t panels, std::int64_t panel_bytes, int columns, int threads);

// Panels per piece of a product with many columns.
std::int64_t piece_of(std::int64_t panels, int threads);

}  // namespace kvasir::cpu
