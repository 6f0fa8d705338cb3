// The one fold of attention (law 2): pages of any representation, in order, into partial softmax states of some query
// rows. Generated tokens, prompts and the public codec library all go through it.
//
// The answer of a row is  total = sinks + group 0 + group 1 + ...,  group = page + page + ...  where + merges states
// from left to right, a group is up to kGroupPages pages, and a page's state is computed by itself. So the shape of the
// fold depends on the list of pages alone, and work can be split into (head, group) or (head, rows) with the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernel/attention.hpp"
#include "kernel/ops.hpp"
#include "kv/borrow.hpp"
#include "kv/chosen.hpp"
#include "kv/codec.hpp"
#include "kv/layout.hpp"
#include "kv/options.hpp"
#include "kv/rotation.hpp"

namespace kvasir::kv {

inline constexpr std::size_t kFloatsPerLine = 16;  // floats of a cache line; pieces of scratch are whole ones

constexpr std::size_t round_up(std::size_t n) { return (n + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine; }

// Query rows: token-major, the heads of a group together. Row r belongs to position first + r / group.
struct Rows {
  const float* q;  // (count, d), scaled
  int count;
  int group;
  std::int64_t first;       // position of row 0
  std::int64_t window = 0;  // a row sees that many last tokens; 0: all
  bool chunked = false;     // a row sees from the last multiple of `window` on
  // Where the sequence's tokens stand in the text; null: where their numbers say. For borrowed pages.
  const Places* places = nullptr;

  std::int64_t last() const { return first + (count - 1) / group; }
  std::int64_t place(std::int64_t token) const { return places ? places->of(token) : token; }
  // As limits, of a page that stands at `position` of the text.
  void limits_in_text(std::int64_t position, int begin, int end, int* begins, int* ends) const {
    for (int r = 0; r < count; ++r) {
      const std::int64_t p = place(first + r / group);
      begins[r] = begin;
      ends[r] = static_cast<int>(std::clamp<std::int64_t>(p + 1 - position, 0, end));
      if (window > 0)
        begins[r] = static_cast<int>(std::clamp<std::int64_t>(seen_from(p) - position, begin, kPageTokens));
    }
  }
  // Tokens [begins[r], ends[r]) of those [begin, end) of a page whose token 0 stands at `position` are seen by row r.
  void limits(std::int64_t position, int begin, int end, int* begins, int* ends) const {
    const bool all = first + 1 - position >= end && (window == 0 || first_seen(last()) - position <= begin);
    if (all) {  // nearly every page of a long context; without a division for every row
      std::fill_n(begins, count, begin);
      std::fill_n(ends, count, end);
      return;
    }
    for (int r = 0; r < count; ++r) {
      const std::int64_t seen = first + r / group + 1 - position;
      ends[r] = static_cast<int>(std::clamp<std::int64_t>(seen, 0, end));
      begins[r] = begin;
      if (window > 0)
        begins[r] =
            static_cast<int>(std::clamp<std::int64_t>(first_seen(first + r / group) - position, begin, kPageTokens));
    }
  }
  // The first of the sequence's own tokens that token i sees: of borrowing sequences by where they stand in the text.
  std::int64_t first_seen(std::int64_t i) const {
    return places ? places->first_from(seen_from(places->of(i))) : seen_from(i);
  }
  // First token that the query at position p sees. REQUIRES: window > 0
  std::int64_t seen_from(std::int64_t p) const { return chunked ? p - p % window : p + 1 - window; }
};

// A run of tokens with one representation: how its blocks are read. Its pages are listed by whoever folds them.
struct Segment {
  const Codec* k;
  const Codec* v;
  Head head_k;
  Head head_v;
  // New position minus the position that its keys were rotated for. Scores depend on relative positions only, so
  // queries are rotated back by as much, once per run of pages.
  std::int64_t shift = 0;
  const float* angles = nullptr;  // (2, pairs): cosines and sines of -shift; null: they are computed
};

// One page of a segment.
struct FoldPage {
  PageRef k;
  PageRef v;
  std::int64_t position;  // of token 0
  // Tokens that no row sees, because fresher rows stand for them: bit t % 64 of word t / 64. Null: none.
  const std::uint64_t* hidden = nullptr;
  bool borrowed = false;  // `position` is one of the text, else a number of the sequence's own tokens
  bool open = false;      // every row sees all of it
};

// What one fold needs room for.
struct FoldSize {
  int rows = 0;
  int d = 0;
  int dv = 0;
  int batch = 1;        // pages whose scores are held at once
  bool tiles = false;   // pages become tiles of floats, unless their codec multiplies packed bytes by prompts, too
  bool latent = false;  // values are keys: a page becomes one tile, which serves both
};

// Of one item of attention's work: generated tokens and few rows take a group's pages at once, on the packed bytes;
// prompts take many rows, page by page. So do latent layers always: all query heads share a page there.
inline FoldSize fold_size(const LayerLayout& l, int rows, bool prompt) {
  const bool tiles = prompt || l.shape.latent;
  return {rows, l.shape.head_dim, l.shape.sum_dim(), tiles ? 1 : kGroupPages, tiles, l.shape.latent};
}

struct FoldScratch {
  float* q;        // (rows, d): scaled queries
  float* rotated;  // (rows, d): the same as a segment wants them
  int* begins;     // (rows)
  int* ends;
  float* weights;  // (rows, batch, 128)
  float* maxima;   // (batch, rows)
  float* sums;
  float* outs;  // (batch, rows, pitch)
  kernel::States run;
  kernel::States group;
  kernel::States total;
  float* cosines;  // (d / 2) each
  float* sines;
  float* k_tile;
  float* v_tile;
  float* k_rows;  // room for a raw page, of tokens that are seen before they are part of the sequence
  float* v_rows;

  // Lays the pieces out from p on, which is aligned to a line (null: only counts); returns the floats they take.
  std::size_t place(float* p, const FoldSize& size);
};

class Fold {
 public:
  // `scratch` was placed for `size`, and rows.count <= size.rows. `slopes` (rows.group) of ALiBi, null: none. `chosen`
  // is that of the tokens of `rows`, whose pages are then all the sequence's own. `distances`: rows[0] is row 0's, and
  // those of the next token's begin `token_floats` behind it.
  Fold(const Rows& rows, const FoldSize& size, const FoldScratch& scratch, float soft_cap = 0,
       const Rotation* rotation = nullptr, const float* slopes = nullptr, const Chosen& chosen = {},
       const DistanceBias& distances = {}, std::int64_t token_floats = 0)
      : rows_(rows),
        size_(size),
        s_(scratch),
        soft_cap_(soft_cap),
        rotation_(rotation),
        slopes_(slopes),
        chosen_(chosen),
        distances_(distances),
        token_floats_(token_floats) {}

  // Merges pages of one segment into `into`, which is empty (as clear leaves it) when `first`. At most size.batch pages
  // are taken together.
  void add(const Segment& segment, std::span<const FoldPage> pages, bool first, const kernel::States& into);

  // Scores of at most size.batch pages alone, each as weights by its own maximum: scratch().weights (rows, batch, 128),
  // maxima and sums (page, rows).
  void weigh(const Segment& segment, std::span<const FoldPage> pages);

  const FoldScratch& scratch() const { return s_; }

 private:
  const float* queries(const Segment& segment);
  void weigh(const FoldPage& page, int index);
  void weigh_packed(const Segment& segment, std::span<const FoldPage> pages, const float* q);
  void add_distances(const FoldPage& page, float* scores, int stride) const;
  void add_learned(const FoldPage& page, float* scores, int stride) const;
  void hide_others(const FoldPage& page, float* scores, int stride) const;
  bool sees(const FoldPage& page) const;
  void add_packed(const Segment& segment, std::span<const FoldPage> pages, const float* q, const kernel::States& into);
  void add_tile(const Segment& segment, const FoldPage& page, const float* q, const kernel::States& into);
  void add_latent(const Segment& segment, const FoldPage& page, const float* q, const kernel::States& into);
  void limit(const FoldPage& page) {
    if (page.open) {
      std::fill_n(s_.begins, rows_.count, page.k.begin);
      std::fill_n(s_.ends, rows_.count, page.k.end);
      return;
    }
    page.borrowed ? rows_.limits_in_text(page.position, page.k.begin, page.k.end, s_.begins, s_.ends)
                  : rows_.limits(page.position, page.k.begin, page.k.end, s_.begins, s_.ends);
  }

  const Rows& rows_;
  const FoldSize size_;
  const FoldScratch& s_;
  const float soft_cap_;
  const Rotation* const rotation_;
  const float* const slopes_;
  const Chosen chosen_;
  const DistanceBias distances_;
  const std::int64_t token_floats_;
  const Codec* rotated_for_ = nullptr;  // what s_.rotated has been made for
  std::int64_t rotated_by_ = 0;
};

}  // namespace kvasir::kv
