// How the panels of a product are shared out over a team.
#pragma once

#include <cstdint>

namespace kvasir::cpu {

inline constexpr int kMostPanels = 24;  // of a piece of a product with many columns

// As Team::parallel_for takes it: every thread's first piece, and those that are handed out then.
struct Share {
  std::int64_t first, grain;
};

// Always in even numbers, which kernels take in pairs and quantised activations need.
Share share_of(std::int64_t panels, std::int64_t panel_bytes, int columns, int threads);

// Panels per piece of a product with many columns.
std::int64_t piece_of(std::int64_t panels, int threads);

}  // namespace kvasir::cpu
