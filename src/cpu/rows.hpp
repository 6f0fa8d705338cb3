// Rows of a step and the scratch in which a team, or one of its threads, computes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/team.hpp"
#include "cpu/matrix.hpp"
#include "kernel/matmul.hpp"

namespace kvasir::cpu {

inline constexpr std::int64_t kTile = kernel::kTileColumns;  // rows that a thread computes by itself
inline constexpr int kRowGrain =
    16;  // rows per piece of row-wise work: whole cache lines of a transposed activation tile

inline constexpr kernel::ActivationKind kKinds[] = {kernel::ActivationKind::kInt8, kernel::ActivationKind::kBf16,
                                                    kernel::ActivationKind::kF32, kernel::ActivationKind::kRounded};
static_assert(std::size(kKinds) == kernel::kActivationKinds);
constexpr std::size_t index(kernel::ActivationKind kind) { return static_cast<std::size_t>(kind); }
// Whether a matrix may want it on this machine; `rounded`: of a model whose matrices are multiplied in bf16.
bool kind_used(kernel::ActivationKind kind, bool rounded);
// What matrices whose columns have an order of their own want.
constexpr kernel::ActivationKind ordered_kind(bool rounded) {
  return rounded ? kernel::ActivationKind::kRounded : kernel::ActivationKind::kInt8;
}
constexpr std::int64_t in_blocks(std::int64_t width) { return (width + 31) / 32 * 32; }

// Lays arrays out one behind the other, each on a cache line of its own. Without memory it only counts.
class Placer {
 public:
  explicit Placer(std::byte* base) : base_(base) {}
  template <class T>
  T* take(std::int64_t n) {
    std::byte* const at = base_ ? base_ + used_ : nullptr;
    used_ += (n * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

// The longest rows of a model.
struct Widths {
  std::int64_t dim = 0;     // what a layer gives
  std::int64_t input = 0;   // what a matrix reads, hidden rows aside
  std::int64_t hidden = 0;  // of a feed forward
  int orders = 0;           // of columns, among matrices that read the same; 0..kMostOrders
  std::int64_t rank = 0;    // of an addend; 0: there is none
  bool rounded = false;     // ModelSpec::rounded
};
inline constexpr int kMostOrders = 4;
inline constexpr int kMostAddends = 6;  // of matrices that are multiplied together

// Rows [first, first + count) of a step and who computes them: the whole team, or one of its threads by itself. Scratch
// is (count, ...).
// Elements order[j] of rows, for the matrices with that order (cpu::Matrix).
struct OrderedInput {
  const std::int32_t* order;
  kernel::Activations x;
};

struct Rows {
  std::int64_t first;
  int count;
  int worker;     // of the thread; -1: the team
  float* normed;  // (count, dim)
  float* y;       // (count, dim): what a mixer or a feed forward gives
  std::array<kernel::Activations, kernel::kActivationKinds> inputs;  // by kind: what the next products read
  kernel::Activations hidden;                                        // what the last product of a feed forward reads
  int orders = 0;                                                    // of `ordered` that may be used
  std::array<OrderedInput, kMostOrders> ordered = {};
  // With addends: A x of matrices that are multiplied together, as products (count, rank of the widest) and as what B
  // reads; and `hidden` in floats.
  std::array<float*, kMostAddends> low_products = {};
  std::array<kernel::Activations, kMostAddends> lows = {};
  kernel::Activations float_hidden = {};
  const float* const* scales = nullptr;  // (count): each row's scales of the model's adapters; null: nothing is added

  // What `m` reads. REQUIRES: it was among the users that the rows were prepared for.
  const kernel::Activations& input_of(const Matrix& m) const;
};

// The memory of Rows for steps of up to a number of rows.
class RowScratch {
 public:
  static RowScratch place(const Widths& widths, int max_rows, int threads, Placer& p);

  Rows whole(int rows) const;
  // Of a step of `rows`, by thread `worker` alone: the parts of whole()'s scratch that are the thread's.
  Rows tile(std::int64_t first, int rows, int worker) const;
  // (2, kPieceFloats) of a thread: factors of hidden elements. With addends there is a third part, for what they add.
  float* factors(int worker) const;
  // (widest input) of a thread: a row in another order. REQUIRES: there are orders.
  float* permuted(int worker) const { return permuted_ + worker * widths_.input; }

 private:
  void set_orders(Rows& r, std::int64_t skip, int whole) const;
  void set_addends(Rows& r, std::int64_t skip, int whole) const;

  Widths widths_;
  float* normed_ = nullptr;
  float* y_ = nullptr;
  float* factors_ = nullptr;
  std::array<std::byte*, kernel::kActivationKinds> inputs_{};
  std::array<std::byte*, kMostOrders> ordered_{};  // of ordered_kind
  float* permuted_ = nullptr;
  std::byte* hidden_ = nullptr;  // of any kind
  std::array<float*, kMostAddends> low_products_{};
  std::array<std::byte*, kMostAddends> lows_{};
  std::byte* float_hidden_ = nullptr;
};

// What a thread computes at a time in scratch of its own: panels x columns, kPieceFloats elements at most.
struct Piece {
  int panels;  // even, so that whole blocks of 32 elements are prepared
  std::int64_t columns;
};
inline constexpr std::int64_t kPieceFloats = std::int64_t{24} * kernel::kPanelRows * kernel::kTileColumns;

// Kernels of floats make operands of a panel once for all columns of a call: they take fewer panels and more columns.
constexpr Piece piece_in(bool floats, std::int64_t columns) {
  return floats && columns > kernel::kTileColumns ? Piece{6, kernel::kTileColumns * 4}
                                                  : Piece{24, kernel::kTileColumns};
}
static_assert(piece_in(true, 65).columns * piece_in(true, 65).panels * kernel::kPanelRows == kPieceFloats);
static_assert(piece_in(false, 65).columns * piece_in(false, 65).panels * kernel::kPanelRows == kPieceFloats);

// f(rows) once for all rows of a step or, in tiles, once for each tile, by one thread.
template <class F>
void in_rows(Team& team, const RowScratch& scratch, int rows, bool tiles, const F& f) {
  const std::int64_t count = (rows + kTile - 1) / kTile;
  if (!tiles || count < 2 * team.size()) {
    Rows all = scratch.whole(rows);
    return f(all);
  }
  // Shared out beforehand, so that a thread's rows are in its cache from layer to layer.
  team.parallel_for(count, 1, count / team.size(), [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t t = begin; t < end; ++t) {
      Rows tile = scratch.tile(t * kTile, rows, worker);
      f(tile);
    }
  });
}

}  // namespace kvasir::cpu
