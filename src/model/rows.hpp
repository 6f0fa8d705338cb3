// Elements of a text that are no tokens: rows of floats, such as embeddings that a caller has, or what an encoder made
// of a picture. A row's id is negative and made of the content of its whole run, so everything that knows texts by
// their ids (pages, keys, forks) knows rows, too, and no two contents are taken for each other:
//
//   content  = H(-, "kvasir.e", width, floats)       BLAKE2b-256, store/key.hpp; or what else names them, as a picture
//   ids      = -2 - the low 31 bits of each word of H(content, "kvasir.i", 0), H(content, "kvasir.i", 1), ...
//
// The content of a run that is a grid or has rows for layers is H(content, "kvasir.g", height, width, layers).
//
// A word says 31 bits of the content. So a beginning that two texts have in common ends in front of a run, or at least
// kSureRows rows within it: 248 bits are equal then. It never ends within a run whose rows see each other: what is
// known of the first ones depends on the last.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "store/key.hpp"

namespace kvasir::model {

inline constexpr std::int64_t kSureRows = 8;

// Which of a run's rows each of them sees, besides what stands in front of the run.
enum class Sight {
  kEarlier,       // those before it, as tokens do
  kAll,           // all
  kAllInWindows,  // all in layers with a window, which holds the run, and those before it in the others
};

// Rows that lie in a plane, one line of it after the other. Models whose positions have three parts (Rope::axes) turn
// them by their places in it: see position_of.
struct Grid {
  int height = 0, width = 0;
  explicit operator bool() const { return width > 0; }
};

struct RowShape {
  std::int64_t count = 0;
  int width = 0;  // of a row
  Sight sight = Sight::kEarlier;
  Grid grid = {};  // none: rows follow each other as tokens do
  int deep = 0;    // layers, the first ones, to whose answers further rows are added at the places of these (deepstack)
};

// Whoever wants rows that take time to compute. Asked on the thread that computes them, between parts of the work.
class RowWatch {
 public:
  virtual ~RowWatch() = default;
  // `done` of about `all` parts are computed. False: nobody wants the rows any more, Error(kCancelled) is thrown.
  virtual bool go_on(std::int64_t /*done*/, std::int64_t /*all*/) { return true; }
  // Steps of a model are computed at the same time: they get the other half of the threads.
  virtual bool beside_steps() const { return false; }
};

// Any thread.
class RowBlock {
 public:
  // values: (count, width) as they enter the first layer, behind the embedding's factor. REQUIRES: whole rows.
  RowBlock(std::vector<float> values, int width);
  // Of content that is named otherwise. `make` gives the values, (1 + deep, count, width), when they are first asked
  // for, which is never where everything is known already; what it throws, load() and row() throw. REQUIRES: the grid,
  // if there is one, has `count` places.
  using Make = std::function<std::vector<float>(RowWatch& watch)>;
  RowBlock(const store::Key& content, const RowShape& shape, Make make);

  int width() const { return shape_.width; }
  std::int64_t count() const { return shape_.count; }
  Sight sight() const { return shape_.sight; }
  bool both_ways() const { return shape_.sight != Sight::kEarlier; }
  Grid grid() const { return shape_.grid; }
  int deep() const { return shape_.deep; }
  // How far the positions behind the block are from its first one.
  std::int64_t extent() const { return grid() ? std::max(grid().height, grid().width) : count(); }
  std::span<const std::int32_t> ids() const { return ids_; }  // (count), each below -1
  // Whether the values are there.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Makes them, once, on this thread; may be called again when it threw.
  void load(RowWatch& watch) const;
  // Of a block that is not ready: as load().
  const float* row(std::int64_t i) const { return values(0, i); }
  const float* deep_row(int layer, std::int64_t i) const { return values(1 + layer, i); }

 private:
  const float* values(int level, std::int64_t i) const;

  RowShape shape_;
  std::vector<std::int32_t> ids_;
  const Make make_;
  mutable std::mutex making_;
  mutable std::atomic<bool> ready_{false};
  mutable std::vector<float> values_;
};

// A block that stands in a text from element `begin` on.
struct RowRun {
  std::int64_t begin = 0;
  std::shared_ptr<const RowBlock> block;
  std::int64_t end() const { return begin + block->count(); }
};

// The run that element `at` lies in. REQUIRES: there is one; runs are ascending.
const RowRun& run_at(std::span<const RowRun> runs, std::int64_t at);

// A position of three parts, as M-RoPE counts them (Qwen2-VL, arXiv:2409.12191, section 2.1): time, line, column.
using Position = std::array<std::int64_t, 3>;

// That of element `at`. An element's three parts are equal, and one more than the largest in front of it, but row
// (y, x) of a grid has (t, t + y, t + x), where t is what an element in the grid's place would have.
Position position_of(std::span<const RowRun> runs, std::int64_t at);

// The most of the first n elements that two texts with the same ids have in common for sure: see above.
std::int64_t common_end(std::span<const RowRun> runs, std::int64_t n);

}  // namespace kvasir::model
