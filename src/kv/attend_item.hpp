// Of one item of attention's work, a head with some rows of queries: how it uses its worker's scratch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kv/attend.hpp"

namespace kvasir::kv {

inline constexpr std::size_t kAlign = 16;  // floats: one cache line

inline std::size_t round_up(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Hands out aligned pieces of a worker's scratch.
class Pieces {
 public:
  explicit Pieces(float* p) : p_(p) {}
  float* take(std::size_t floats) {
    float* r = p_;
    p_ += round_up(floats);
    return r;
  }
  kernel::States states(std::size_t rows, std::size_t pitch) {
    float* max = take(rows);
    float* sum = take(rows);
    return {max, sum, take(rows * pitch)};
  }

 private:
  float* p_;
};

// Query rows: token-major, the g heads of a group together. Row r belongs to position first + r / g.
struct Attention::Rows {
  const float* q;
  int count;
  int group;
  std::int64_t first;
  std::int64_t last;  // position of the last row

  // ends[r] = tokens of [start, start + limit) that row r sees; returns the largest.
  int ends(std::int64_t start, int limit, int* out) const {
    for (int r = 0; r < count; ++r) {
      const std::int64_t seen = first + r / group + 1 - start;
      out[r] = static_cast<int>(std::clamp<std::int64_t>(seen, 0, limit));
    }
    return out[count - 1];
  }
};

struct Attention::Scratch {
  float* q;
  float* basis_q;  // the same rows in the basis of the keys' codec
  int* ends;
  float* rest;
};

}  // namespace kvasir::kv
