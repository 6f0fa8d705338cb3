// Where everything of a cache lies: byte offsets of every kind of block, per layer and KV head.
//
// Layers of one window are a class. Class `full` (no window): sealed pages in a pool, for ever, found through one page
// table per sequence. `local`: a ring of sealed pages per sequence; a page takes the slot of the one that has just gone
// out of sight, which so is given back; with CacheOptions::whole_windows it has its pages in the pool. `shared`: no
// blocks, its layout is that of the layer whose keys it reads. `latent`, of either: blocks of keys alone, which are
// read as values, too; v is the keys' codec and v_bytes are 0. `recurrent`: no pages but a state, per sequence: as it
// was at the last page boundary, the raw rows of the tokens behind that, and as it is now, which follows from these
// two. So what is kept depends on the number of tokens alone, and a sequence can be cut within its last page.
//
// Rows of an index are a latent layer behind the model's own. So they have blocks in every page, and are sealed,
// stored, cut and shared with it. They are kept as raw keys of the first layer that they choose for are, and stay so
// when they are sealed: a choice is all or nothing, and a rounded row is another choice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <vector>

#include "kv/codec.hpp"
#include "kv/options.hpp"
#include "kv/page.hpp"
#include "kv/page_selector.hpp"

namespace kvasir::kv {

inline constexpr int kFewRows =
    8;  // of a block of queries that is split over groups of pages, but for one token's rows

// One kind of block of one layer: head h has K at offset + h * (k_bytes + v_bytes), V behind it. Where several pages
// lie together (an extent of the pool, a ring), each of these is n times as long and holds the blocks of n pages.
struct BlockLayout {
  std::size_t offset = 0;
  std::size_t k_bytes = 0;
  std::size_t v_bytes = 0;
  std::size_t k(int head) const { return offset + static_cast<std::size_t>(head) * (k_bytes + v_bytes); }
  std::size_t v(int head) const { return k(head) + k_bytes; }
};

// Of one recurrent layer, in floats from the beginning of a sequence's part.
struct RecurrentLayout {
  std::size_t columns = 0;   // (reach, channels): rows before the boundary
  std::size_t boundary = 0;  // (heads, key_dim, pitch): states at the boundary
  std::size_t rows = 0;      // (128, row): raw rows behind it
  std::size_t live = 0;      // (heads, key_dim, pitch): states now
  std::size_t mark = 0;      // (heads, key_dim, pitch): states before the last drafted step; with Layout::drafts
  std::size_t boundary_floats = 0;
};

struct LayerLayout {
  LayerShape shape;
  RecurrentLayout recurrent;
  int owner = 0;             // the layer whose keys and values it reads: itself unless it is shared
  const Codec* k = nullptr;  // of sealed pages
  const Codec* v = nullptr;
  CodecParams k_params;
  CodecParams v_params;
  const Codec* raw_k = nullptr;  // f32, f16 or bf16
  const Codec* raw_v = nullptr;
  int ring = 0;        // local: sealed pages kept per sequence; 0 where raw ones reach as far as the window
  int raw_ring = 0;    // raw pages per sequence
  BlockLayout sealed;  // full: in a chunk of the pool; local: in the sequence's rings, sizes of one page
  BlockLayout raw;     // in the sequence's raw pages, sizes of one page
  BlockLayout sinks;
  BlockLayout state;
  int asked = -1;                   // its place among the layers that a selector is asked about; -1: it is not
  std::size_t feedback_offset = 0;  // of a head's feedback in its state of keys; 0: none
  std::size_t summary_bytes = 0;    // of a page of one head, for the selector
  std::size_t summary_offset = 0;   // of head 0, in units of one pool page
  bool one_arithmetic = true;       // prompts get the bits of the codecs' dots and accumulate: see kv/codec.hpp

  bool whole = false;  // it has a window, and keeps all its pages

