// Where a selection keeps what it has in one cache: sizes by layer, and the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/arena.hpp"
#include "select/spec.hpp"
#include "select/state.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::select {

// Of one layer of the cache.
struct LayerMemory {
  std::size_t means_offset = 0;    // of the means of values in a page's summary, with SelectSpec::unread
  std::size_t outline_bytes = 0;   // of a tile of one head's outlines, see select/outline.hpp; 0: there are none
  std::size_t outline_offset = 0;  // of head 0, in units of one tile
  // Among the states of a sequence.
  std::size_t choice_bytes = 0;  // of one head
  std::size_t choice_offset = 0;
  std::size_t values_bytes = 0;  // of one head, with SelectSpec::unread
  std::size_t values_offset = 0;
  std::size_t ring_bytes = 0;  // with SelectSpec::window
  std::size_t ring_offset = 0;
  std::size_t level_bytes = 0;  // with SelectSpec::adapts
  std::size_t level_offset = 0;
};

// A view of the cache's layout and selector: both outlive it.
struct SelectLayout {
  SelectLayout(const SelectSpec& spec, const kv::Layout& layout);

  const SelectSpec& select;
  const kv::Layout& cache;
  std::vector<LayerMemory> layers;
  std::size_t outline_bytes = 0;  // of one tile of outlines of every head, beside slots_per_tile of them
  std::size_t state_bytes = 0;    // of one sequence

  std::int64_t most_blocks() const { return cache.memory.pages * select.blocks_per_page(); }
  std::int64_t outline_tiles() const;  // of a head
  std::size_t outlines() const;        // bytes of all
  std::size_t answer_bytes(int sequences) const;
  std::size_t question_bytes() const;  // per thread
  const LayerMemory& of(const kv::LayerLayout& l) const {
    return layers[static_cast<std::size_t>(&l - cache.layers.data())];
  }
};

class SelectMemory {
 public:
  // `arena` outlives this.
  SelectMemory(const SelectSpec& spec, const kv::Arena& arena);

  const SelectLayout& layout() const { return layout_; }
  std::size_t state_bytes() const { return states_.size(); }  // of all sequences

  // Of outlines, the tile that has those of a pool page.
  std::byte* outline_tile(const kv::LayerLayout& l, int head, std::int32_t slot) const;
  // Draws the outline of a page whose summary is there. scratch: summary_floats.
  void draw_outline(int layer, int head, const kv::Sequence& s, std::int64_t page, float* scratch) const;
  // Means of the values of a pool page's blocks, see select/summaries.hpp.
  std::uint16_t* means(const kv::LayerLayout& l, int head, std::int32_t slot) const {
    return reinterpret_cast<std::uint16_t*>(arena_.summary(l, head, slot) + layout_.of(l).means_offset);
  }

  ChoiceState& choice(const kv::Sequence& s, const kv::LayerLayout& l, int head) const {
    const LayerMemory& m = layout_.of(l);
    return *reinterpret_cast<ChoiceState*>(states(s) + m.choice_offset +
                                           static_cast<std::size_t>(head) * m.choice_bytes);
  }
  ValueSum& value_sum(const kv::Sequence& s, const kv::LayerLayout& l, int head) const {
    const LayerMemory& m = layout_.of(l);
    return *reinterpret_cast<ValueSum*>(states(s) + m.values_offset + static_cast<std::size_t>(head) * m.values_bytes);
  }
  bool has_ring(const kv::LayerLayout& l) const { return layout_.of(l).ring_bytes > 0; }
  QueryRing query_ring(const kv::Sequence& s, const kv::LayerLayout& l) const {
    std::byte* const at = states(s) + layout_.of(l).ring_offset;
    return {reinterpret_cast<std::int64_t*>(at), reinterpret_cast<float*>(at + ring_head_bytes(layout_.select.window))};
  }
  Levels& levels(const kv::Sequence& s, const kv::LayerLayout& l) const {
    return *reinterpret_cast<Levels*>(states(s) + layout_.of(l).level_offset);
  }

  void forget(const kv::Sequence& s) const;
  // What queries from position n on chose is forgotten.
  void cut(const kv::Sequence& s, std::int64_t n) const;
  void copy(const kv::Sequence& from, const kv::Sequence& to) const;

 private:
  std::byte* states(const kv::Sequence& s) const {
    return states_.data() + static_cast<std::size_t>(s.index) * layout_.state_bytes;
  }

  const kv::Arena& arena_;
  const SelectLayout layout_;
  tensor::Buffer outlines_;
  tensor::Buffer states_;
};

}  // namespace kvasir::select
