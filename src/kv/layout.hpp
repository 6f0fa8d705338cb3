// Where everything of a cache lies: byte offsets inside a chunk, a raw block and a sink block, per layer and KV head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/cache.hpp"
#include "kv/codec.hpp"
#include "kv/page.hpp"
#include "kv/selector.hpp"

namespace kvasir::kv {

// One kind of block (sealed, raw or sinks) of one layer: head h has K at offset + h * (k_bytes + v_bytes), V behind it.
// Sealed pages lie in extents of several, which have n times as much of each: see Store::sealed.
struct BlockLayout {
  std::size_t offset = 0;
  std::size_t k_bytes = 0;
  std::size_t v_bytes = 0;
  std::size_t k(int head) const { return offset + static_cast<std::size_t>(head) * (k_bytes + v_bytes); }
  std::size_t v(int head) const { return k(head) + k_bytes; }
};

struct LayerLayout {
  const Codec* k = nullptr;  // of sealed pages
  const Codec* v = nullptr;
  CodecParams k_params;
  CodecParams v_params;
  const Codec* raw_k = nullptr;  // f32, f16 or bf16
  const Codec* raw_v = nullptr;
  BlockLayout sealed;
  BlockLayout raw;
  BlockLayout sinks;
  BlockLayout state;
};

// Behind every buffer of blocks: readers may touch that many bytes after a block.
inline constexpr std::size_t kReadSlack = 64;

struct Layout {
  CacheShape shape;
  std::vector<LayerLayout> layers;
  const Selector* selector = nullptr;
  int group = 0;      // query heads per KV head
  int raw_pages = 0;  // blocks per sequence: ceil(window / 128) + 1
  int sinks = 0;
  int sink_capacity = 0;  // rows of a sink block: sinks rounded up to 16
  bool lossless = true;
  bool one_arithmetic = true;        // prompts get the bits of the codecs' dots and accumulate: see kv/codec.hpp
  bool has_basis = false;            // some layer's keys are stored in another basis
  bool packed_prompts = false;       // some layer's values have them
  int extent_pages = 1;              // a power of two
  std::size_t raw_block_bytes = 0;   // one page index, all layers
  std::size_t sink_block_bytes = 0;  // one sequence, all layers
  MemoryPlan memory;

  // Tokens of one block of queries that go through the decode kernels: a few rows at most.
  bool is_decode(int tokens) const { return tokens == 1 || tokens * group <= 8; }
  int decode_rows() const { return group > 8 ? group : 8; }
  // Most groups of pages a sequence can have, one for the sinks included.
  std::int64_t max_states() const { return memory.tokens / (kPageTokens * kGroupPages) + raw_pages + 2; }
  std::size_t decode_state_floats_one() const;  // {max, sum, out} of decode_rows() rows
  std::size_t decode_state_floats() const;      // of one sequence, for all heads and groups
  std::size_t worker_floats() const;            // per thread

  // Sealed pages seen from position p (p = -1: before the first token), architecture section 2.
  std::int64_t sealed_at(std::int64_t p) const {
    const std::int64_t b = p / kPageTokens - (raw_pages - 1);
    return b > 0 ? b : 0;
  }
};

// Pages whose blocks of one head and side lie behind each other: as many as 128 KiB hold, a power of two. Memory in
// order is read faster than scattered blocks of 4 to 16 KiB, which hardware's prefetchers find too late.
inline constexpr std::size_t kExtentBytes = 128 << 10;
int extent_pages(std::size_t block_bytes);

// Rows that one prefill item handles at most: as many as share an unsealed tile while everything stays in L2.
inline constexpr int kItemRows = 128;

Layout make_layout(const CacheShape& shape, const CacheOptions& options, int threads);

}  // namespace kvasir::kv
