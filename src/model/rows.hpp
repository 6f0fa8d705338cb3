// Elements of a text that are no tokens: rows of floats, such as embeddings that a caller has, or what an encoder made
// of a picture. A row's id is negative and made of the content of its whole run, so everything that knows texts by
// their ids (pages, keys, forks) knows rows, too, and no two contents are taken for each other:
//
//   content  = H(-, "kvasir.e", width, floats)       BLAKE2b-256, store/key.hpp; or what else names them, as a picture
//   ids      = -2 - the low 31 bits of each word of H(content, "kvasir.i", 0), H(content, "kvasir.i", 1), ...
//
// A word says 31 bits of the content. So a beginning that two texts have in common ends in front of a run, or at least
// kSureRows rows within it: 248 bits are equal then. It never ends within a run whose rows see each other: what is
// known of the first ones depends on the last.
#pragma once

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

// Any thread.
class RowBlock {
 public:
  // values: (count, width) as they enter the first layer, behind the embedding's factor. REQUIRES: whole rows.
  RowBlock(std::vector<float> values, int width);
  // Of content that is named otherwise. `load` gives the values when they are first asked for, which is never where
  // everything is known already; what it throws, row() throws.
  RowBlock(const store::Key& content, std::int64_t count, int width, Sight sight,
           std::function<std::vector<float>()> load);

  int width() const { return width_; }
  std::int64_t count() const { return static_cast<std::int64_t>(ids_.size()); }
  Sight sight() const { return sight_; }
  bool both_ways() const { return sight_ != Sight::kEarlier; }
  std::span<const std::int32_t> ids() const { return ids_; }  // (count), each below -1
  const float* row(std::int64_t i) const;

 private:
  std::vector<std::int32_t> ids_;
  int width_;
  Sight sight_ = Sight::kEarlier;
  mutable std::once_flag once_;
  mutable std::function<std::vector<float>()> load_;
  mutable std::vector<float> values_;
};

// A block that stands in a text from element `begin` on.
struct RowRun {
  std::int64_t begin = 0;
  std::shared_ptr<const RowBlock> block;
  std::int64_t end() const { return begin + block->count(); }
};

// The row that is element `at`. REQUIRES: it lies in one of the runs, which are ascending. Throws as RowBlock::row.
const float* row_at(std::span<const RowRun> runs, std::int64_t at);

// The most of the first n elements that two texts with the same ids have in common for sure: see above.
std::int64_t common_end(std::span<const RowRun> runs, std::int64_t n);

}  // namespace kvasir::model
