// What towers of vision transformers share: patches to rows, blocks with attention over all of a picture's rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/ops.hpp"
#include "vision/linear.hpp"
#include "vision/picture.hpp"

namespace kvasir::vision {

// (byte / 255 - mean) / deviation of a channel, as one multiplication and one addition.
struct Normal {
  std::array<float, 3> mean{}, deviation{1, 1, 1};
  // clip.vision.image_mean, image_std. Throws Error(kBadInput) for anything but three numbers, deviations positive.
  static Normal read(const Reader& reader);
  std::string text() const;
};

// The patch of side x side pixels whose first one is (x, y), channel by channel: (3, side, side).
void cut_patch(const Picture& p, int x, int y, int side, const Normal& normal, float* out);

// v.patch_embd.weight (dim, 3 side side); .weight.1, if it is there, belongs to a second frame, and a still picture has
// the same one twice. With v.patch_embd.bias, if it is there.
Linear read_patches(const Reader& reader, std::int64_t dim, int side);

// Rows of grid x grid patches of side x side pixels, row by row of the picture: (grid grid, dim), their positions
// added.
std::vector<float> embed_patches(const Picture& p, int grid, int side, const Normal& normal, const Linear& patches,
                                 const std::vector<float>& positions, RowWork& work);

struct Block {
  Norm before_mixer, before_feed;
  std::vector<Linear> qkv;  // one fused matrix, or three; of a convolution what its input, its gate and its values are
  Norm q_norm, k_norm;      // of heads; empty: none
  std::vector<float> taps;  // (9, dim), line by line of 3 x 3; empty: it is attention
  Linear out, up, down;
  Linear gate;  // with TowerKind::gated
};

struct TowerKind {
  kernel::Activation activation;
  float eps;
  bool rms = false;    // norms, else layer norms
  bool gated = false;  // down(act(gate x) * up x), else down(act(up x))
  float sharp = 1;     // act(sharp x) / sharp in place of act(x): GELU as x sigmoid(1.702 x) is SiLU of 1.702
  bool biases = true;  // of matrices
};

// Where patches lie, for blocks that are convolutions: rows[y * width + x] is that of the patch in line y, column x.
struct PatchGrid {
  std::int64_t width = 0;
  std::vector<std::int64_t> rows;
};

// Cosines and sines of rows, (rows, head / 2) each; empty: no rotation. Halves are split (kernel::RopePairs).
struct Rotations {
  std::vector<float> cos, sin;
};

class Tower {
 public:
  // Blocks v.blk.0 … of the keys clip.vision.block_count, embedding_length, attention.head_count, head_count_kv. Blocks
  // with shortconv.conv are gated convolutions over 3 x 3 patches, others attention, with norms of heads where the file
  // has them. Throws Error(kBadInput).
  Tower(const Reader& reader, const TowerKind& kind);

  std::int64_t dim() const { return dim_; }
  int head() const { return static_cast<int>(dim_ / heads_); }
  std::size_t blocks() const { return blocks_.size(); }
  // x (n, dim) through block i, in place. Rows up to each of `ends`, from the last one on, see each other; all do where
  // there are none. REQUIRES: `grid` is there if some block is a convolution.
  void run(std::size_t i, RowWork& work, std::vector<float>& x, const Rotations& rotations,
           std::span<const std::int64_t> ends = {}, const PatchGrid& grid = {});

 private:
  Block read_block(const Reader& reader, const std::string& at, std::int64_t feed) const;
  void convolve(const Block& b, RowWork& work, std::int64_t n, const PatchGrid& grid);
  void attend(const Block& b, RowWork& work, std::int64_t n, const Rotations& rotations,
              std::span<const std::int64_t> ends);

  std::int64_t dim_ = 0, heads_ = 0, kv_heads_ = 0, feed_ = 0;
  TowerKind kind_;
  void (*attention_)(const kernel::WholeHead& head, float* scratch) = nullptr;
  std::vector<Block> blocks_;
  // Of one pass: (n, dim), (n, 3 dim) or matrices of n rows behind each other, (n, feed).
  std::vector<float> normed_, qkv_, hidden_, gate_, attention_scratch_;
};

}  // namespace kvasir::vision
