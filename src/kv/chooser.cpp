#include "kv/chooser.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.hpp"

namespace kvasir::kv {
namespace {

std::ptrdiff_t words_of_pages(std::int64_t tokens) {
  return static_cast<std::ptrdiff_t>((tokens + kPageTokens - 1) / kPageTokens *
                                     static_cast<std::int64_t>(chosen_words(kPageTokens)));
}

// Positions below this see everything.
std::int64_t all_below(const LayerShape& s) { return s.chooses + s.block - 1; }

// out[t] = sum over heads of weights[h] * relu(s[h][t]) for t in [begin, end), heads in order; weights null: 1.
void add_heads(const float* s, const float* weights, int heads, int begin, int end, float* out) {
  std::fill(out + begin, out + end, 0.0f);
  for (int h = 0; h < heads; ++h, s += kPageTokens)
    for (int t = begin; t < end; ++t) out[t] += (weights ? weights[h] : 1.0f) * std::max(s[t], 0.0f);
}

}  // namespace

Chooser::Chooser(Team& team, const Arena& arena) : team_(team), arena_(arena) {
  const Layout& l = arena.layout;
  if (l.shape.indexes.empty()) return;
  stride_ = (l.memory.tokens + kPageTokens - 1) / kPageTokens * kPageTokens;
  scores_ = tensor::Buffer(tensor::Tag::kScratch, static_cast<std::size_t>(2 * kIndexRows * stride_) * sizeof(float));
  words_ = tensor::Buffer(tensor::Tag::kScratch, l.index_scratch(l.step_tokens) - l.index_scratch(0));
  runs_.reserve(kIndexRows);
}

void Chooser::reserve(std::span<const Slice> slices) {
  index_ = -1;
  if (arena_.layout.shape.indexes.empty()) return;
  std::int64_t rows = 0, tokens = 0;
  for (const Slice& s : slices) {
    rows = std::max<std::int64_t>(rows, s.row + s.count);
    tokens = std::max(tokens, s.sequence->length + s.count);
  }
  pitch_ = words_of_pages(tokens);
  const std::size_t bytes = static_cast<std::size_t>(rows * pitch_) * sizeof(std::uint64_t);
  if (bytes > words_.size()) words_ = tensor::Buffer(tensor::Tag::kScratch, bytes);
}

Chosen Chooser::chosen(int index) const {
  KVASIR_CHECK(index == index_);
  return {words_.as<std::uint64_t>(), pitch_, all_below(arena_.layer_at(index).shape)};
}

void Chooser::run(const LayerStep& step, const float* weights) {
  index_ = step.x.layer;
  const std::int64_t all = all_below(step.layer().shape);
  int rows = 0;
  runs_.clear();
  for (const Part& p : step.plan.parts()) {
    for (int t = static_cast<int>(std::clamp<std::int64_t>(all - p.position, 0, p.tokens)); t < p.tokens;) {
      const int count = std::min(p.tokens - t, kIndexRows - rows);
      runs_.push_back({&p, t, count, rows, p.block + 1});
      t += count;
      rows += count;
      if (rows < kIndexRows) continue;
      choose(step, weights);
      runs_.clear();
      rows = 0;
    }
  }
  if (rows > 0) choose(step, weights);
}

void Chooser::choose(const LayerStep& step, const float* weights) {
  std::int64_t pages = 0;
  for (const Run& r : runs_) pages += r.pages;
  team_.parallel_for(pages, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (auto i = begin; i < end; ++i) {
      std::int64_t page = i;
      const Run* run = runs_.data();
      while (page >= run->pages) page -= run++->pages;
      score(step, weights, *run, page, worker);
    }
  });
  const Run& last = runs_.back();
  const int block = step.layer().shape.block, top = step.layer().shape.chooses / block;
  team_.parallel_for(last.slot + last.count, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto slot = static_cast<int>(begin); slot < end; ++slot) {
      const Run* run = runs_.data();
      while (slot >= run->slot + run->count) ++run;
      pick(*run->part, run->token + slot - run->slot, slot, top, block);
    }
  });
}

// Page by page, as a tile of floats; sinks are a page of their own before page 0's other rows.
void Chooser::score(const LayerStep& step, const float* weights, const Run& run, std::int64_t page, int worker) const {
  const LayerLayout& layer = step.layer();
  const int index = step.x.layer, heads = layer.shape.query_heads, d = layer.shape.head_dim;
  const Sequence& sequence = *run.part->sequence;
  FoldScratch scratch;
  scratch.place(step.scratch(worker), fold_size(layer, arena_.layout.few_rows(), false));
  const std::int64_t first = page * kPageTokens;
  const auto seen = [&](int i) {
    return static_cast<int>(std::min<std::int64_t>(run.part->position + run.token + i + 1 - first, kPageTokens));
  };
  const auto add = [&](const Codec& codec, const Head& head, const std::byte* block, int begin, int most,
                       int capacity) {
    codec.k.unseal(head, {block, begin, std::min(most, seen(run.count - 1)), capacity}, scratch.k_tile);
    for (int i = 0; i < run.count; ++i) {
      const int end = std::min(most, seen(i));
      if (end <= begin) continue;
      const std::ptrdiff_t row = run.part->row + run.token + i;
      std::fill_n(scratch.ends, heads, end);
      kernel::attention().scores(step.x.q + row * heads * d, heads, d, scratch.k_tile, scratch.ends, scratch.weights);
      add_heads(scratch.weights, weights ? weights + row * heads : nullptr, heads, begin, end,
                scores(run.slot + i) + first);
    }
  };
  const Head raw{d, {}, nullptr};
  if (page == 0 && arena_.layout.sinks > 0)
    add(*layer.raw_k, raw, arena_.sinks(index, 0, sequence).k, 0, arena_.layout.sinks, arena_.layout.sink_capacity);
  PinnedPages here(arena_, index, 0);
  if (page < arena_.layout.sealed_at(run.part->position)) {
    here.load({&sequence.pages[static_cast<std::size_t>(page)], 1});
    add(*layer.k, arena_.head_k(index, 0), here[0].k, arena_.first_row(page), kPageTokens, kPageTokens);
  } else {
    add(*layer.raw_k, raw, arena_.raw(index, 0, sequence, page).k, arena_.first_row(page), kPageTokens, kPageTokens);
  }
}

// REQUIRES: the row sees more than `top` whole blocks.
void Chooser::pick(const Part& part, int token, int slot, int top, int block) const {
  const std::int64_t tokens = part.position + token + 1, n = tokens / block;
  float* const s = scores(slot);
  float* const order = scores(kIndexRows + slot);
  for (std::int64_t b = 0; b < n; ++b) {
    const float x = s[b * block + block - 1];
    order[b] = s[b] = std::isnan(x) ? -std::numeric_limits<float>::infinity() : x;  // what an order needs: numbers
  }
  std::nth_element(order, order + top - 1, order + n, std::greater<>());
  const float least = order[top - 1];
  std::int64_t equals = top - std::count_if(order, order + top, [&](float x) { return x > least; });
  std::uint64_t* const words = words_.as<std::uint64_t>() + (part.row + token) * pitch_;
  std::fill_n(words, words_of_pages(tokens), 0);
  const auto see = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) words[t / 64] |= std::uint64_t{1} << (t % 64);
  };
  for (std::int64_t b = 0; b < n; ++b)
    if (s[b] > least || (s[b] == least && equals-- > 0)) see(b * block, (b + 1) * block);
  see(n * block, tokens);
}

}  // namespace kvasir::kv
