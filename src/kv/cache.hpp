// The cache of one model: pages of sealed tokens, raw windows, sinks, and attention over them.
//
// One step of a model:
//   cache.begin(slices);                      // reserves everything the step needs, or throws and changes nothing
//   for each layer: cache.attend(layer, q, k, v, out, scale);
//   cache.commit();
// Between begin and commit nothing allocates and nothing can fail.
//
// Law 1: what is sealed and what is raw, and every bit of `out`, depend only on the tokens of the sequence (and, with
// lossy codecs, on which of them were generated), never on how they were split into steps, on the other slices of a
// step, or on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/team.hpp"

namespace kvasir::kv {

struct CacheShape {
  int layers = 0;
  int kv_heads = 0;
  int query_heads = 0;  // a multiple of kv_heads
  int head_dim = 0;     // of queries and keys; a multiple of 8
  int head_dim_v = 0;   // of values and outputs; a multiple of 8
};

// Codecs of some layers, in place of those of CacheOptions.
struct LayerCodecs {
  int first = 0;
  int last = 0;  // inclusive
  std::string k_codec;
  std::string v_codec;
};

struct CacheOptions {
  std::string k_codec = "f16";  // as kv/spec.hpp: a name in kv::codecs() with its parameters
  std::string v_codec = "f16";
  std::vector<LayerCodecs> layers;  // exceptions; where they overlap the later one counts
  std::string selector = "all";     // name in kv::selectors()
  int window = 128;                 // >= 0: tokens kept raw behind the newest one, rounded up to whole pages
  int sinks = 4;                    // 0..128: first tokens of every sequence, kept raw for good
  std::int64_t max_tokens = 0;  // capacity in tokens of all sequences together (a page shared by forks counts once), or
  std::size_t budget_bytes = 0;  // when max_tokens is 0: everything the cache may occupy, scratch included
  int max_sequences = 1;
};

// Where the bytes of a cache go. Everything is reserved at construction and occupied when first written.
struct MemoryPlan {
  std::size_t k_chunk_bytes = 0;  // keys of one page index across all layers and heads, sealed
  std::size_t v_chunk_bytes = 0;  // values
  std::size_t chunk_bytes = 0;    // both
  std::int64_t pages = 0;         // chunks in the pool
  std::int64_t tokens = 0;        // capacity, as in CacheOptions::max_tokens
  std::size_t sealed_bytes = 0;
  std::size_t raw_bytes = 0;  // windows of all sequences
  std::size_t sink_bytes = 0;
  std::size_t state_bytes = 0;  // of codecs
  std::size_t scratch_bytes = 0;
  double bytes_per_token = 0;  // sealed, K and V, all layers
  double k_bits = 0;           // per element of a sealed page, everything included, mean over the layers
  double v_bits = 0;
  std::size_t total() const { return sealed_bytes + raw_bytes + sink_bytes + state_bytes + scratch_bytes; }
};

// Throws Error(kBadInput) naming the option that is wrong (unknown codec or selector, head size that a codec refuses,
// negative window ...), Error(kMemory) when the budget does not hold the windows and one page.
MemoryPlan plan_memory(const CacheShape& shape, const CacheOptions& options, int threads);

class Sequence;  // a handle; owned by its cache

// Rows [row, row + count) of the batch are the next `count` >= 1 tokens of `sequence`.
//
// decode: the tokens were generated, so few at a time, and use the codecs' products on packed bytes. Prompts use them
// with codecs that have packed_prompts (kv/codec.hpp), else never, however short their chunks: what a prompt leaves
// behind must not depend on its chunks (law 1). With lossless codecs both ways have the same bits.
struct Slice {
  Sequence* sequence = nullptr;
  int row = 0;
  int count = 0;
  bool decode = false;
};

class Cache {
 public:
  // Throws as plan_memory does. `team` must outlive the cache.
  Cache(Team& team, const CacheShape& shape, const CacheOptions& options);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  const CacheShape& shape() const;
  const MemoryPlan& memory() const;
  double bytes_per_token() const { return memory().bytes_per_token; }

