// The codecs of Kvasir's KV cache on their own: compress keys and values, attend to the packed bytes, read them back.
// Standard C++20; nothing of Kvasir's sources is needed besides this header and the library.
//
//   kvasir::KvCodec keys("f16", 128, kvasir::KvSide::kKeys), values("f16", 128, kvasir::KvSide::kValues);
//   kvasir::PackedKv k(keys, k_floats, batch, heads, tokens), v(values, v_floats, batch, heads, tokens);
//   kvasir::attend(q, query_heads, k, v, out);
//
// Arrays are float32, dense, row-major: keys and values [batch][heads][tokens][head_dim], queries and outputs
// [batch][query_heads][head_dim]. Whole pages of 128 tokens are sealed, that is, compressed; the tokens % 128 behind
// them stay raw in 16 bits (in the element type itself with the codecs f32 and bf16). What is stored depends on the
// tokens alone, not on threads or the processor, and a packed array never changes: any number of threads may read it.
//
// What a caller can get wrong throws std::invalid_argument with a text that names the argument and what was expected.
// Too little memory, or an instruction set in the environment variable KVASIR_ISA that the processor lacks, throws
// std::runtime_error. Nothing else fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

enum class KvSide { kKeys, kValues };

struct KvCodecInfo {
  std::string name;
  std::string summary;
  bool lossless;  // stores floats of 16 or 32 bits as they are
};

// All codecs of this build, by name.
std::vector<KvCodecInfo> kv_codecs();

// A codec for keys or for values of one head size. Cheap to copy.
class KvCodec {
 public:
  // spec: NAME[:PARAMETER[,PARAMETER]], a parameter being a group size or `unbiased`: "f16", "delta3:16". Throws
  // std::invalid_argument for names and parameters that do not exist and for head sizes and sides that the codec does
  // not store.
  KvCodec(std::string_view spec, int head_dim, KvSide side);

  const std::string& spec() const;
  int head_dim() const;
  KvSide side() const;
  bool lossless() const;

  // Bytes that one head of `tokens` tokens takes, every scale and header included; the raw tokens at the end are
  // stored in multiples of 16. Throws std::invalid_argument for negative numbers.
  std::size_t bytes(std::int64_t tokens) const;
  // Of one sealed page, everything included, per number stored.
  double bits_per_element() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Threads that wait for work, for callers who have none of their own. Results do not depend on their number. One call
// at a time may use them.
class KvWorkers {
 public:
  explicit KvWorkers(int threads);  // 1 .. 512, the calling thread included
  ~KvWorkers();
  KvWorkers(const KvWorkers&) = delete;
  KvWorkers& operator=(const KvWorkers&) = delete;
  int size() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Keys or values of a batch, compressed.
class PackedKv {
 public:
  // x [batch][heads][tokens][head_dim], any number of tokens (with 0, x may be null); it is not needed afterwards.
  // Numbers that are not finite are stored as finite ones by codecs that are not lossless. `layer` and the index of the
  // head seed codecs that rotate; another layer is only another rotation. Throws std::invalid_argument for null
  // pointers and for counts that are negative or too large.
  PackedKv(const KvCodec& codec, const float* x, int batch, int heads, std::int64_t tokens, int layer = 0,
           KvWorkers* workers = nullptr);
  ~PackedKv();
  PackedKv(PackedKv&& other) noexcept;
  PackedKv& operator=(PackedKv&& other) noexcept;

  const KvCodec& codec() const;
  int batch() const;
  int heads() const;
  std::int64_t tokens() const;
  std::int64_t sealed_tokens() const;  // tokens - tokens % 128
  // Everything this object holds for its numbers: codec().bytes(tokens) for every head, and what the codec keeps per
  // head besides (seeds and tables; nothing in most).
  std::size_t bytes() const;

  // out [batch][heads][tokens][head_dim]: what is stored, as floats.
  void dequantize(float* out, KvWorkers* workers = nullptr) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

struct AttendOptions {
  float scale = 0;               // of the scores; 0: 1 / sqrt(head_dim of the keys)
  float* lse = nullptr;          // [batch][query_heads]: log of the sum of exp(score), -inf without tokens
  KvWorkers* workers = nullptr;  // null: the calling thread does everything
  // Only KV heads [begin, end) of the batch, counted b * heads + h: for callers who spread the work over threads of
  // their own, each on other heads. Other outputs are not touched. end -1: all.
  int begin = 0;
  int end = -1;
};

// out = softmax(scale q k^T) v for one query per query head, over all tokens. q [batch][query_heads][head_dim of k],
// out [batch][query_heads][head_dim of v]. Query head i reads KV head i / (query_heads / heads) (grouped queries).
// Works on the packed bytes, unpacked once for all queries of a group; the scratch it takes does not grow with tokens.
// Without tokens the output is 0. Throws std::invalid_argument when k and v are not of one batch, when query_heads is
// not a multiple of heads, for null pointers and for a range outside the batch.
void attend(const float* q, int query_heads, const PackedKv& k, const PackedKv& v, float* out,
            const AttendOptions& options = {});

}  // namespace kvasir
