// Attention of another model's queries over layers of a cache, which appends nothing: how a model drafts that has no
// keys and values of its own (run/drafters/assistant.cpp).
//
// A query stands behind the last token of its sequence, at the position that comes next, and sees what the cache has of
// the tokens before it, raw or sealed, in the layer's window. It is the fold of generated tokens (kv/head_fold.hpp), so
// pages of every codec are read, in memory and on a disk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "kv/layout.hpp"
#include "kv/options.hpp"
#include "kv/plan.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

struct CacheState;

// A layer of queries: whose keys and values it reads, and what it has itself.
struct ReaderLayer {
  int of = 0;               // layer of the cache, which keeps keys and values of its own
  int query_heads = 0;      // a multiple of that layer's KV heads
  std::int64_t window = 0;  // tokens up to the query's own position; at most that layer's; 0: all
};

class Reader {
 public:
  // Of at most `sequences` queries at once. Both must outlive it, and the cache's sequences are read between its steps
  // only. REQUIRES: as ReaderLayer says; the layers are not latent.
  Reader(Team& team, const CacheState& cache, std::span<const ReaderLayer> layers, int sequences);

  // out = softmax(score(q k^T)) v of every slice, which is one query: q (n, query_heads, head_dim), rotated;
  // out (n, query_heads, head_dim_v). Throws Error(kIo) where a disk fails. REQUIRES: the sequences are not empty and
  // borrow nothing, no step is open.
  void attend(int layer, std::span<const Slice> slices, const float* q, float* out, const Scoring& scoring);

  // What one for a cache of so many tokens allocates. shapes: of its layers, as LayerShape of the queries.
  static std::int64_t planned_bytes(std::span<const LayerShape> shapes, std::int64_t tokens, int sequences,
                                    int threads);

 private:
  struct Sizes {
    int rows;                         // of a state at most
    std::size_t state, head, worker;  // floats: of a state, of all states of a head, of a thread's scratch
    int heads;
    static Sizes of(std::span<const LayerLayout> layers, std::int64_t tokens);
  };
  struct Piece {
    Part part;
    PageList list;
    std::int64_t first_item;
    int groups;
  };
  kernel::States state(std::size_t slice, int head, int index) const;

  Team& team_;
  const CacheState& cache_;
  Layout layout_;  // the cache's, with the readers' layers
  Plan plan_;
  const Sizes sizes_;
  tensor::Buffer workers_;
  tensor::Buffer states_;
  std::vector<Piece> pieces_;
};

}  // namespace kvasir::kv