  bool local() const { return shape.window > 0 && !whole; }
  bool attends() const { return shape.attends(); }
  // Sealed at all: not where every visible token is raw.
  bool seals() const { return !local() || ring > 0; }
  int group() const { return shape.group(); }
  // Rows of one block of queries that are split over groups of pages: a few at most.
  bool few(int tokens) const { return tokens == 1 || tokens * group() <= kFewRows; }
  // First page that a query at position p or a later one may see.
  std::int64_t first_page(std::int64_t p) const {
    return shape.window > 0 ? std::max<std::int64_t>(0, p - shape.window + 1) / kPageTokens : 0;
  }
  // First page that a sequence of n tokens still has: what the shortest sequence that ends in the same page sees next.
  // So it depends on n alone, and a sequence can be cut within its last page.
  std::int64_t first_kept(std::int64_t n) const {
    return n > 0 && local() ? first_page((n - 1) / kPageTokens * kPageTokens + 1) : 0;
  }
};

// Floats of the queries of a token and KV head.
inline std::size_t query_floats(const LayerShape& s) {
  return (static_cast<std::size_t>(s.group()) * static_cast<std::size_t>(s.head_dim) + 15) / 16 * 16;
}

// Behind every buffer of blocks: readers may touch that many bytes after a block.
inline constexpr std::size_t kReadSlack = 64;

struct Layout {
  CacheShape shape;      // with a layer for every index, behind those of the model
  int model_layers = 0;  // without these
  int step_tokens = 0;   // CacheOptions::step_tokens
  std::vector<LayerLayout> layers;
  std::shared_ptr<const PageSelector> selector;  // CacheOptions::selector
  std::vector<int> asked;                        // layers that it is asked about
  int residual = 0;   // tokens that are raw at least for every query, itself included: see sealed_at
  int raw_pages = 0;  // most pages that are raw at a time: ceil((residual - 1) / 128) + 1
  int sinks = 0;
  int sink_capacity = 0;  // rows of a sink block: sinks rounded up to 16
  bool lossless = true;
  bool has_window = false;           // some layer is local
  bool attends = false;              // some layer does; else nothing has pages
  bool recurs = false;               // some layer does
  bool drafts = false;               // CacheOptions::drafts
  int extent_pages = 1;              // a power of two
  std::size_t page_bytes = 0;        // of the pool: sealed keys and values of one page index, all full layers
  std::size_t summary_bytes = 0;     // beside it
  std::size_t local_bytes = 0;       // rings of one sequence
  std::size_t raw_bytes = 0;         // raw pages of one sequence
  std::size_t sink_bytes = 0;        // of one sequence
  std::size_t recurrent_floats = 0;  // of one sequence
  std::size_t disk_memory = 0;       // > 0: sealed pages of the pool are on a disk, and so many bytes of them in memory
  MemoryPlan memory;

  // Most query rows of a part that is split over groups of pages, of any layer.
  int few_rows() const;
  // Most groups of pages a sequence can have, one for the sinks included; of runs of pages, where a selector chooses.
  std::int64_t max_states() const {
    const int runs = selects() ? selector->runs_per_page() : 1;
    return memory.tokens * runs / (kPageTokens * kGroupPages) + raw_pages + 3;
  }
  int index_layer(int index) const { return model_layers + index; }
  std::size_t index_scratch(int tokens) const;  // bytes, of steps of so many rows; 0: there are no indexes
  std::size_t state_floats_one() const;         // {max, sum, out} of few_rows() rows
  std::size_t state_floats() const;             // of one sequence, for all heads and groups
  std::size_t worker_floats() const;            // per thread
  // Of that, where a page is sealed that goes to a disk.
  std::size_t sealing_floats() const;
  std::size_t recurrent_worker_floats() const;  // per thread
  std::size_t widest_row() const;               // of recurrent layers, in channels
  int most_heads() const;                       // KV heads of a layer
  int widest_sum() const;                       // elements of a sum of values, of any layer
  // Of queries for a device: one head's in a step, and all.
  std::size_t device_query_floats() const;
  std::size_t device_bytes(int sequences) const;
  // Floats of a device's folds of a part of so many tokens with many rows: see kv/device_folds.hpp.
  std::size_t device_prompt_floats(int tokens) const;
  bool selects() const { return selector && !selector->dense(); }

  // Sealed pages seen from position p (p = -1: before the first token), architecture section 2: those whose tokens are
  // all among the first p + 1 - residual.
  std::int64_t sealed_at(std::int64_t p) const {
    const std::int64_t n = p + 1 - residual;
    return attends && n > 0 ? n / kPageTokens : 0;
  }
  // The first position behind p that sees more of them; of a cache without pages one that no text reaches.
  std::int64_t next_seal(std::int64_t p) const {
    return attends ? (sealed_at(p) + 1) * kPageTokens + residual - 1 : std::numeric_limits<std::int64_t>::max() / 2;
  }
};

// Pages whose blocks of one head and side lie behind each other: as many as 128 KiB hold, a power of two. Memory in
// order is read faster than scattered blocks of 4 to 16 KiB, which hardware's prefetchers find too late.
inline constexpr std::size_t kExtentBytes = 128 << 10;
int extent_pages(std::size_t block_bytes);

// Rows that one item of a prompt handles at most: as many as share an unsealed tile while everything stays in L2.
inline constexpr int kItemRows = 128;

// Products of sizes that options and files choose: saturates far above what any machine has, so that sums of a few of
// them are still right and tensor::Buffer refuses them.
std::size_t product(std::initializer_list<std::size_t> factors);
inline std::size_t round64(std::size_t n) { return (n + 63) / 64 * 64; }

Layout make_layout(const CacheShape& shape, const CacheOptions& options, int threads);

// The page boundary that a sequence of n tokens keeps the states of recurrent layers at: where its last page begins.
inline std::int64_t boundary_of(std::int64_t n) { return n > 0 ? (n - 1) / kPageTokens * kPageTokens : 0; }
// Tokens that a recurrent layer takes together, in a thread's scratch.
inline constexpr int kRecurrentTokens = 32;

}  // namespace kvasir::kv
