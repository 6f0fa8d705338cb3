// Products of packed matrices with rows of a step, and row-wise work between them, shared out over a team. Results do
// not depend on how.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/function_ref.hpp"
#include "base/team.hpp"
#include "cpu/matrix.hpp"
#include "cpu/product_device.hpp"
#include "cpu/rows.hpp"
#include "kernel/ops.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::cpu {

// Whether a thread should take some rows through all of a layer's products, instead of all threads taking parts of each
// product for all rows. Then threads wait for each other twice per layer, not twelve times, and what a product writes
// is read by the next from the same core's cache; but every thread reads all weights, and once for 64 rows. So for
// layers that the last-level cache holds, and not for products in floats, whose kernels want more columns at once.
class TileRule {
 public:
  TileRule();
  void next_layer() { layer_bytes_ = 0; }
  void add(const Matrix& m);
  bool pays() const { return pays_; }

 private:
  std::uint64_t most_bytes_;  // of a layer
  std::uint64_t layer_bytes_ = 0;
  bool pays_ = true;
};

// What makes the elements of hidden rows: act(gate x + gate_bias) * (up x + up_bias), or act(up x + up_bias).
struct Hidden {
  kernel::Activation activation;
  const Matrix* gate;  // of up's shape; nullptr: none
  const float* gate_bias;
  const Matrix& up;
  const float* up_bias;
  const kernel::Xielu* xielu = nullptr;  // of Activation::kXielu, which has no gate
  // Of the matrices' addends, if they have some: what B reads. Products::make_hidden makes it.
  const kernel::Activations* gate_low = nullptr;
  const kernel::Activations* up_low = nullptr;
  bool floats_too = false;  // Rows::float_hidden as well
};

// Of a range of panels or columns.
struct Range {
  std::int64_t begin, end;
};

// Prepares elements of rows.hidden from the prepared rows by one thread: those that whole panels of the matrices make.
// REQUIRES: panels.begin even, panels.end too or all. `factors` is the thread's.
void make_hidden_panels(const Rows& rows, const Hidden& h, Range panels, float* factors);

// Columns of hidden rows whose factors a device makes at a time: whole tiles.
inline constexpr std::int64_t kDeviceColumns = 512;

class Products {
 public:
  Products(Team& team, const RowScratch& scratch) : team_(team), scratch_(scratch) {}
  // With a device that may take products of the whole team; hidden: width of the widest hidden rows. REQUIRES: the
  // device outlives it.
  Products(Team& team, const RowScratch& scratch, ProductDevice* device, std::int64_t hidden);

  // f(begin, end) on pieces of the rows.
  using RowPieces = FunctionRef<void(std::int64_t begin, std::int64_t end)>;
  void row_wise(const Rows& rows, RowPieces f) const;

  // Prepares x (count, k) for the matrices `users`, in each form that one of them wants. With `norm`, rows are what
  // norm(row of x, out) makes of them.
  using RowNorm = FunctionRef<void(const float* x, float* out)>;
  void prepare(Rows& rows, std::span<const Matrix* const> users, const float* x, std::int64_t k, RowNorm norm) const;
  // outs[i] = matrices[i] times the prepared rows, all in one parallel region; addends take three more, where rows have
  // scales of adapters. REQUIRES: at most kMostAddends of the matrices have some.
  void multiply(const Rows& rows, std::span<const Matrix* const> matrices, std::span<float* const> outs) const;
  // Prepares rows.hidden for `down`, from the prepared rows.
  void make_hidden(Rows& rows, const Hidden& h, const Matrix& down) const;
  // out = m times the hidden rows.
  void multiply_hidden(const Rows& rows, const Matrix& m, float* out) const;

 private:
  void split(const Rows& rows, std::int64_t n, std::int64_t first, std::int64_t grain, Team::Pieces f) const;
  void split_panels(const Rows& rows, std::int64_t panels, std::int64_t panel_bytes, Team::Pieces f) const;
  using InputOf = FunctionRef<const kernel::Activations&(const Matrix&)>;
  void multiply_plain(const Rows& rows, std::span<const Matrix* const> matrices, std::span<float* const> outs,
                      InputOf input) const;
  bool wants_device(const Rows& rows) const {
    return device_ && rows.worker < 0 && device_->from_rows() > 0 && rows.count >= device_->from_rows();
  }
  bool make_hidden_there(Rows& rows, const Hidden& h) const;
  void add_addends(const Rows& rows, std::span<const Matrix* const> matrices, std::span<float* const> outs,
                   const kernel::Activations& x) const;
  std::array<kernel::Activations, kMostAddends> make_lows(const Rows& rows, std::span<const Addend* const> addends,
                                                          const kernel::Activations& x) const;

  Team& team_;
  const RowScratch& scratch_;
  ProductDevice* device_ = nullptr;
  tensor::Buffer factors_;  // (2, kDeviceColumns, hidden): what a device makes of gate and up
};

}  // namespace kvasir::cpu
