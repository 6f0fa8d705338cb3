// The KV cache of a model that grows: compressed pages of 128 tokens, the newest tokens raw, and attention on the
// packed bytes. For programs that have a model of their own.
//
//   kvasir::KvCache cache({{.kv_heads = 2, .query_heads = 8, .head_dim = 64}, ...}, {.codecs = "balanced", .max_tokens = 4096});
//   kvasir::KvSequence text = cache.create();
//   for each step of n tokens:
//     cache.begin({{text, n}});
//     for each layer: cache.attend(layer, q, k, v, out);
//     cache.commit();
//
// Arrays are float32, dense, row-major; queries and keys already turned by their positions. What is stored, and every
// bit of `out`, depends on the tokens of a sequence alone: not on how they were split into steps, on other sequences of
// a step, on threads.
//
// What a caller can get wrong throws std::invalid_argument with a text that names the argument and what was expected.
// Too little room throws std::runtime_error, and nothing has changed then. One thread at a time may use a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvasir {

struct KvLayer {
  int kv_heads = 0;
  int query_heads = 0;      // a multiple of kv_heads
  int head_dim = 0;         // of queries and keys; a multiple of 8
  int head_dim_v = 0;       // of values and outputs; 0: head_dim
  std::int64_t window = 0;  // a token sees the last `window` tokens, itself included; 0: all
};

struct KvCacheOptions {
  std::string codecs = "balanced";  // a preset, a codec or KEYS/VALUES: "kivi4", "f16", "int4_channel/rq3"
  int window = 128;                 // newest tokens that stay raw, rounded up to whole pages
  // In place of window: tokens that every query sees raw at least, itself included, to the token (residual_length of
  // KIVI and transformers). Up to 127 more are raw until their page of 128 is whole. -1: what window says.
  int residual = -1;
  int sinks = 4;                   // first tokens that stay raw, 0 to 128
  std::int64_t max_tokens = 4096;  // of all sequences together; pages that forks share count once
  int max_sequences = 1;
  int step_tokens = 512;  // most tokens of one sequence in one step
  int threads = 1;        // 1 to 512
  // Keeps copies of sealed pages and attends to whole groups of eight there, with the same bits: cpu or empty (none),
  // gpu, xpu, cuda, opencl or opencl:N. One that cannot be used throws std::runtime_error; one that is lost later
  // changes nothing but the time.
  std::string device = {};
};

// A handle, good until it is released or the cache ends.
class KvSequence {
 public:
  KvSequence() = default;
  explicit operator bool() const { return id_ != 0; }
  bool operator==(const KvSequence&) const = default;
  std::uint64_t id() const { return id_; }

 private:
  friend class KvCache;
  explicit KvSequence(std::uint64_t id) : id_(id) {}
  std::uint64_t id_ = 0;
};

// The next `count` tokens of a sequence. `generated`: they are tokens that the model chose, few at a time; scores are
// then computed on packed bytes where the codec can.
struct KvSlice {
  KvSequence sequence;
  int count = 1;
  bool generated = false;
};

struct KvScoring {
  float scale = 0;                // of q k^T; 0: 1 / sqrt(head_dim)
  float soft_cap = 0;             // scores become cap tanh(score / cap); 0: they stay
  const float* slopes = nullptr;  // (query_heads), ALiBi: score - slope * distance; null: none
  const float* sinks = nullptr;   // (query_heads), one more score of every row, without a value; null: none
};

struct KvCacheStats {
  std::int64_t tokens = 0;          // of all sequences; what forks share counts in each
  std::int64_t sealed_tokens = 0;   // of them, compressed
  std::int64_t free_pages = 0;      // of 128 tokens
  double bytes_per_token = 0;       // that a further token takes when it is sealed, all layers
  double k_bits = 0, v_bits = 0;    // per number of a sealed page, everything included, mean over the layers
  std::size_t reserved_bytes = 0;   // that the cache may occupy, scratch included
  std::string device = {};          // by its driver's name; empty: there is none
  std::string device_lost = {};     // why it is used no longer; empty: it is
  std::int64_t device_pages = 0;    // that it holds
  std::uint64_t device_groups = 0;  // of eight pages that it has attended to, times rows of a head
};

class KvCache {
 public:
  KvCache(std::span<const KvLayer> layers, const KvCacheOptions& options);
  KvCache(std::initializer_list<KvLayer> layers, const KvCacheOptions& options)
      : KvCache(std::span(layers.begin(), layers.size()), options) {}
  ~KvCache();
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;

  int layers() const;

  // Between steps.
  KvSequence create();
  KvSequence fork(KvSequence sequence);  // the same tokens; sealed pages are shared
  void release(KvSequence sequence);
  void reset();  // releases all
  std::int64_t length(KvSequence sequence) const;
  std::int64_t sealed_tokens(KvSequence sequence) const;
  // Keeps the first n tokens, exactly as if there had never been more. Tokens that would have to become raw again but
  // exist only compressed make that impossible: then it throws std::runtime_error.
  void truncate(KvSequence sequence, std::int64_t n);
  bool can_truncate(KvSequence sequence, std::int64_t n) const;

  // A step: at most one slice per sequence; rows of the slices follow each other in the arrays.
  void begin(std::span<const KvSlice> slices);
  void begin(std::initializer_list<KvSlice> slices) { begin(std::span(slices.begin(), slices.size())); }
  // Appends k and v to `layer` and attends, causally: row i of a slice sees all tokens before it and itself. Layers in
  // any order, each once per step. With n rows in the step:
  //   q (n, query_heads, head_dim)   k (n, kv_heads, head_dim)   v (n, kv_heads, head_dim_v)
  //   out (n, query_heads, head_dim_v)
  void attend(int layer, const float* q, const float* k, const float* v, float* out, const KvScoring& scoring = {});
  void commit();  // throws std::invalid_argument when a layer is missing
  void abort();   // gives the step up: its sequences become empty

  // A sequence as bytes, and back, bit for bit, in a cache of the same layers, codecs, window and sinks. Throws
  // std::invalid_argument for bytes of another one.
  std::vector<std::byte> save(KvSequence sequence) const;
  KvSequence restore(std::span<const std::byte> bytes);
  // Sealed page `page` of `sequence` as it lies in memory: by layer and head, keys before values.
  std::vector<std::span<const std::byte>> page(KvSequence sequence, std::int64_t page) const;

  KvCacheStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir
