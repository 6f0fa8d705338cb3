#include "select/memory.hpp"

#include <cstring>

#include "select/outline.hpp"
#include "select/question.hpp"
#include "select/summaries.hpp"

namespace kvasir::select {

SelectLayout::SelectLayout(const SelectSpec& spec, const kv::Layout& layout)
    : select(spec), cache(layout), layers(layout.layers.size()) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const kv::LayerLayout& l = cache.layers[i];
    LayerMemory& m = layers[i];
    if (l.summary_bytes == 0 || l.owner != static_cast<int>(i)) continue;
    m.means_offset = kv::round64(summary_bytes(select, l.shape.head_dim));
    if (const int pitch = summary_pitch(*select.selector, l.shape.head_dim); pitch > 0) {
      m.outline_bytes = outline_tile_bytes(pitch);
      m.outline_offset = outline_bytes;
      outline_bytes += static_cast<std::size_t>(l.shape.kv_heads) * m.outline_bytes;
    }
  }
  for (const int i : cache.asked) {
    const kv::LayerShape& shape = cache.layers[static_cast<std::size_t>(i)].shape;
    LayerMemory& m = layers[static_cast<std::size_t>(i)];
    const auto take = [&](std::size_t* offset, std::size_t* bytes, std::size_t one, int count) {
      *offset = state_bytes;
      *bytes = kv::round64(one);
      state_bytes += static_cast<std::size_t>(count) * *bytes;
    };
    if (select.keeps_choices()) take(&m.choice_offset, &m.choice_bytes, choice_bytes(most_blocks()), shape.kv_heads);
    if (select.unread) take(&m.values_offset, &m.values_bytes, value_sum_bytes(shape.sum_dim()), shape.kv_heads);
    if (select.window > 0) take(&m.ring_offset, &m.ring_bytes, ring_bytes(select.window, shape), 1);
    if (select.adapts()) take(&m.level_offset, &m.level_bytes, level_bytes(cache.memory.tokens, select.meter), 1);
  }
}

std::int64_t SelectLayout::outline_tiles() const {
  if (!select.selector->width) return 0;  // blocks may be of single tokens then
  const std::int64_t slots = slots_per_tile(select.blocks_per_page());
  return (cache.memory.pages + slots - 1) / slots;
}

std::size_t SelectLayout::outlines() const {
  return kv::product({static_cast<std::size_t>(outline_tiles()), outline_bytes});
}

std::size_t SelectLayout::answer_bytes(int sequences) const {
  return kv::product(
      {static_cast<std::size_t>(sequences), static_cast<std::size_t>(cache.most_heads()), answer_room(*this)});
}

std::size_t SelectLayout::question_bytes() const { return Question::bytes(*this); }

SelectMemory::SelectMemory(const SelectSpec& spec, const kv::Arena& arena)
    : arena_(arena),
      layout_(spec, arena.layout),
      outlines_(tensor::Tag::kCache, layout_.outlines()),
      states_(tensor::Tag::kScratch, arena.sequences.size() * layout_.state_bytes) {}

std::byte* SelectMemory::outline_tile(const kv::LayerLayout& l, int head, std::int32_t slot) const {
  const LayerMemory& m = layout_.of(l);
  const auto tiles = static_cast<std::size_t>(layout_.outline_tiles());
  const auto i = static_cast<std::size_t>(slot / slots_per_tile(layout_.select.blocks_per_page()));
  return outlines_.data() + tiles * (m.outline_offset + static_cast<std::size_t>(head) * m.outline_bytes) +
         i * m.outline_bytes;
}

void SelectMemory::draw_outline(int l, int head, const kv::Sequence& s, std::int64_t page, float* scratch) const {
  const kv::LayerLayout& layer = arena_.layer_at(l);
  if (layout_.of(layer).outline_bytes == 0) return;
  const Selector& selector = *layout_.select.selector;
  const int blocks = layout_.select.blocks_per_page();
  const int pitch = summary_pitch(selector, layer.shape.head_dim);
  const auto slot = [&](std::int64_t i) { return s.pages[static_cast<std::size_t>(i)]; };
  const FramePages base = frame_of(page);
  const std::byte* from[FramePages::kMost];
  for (int i = 0; i < base.count; ++i) from[i] = arena_.summary(layer, head, slot(base.from[i]));
  const OutlineFrame frame{scratch, scratch + pitch};
  outlines().frame(from, base.count, blocks, selector.width(layer.shape.head_dim), pitch, frame);
  const std::int32_t to = slot(page);
  outlines().draw(arena_.summary(layer, head, to), blocks, pitch, frame, outline_tile(layer, head, to),
                  static_cast<int>(to % slots_per_tile(blocks)) * blocks);
}

void SelectMemory::forget(const kv::Sequence& s) const {
  if (layout_.state_bytes > 0) std::memset(states(s), 0, layout_.state_bytes);
}

void SelectMemory::cut(const kv::Sequence& s, std::int64_t n) const {
  if (layout_.state_bytes == 0) return;
  for (const int i : layout_.cache.asked) {
    const kv::LayerLayout& l = arena_.layer_at(i);
    const LayerMemory& m = layout_.of(l);
    if (m.level_bytes > 0) levels(s, l).cut(n, layout_.select.meter);
    if (m.ring_bytes > 0) query_ring(s, l).cut(n, layout_.select.window);
    for (int h = 0; h < l.shape.kv_heads; ++h) {
      if (m.choice_bytes > 0) choice(s, l, h).cut(n);
      if (m.values_bytes > 0) value_sum(s, l, h).cut(n, l.shape.sum_dim());
    }
  }
}

void SelectMemory::copy(const kv::Sequence& from, const kv::Sequence& to) const {
  if (layout_.state_bytes > 0) std::memcpy(states(to), states(from), layout_.state_bytes);
}

}  // namespace kvasir::select