  // Sequences. All of these are for between steps.
  Sequence* create();                // empty. Throws Error(kMemory) when max_sequences are in use
  void release(Sequence* sequence);  // the handle is dead afterwards
  Sequence* fork(
      const Sequence& sequence);  // same tokens; shares sealed pages, copies the raw ones. Throws Error(kMemory)
  static std::int64_t length(const Sequence& sequence);
  // Keeps the first n <= length tokens. Exact: afterwards the sequence is as if it had never been longer. Lossless
  // codecs always can; with a lossy one, tokens that must become raw again may exist only sealed: then it throws
  // Error(kUnsupported) and nothing changes (0, and anything within the raw window, always work).
  void truncate(Sequence* sequence, std::int64_t n);
  bool can_truncate(const Sequence& sequence, std::int64_t n) const;

  // A sequence as bytes, to be kept elsewhere: its sealed pages, and a tail, which is everything that is raw. They mean
  // something only to caches of the same shape, codecs, window and sinks, and restore it bit for bit.
  // A page is memory().chunk_bytes in pieces that follow each other: by layer and head, keys before values.
  std::vector<std::span<const std::byte>> sealed_page(const Sequence& sequence, std::int64_t page) const;
  std::size_t tail_bytes(std::int64_t n) const;  // of n tokens
  // The tail of the first n tokens, at most length, as if there were no more. REQUIRES: has_tail(sequence, n), and
  // tail_bytes(n) bytes.
  void save_tail(const Sequence& sequence, std::int64_t n, std::span<std::byte> tail) const;
  // No page has been sealed since. Always true for n = length.
  bool has_tail(const Sequence& sequence, std::int64_t n) const;
  // A sequence of n >= 1 tokens with the raw part from `tail`; the caller fills its sealed_tokens() / 128 sealed pages
  // before it is used. Throws Error(kMemory) when sequences or pages do not suffice, Error(kBadInput) when the tail is
  // not tail_bytes(n) long; nothing has changed then.
  Sequence* restore(std::int64_t n, std::span<const std::byte> tail);
  void fill_page(Sequence& sequence, std::int64_t page, std::span<const std::byte> from);  // memory().chunk_bytes
  // Sealed pages of a sequence of n tokens.
  std::int64_t sealed_pages_at(std::int64_t n) const;

  // Opens a step; at most one slice per sequence. Throws Error(kMemory) when pages or the capacity do not suffice,
  // having changed nothing.
  void begin(std::span<const Slice> slices);
  // Appends k, v of every slice to `layer` and writes softmax(scale q k^T) v, causal, for every row of every slice.
  // Layers may come in any order, each once per step. q and k are already rotated.
  //   q (n, query_heads, head_dim)  k (n, kv_heads, head_dim)  v (n, kv_heads, head_dim_v)
  //   out (n, query_heads, head_dim_v): rows outside all slices are left alone
  void attend(int layer, const float* q, const float* k, const float* v, float* out, float scale);
  // Ends the step: lengths advance. REQUIRES: every layer was attended.
  void commit();
  // Gives a step up halfway: its sequences become empty, everything else is as before.
  void abort();

  // Figures.
  std::int64_t free_pages() const;
  std::int64_t sealed_tokens(const Sequence& sequence) const;
  std::size_t kv_bytes_read(const Sequence& sequence) const;  // by one decode step at its length, all layers
  // Of the products that `count` queries from position `first` on have with all tokens they see: how many are computed
  // on packed bytes, in integers, 0 to 1; the others are computed in floats. `decode`: as in Slice.
  double packed_share(std::int64_t first, std::int64_t count, bool decode) const;
  // Hash of everything the sequence consists of: sealed bytes, raw tokens, sinks. Equal for equal tokens (law 1).
  std::uint64_t digest(const Sequence& sequence) const;
  // Throws std::logic_error unless free + used pages = total and reference counts match the page tables.
  void check_integrity() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir::kv
