// Attention of one step: appends, seals and attends, query block by query block (architecture, section 2).
//
// The answer of a row is  total = sinks + group 0 + group 1 + ...,  group = page + page + ...  where + merges softmax
// states from left to right, a group is kGroupPages pages by absolute index, and a page's state is computed by itself.
// So the shape of the fold depends on the position alone, and work can be split into (head, group) for decode or (head,
// rows) for prefill with the same bits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "kernel/attention.hpp"
#include "kv/store.hpp"

namespace kvasir::kv {

class Attention {
 public:
  Attention(Team& team, const Store& store, int max_slices);

  // Makes room for a step; allocates only when more sequences decode together than ever before. Throws Error(kMemory).
  void reserve(std::span<const Slice> slices);
  std::size_t scratch_bytes() const { return workers_.size() + states_.size(); }

  struct Tensors {
    int layer;
    const float* q;
    const float* k;
    const float* v;
    float* out;
    float scale;
  };
  void run(std::span<const Slice> slices, const Tensors& x);

 private:
  // The part of a slice that lies in one query block.
  struct Part {
    const Sequence* sequence;
    std::int64_t position;  // of its first token
    std::int64_t block;     // position / 128
    int row;                // in the batch
    int tokens;
    bool decode;              // split over groups of pages, by dots and accumulate; else prefill
    bool seals;               // the first token enters a block
    bool append_in_item;      // decode without sealing: the item of the last group appends
    int items_per_head;       // decode: groups; prefill: pieces
    int tokens_per_item;      // prefill
    std::int64_t first_item;  // of this part among all
    std::int64_t states;      // decode: offset of its states
    int counters;             // decode: first of kv_heads counters
  };
  struct Rows;     // the query rows of an item
  struct Scratch;  // of an item
  struct Tiles;    // of an item of a prompt

  bool plan_stage(std::span<const Slice> slices);
  void prepare(const Tensors& x, const Part& part, int head, Side side, int worker) const;
  void prefill(const Tensors& x, const Part& part, int head, int piece, int worker) const;
  void decode(const Tensors& x, const Part& part, int head, int group, int worker) const;
  void decode_finish(const Tensors& x, const Part& part, int head, int worker) const;
  void decode_group(const Tensors& x, const Part& part, const Rows& rows, int head, int group, const Scratch& s,
                    const kernel::States& into) const;
  const std::byte* next_group(int layer, const Part& part, int head, int group, int ahead) const;
  Rows load_rows(const Tensors& x, const Part& part, int head, int token, int tokens, float* q) const;
  PageRef page_ref(const std::byte* block, std::int64_t page, std::int64_t last_position) const;
  int select(const Tensors& x, const Part& part, const Rows& rows, int head, std::int64_t group,
             std::int32_t* pages) const;
  TokenRows tokens_of(const Tensors& x, Side side, std::int64_t row, int head) const;
  const float* to_basis(const CodecSide& codec, const Head& head, const Rows& rows, float* to) const;
  void from_basis(const CodecSide& codec, const Head& head, int pages, int rows, const kernel::States& states) const;
  kernel::States decode_state(const Part& part, int head, int index) const;
  Scratch scratch(int worker) const;

  Team& team_;
  const Store& store_;
  std::size_t worker_floats_;
  tensor::Buffer workers_;
  tensor::Buffer states_;
  std::vector<int> done_;     // tokens of each slice before this stage
  std::vector<Part> parts_;   // of this stage
  std::int64_t first_ = 1;    // items of a thread's first piece
  std::vector<int> prepare_;  // parts that need sealing or appending before any item runs
  std::unique_ptr<std::atomic<int>[]> pending_;
};

}  // namespace kvasir::kv
