// The cache of one model: pages of sealed tokens, raw windows, sinks, and attention over them.
//
// One step of a model:
//   cache.begin(slices);                      // reserves everything the step needs, or throws and changes nothing
//   for each layer: cache.attend(layer, q, k, v, out, scale), cache.recur(layer, ...), whichever it has
//   cache.commit();
// Between begin and commit nothing allocates and nothing can fail, but a disk that pages are on: then attend throws
// Error(kIo), and the step has been given up as abort does.
//
// Law 1: what is sealed and what is raw, and every bit of `out`, depend only on the tokens of the sequence (and, with
// lossy codecs and selectors, on which of them were generated), never on how they were split into steps, on the other
// slices of a step, or on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/team.hpp"
#include "kv/borrowing.hpp"
#include "kv/device.hpp"
#include "kv/options.hpp"
#include "kv/reader.hpp"
#include "kv/rules.hpp"
#include "kv/sequence_bytes.hpp"

namespace kvasir::kv {

struct CacheStats {
  std::int64_t free_pages = 0;
  std::int64_t shared_pages = 0;  // that more than one sequence has
  double choosing_seconds = 0;    // that steps have spent on choosing blocks, since the cache was made
  DiskStats disk;                 // of pages on a disk
  DeviceStats device;             // of CacheOptions::device
};

struct SequenceStats {
  std::int64_t sealed_tokens = 0;
  std::size_t kv_bytes_read = 0;    // by one decode step at its length, all layers
  std::string_view select;          // Cache::set_selection, as it was written; empty: everything is read
  const SelectionStats& selection;  // good until the sequence's next step
};

class Cache {
 public:
  // Throws as plan_memory does. `team` must outlive the cache.
  Cache(Team& team, const CacheShape& shape, const CacheOptions& options);
  ~Cache();

  const CacheShape& shape() const;
  const MemoryPlan& memory() const;
  const Rules& rules() const;
  SequenceBytes& bytes();
  Borrowing& borrowing();
  // For at most `sequences` queries at once of a model that reads these layers; the cache must outlive it.
  std::unique_ptr<Reader> reader(std::span<const ReaderLayer> layers, int sequences);

  // Sequences. All of these are for between steps.
  Sequence* create();                // empty. Throws Error(kMemory) when max_sequences are in use
  void release(Sequence* sequence);  // the handle is dead afterwards
  Sequence* fork(
      const Sequence& sequence);  // same tokens; shares sealed pages, copies the raw ones. Throws Error(kMemory)
  static std::int64_t length(const Sequence& sequence);
  // Position of the token that is `ahead` tokens behind the last one. Tokens follow each other, but for what lies in
  // front of borrowed runs.
  static std::int64_t position(const Sequence& sequence, std::int64_t ahead);
  // Keeps the first n <= length tokens. Exact: afterwards the sequence is as if it had never been longer. Not always
  // possible (Rules::can_truncate): with a lossy codec, tokens that must become raw again may exist only sealed, a
  // layer with a window may have given back what the shorter sequence sees, and a recurrent layer has no state from
  // before its last page. Then it throws Error(kUnsupported) and nothing changes. 0 always works, and with
  // CacheOptions::window whatever ends in the page of the last token; with CacheOptions::residual a page may be sealed
  // within that.
  void truncate(Sequence* sequence, std::int64_t n);
  // Which pages the sequence's generated tokens read from now on; null: as CacheOptions say. Forks have it, too. Throws
  // Error(kBadInput) when it needs summaries or a memory of choices that this cache was not made with.
  void set_selection(Sequence* sequence, std::shared_ptr<const PageSelector> selector);

  // Opens a step; at most one slice per sequence. Throws Error(kMemory) when pages or the capacity do not suffice,
  // having changed nothing.
  void begin(std::span<const Slice> slices);
  // Appends k, v of every slice to `layer` and writes softmax(score(q k^T)) v, causal and within the layer's window,
  // for every row of every slice. Layers may come in any order, each once per step, but shared ones after those that
  // they read; theirs are no k and v. Latent layers have no v. q and k are already rotated.
  //   q (n, query_heads, head_dim)  k (n, kv_heads, head_dim)  v (n, kv_heads, head_dim_v)
  //   out (n, query_heads, head_dim_v): rows outside all slices are left alone
  void attend(int layer, const float* q, const float* k, const float* v, float* out, const Scoring& scoring);
  // Before the layers that CacheShape::indexes[index] chooses for: appends its rows k of every slice, and chooses for
  // every row of every slice the tokens that these layers see (kv/chooser.hpp), until another index chooses.
  //   q (n, heads, dim)  k (n, dim)  weights (n, heads), null: 1   of all indexes in their order
  void choose(int index, const float* q, const float* k, const float* weights);
  // Takes every slice through the recurrence of `layer`, token after token. For every row, with the layer's shape R:
  //   x (n, R.channels), not convolved yet   gates (n, R.gates())   out (n, R.outputs())
  void recur(int layer, const Recurrent& recurrent, const float* x, const float* gates, float* out);
  // What the recurrence's convolution makes of x, for layers whose gates are made of it: out (n, R.channels). Before
  // recur; nothing is appended.
  void convolve(int layer, const Recurrent& recurrent, const float* x, float* out);
  // Ends the step: lengths advance. REQUIRES: every layer was attended, or recurred.
  // layers: only the first ones were, and the sequences are good for nothing but to be read that far, and released.
  void commit(int layers = -1);
  // Gives a step up halfway: its sequences become empty, everything else is as before.
  void abort();

  CacheStats stats() const;
  SequenceStats stats(const Sequence& sequence) const;
  // Throws std::logic_error unless free + used pages = total and reference counts match the page tables.
  void check_integrity() const;

 private:
  std::unique_ptr<CacheState> state_;
};

}  // namespace kvasir::kv
