// What the classes of include/kvasir/codecs.hpp hide.
#pragma once

#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "base/team.hpp"
#include "kv/codec.hpp"
#include "kv/spec.hpp"
#include "kvasir/codecs.hpp"
#include "tensor/buffer.hpp"

namespace kvasir {

struct KvCodec::Impl {
  std::string text;
  kv::CodecSpec spec;
  int d;
  kv::Side side;
  const kv::Codec* raw;  // of the tokens behind the last whole page

  const kv::CodecSide& of(const kv::Codec& codec) const { return side == kv::Side::kKeys ? codec.k : codec.v; }
  std::size_t page_bytes() const { return of(*spec.codec).bytes(d, spec.params); }
  static int tail_capacity(std::int64_t tokens) { return static_cast<int>((tokens % kv::kPageTokens + 15) / 16 * 16); }
  std::size_t raw_bytes(int capacity) const;
  std::size_t head_bytes(std::int64_t tokens) const {
    return static_cast<std::size_t>(tokens / kv::kPageTokens) * page_bytes() + raw_bytes(tail_capacity(tokens));
  }
  std::size_t state_bytes() const { return spec.codec->state_bytes ? spec.codec->state_bytes(d) : 0; }
};

struct KvWorkers::Impl {
  explicit Impl(int threads) : team(threads) {}
  Team team;
};

// Heads of the batch follow each other, each its pages and then its raw tokens; then the states of the heads, which the
// batch shares.
struct PackedKv::Impl {
  KvCodec codec;
  int batch;
  int heads;
  std::int64_t tokens;
  std::size_t head_bytes;
  tensor::Buffer blocks;
  tensor::Buffer states;  // one per head, 64-byte aligned

  const KvCodec::Impl& format() const { return codec.impl(); }
  std::int64_t pages() const { return tokens / kv::kPageTokens; }
  int tail() const { return static_cast<int>(tokens % kv::kPageTokens); }
  // item: b * heads + head
  std::byte* page(int item, std::int64_t i) const {
    return blocks.data() + static_cast<std::size_t>(item) * head_bytes +
           static_cast<std::size_t>(i) * format().page_bytes();
  }
  kv::PageRef tail_ref(int item) const {
    return {page(item, pages()), 0, tail(), KvCodec::Impl::tail_capacity(tokens)};
  }
  std::size_t state_stride() const { return (format().state_bytes() + 63) / 64 * 64; }
  kv::Head head(int item) const {
    const KvCodec::Impl& f = format();
    const bool has = states.size() > 0;
    return {f.d, f.spec.params,
            has ? states.data() + static_cast<std::size_t>(item % heads) * state_stride() : nullptr};
  }
  kv::Head raw_head() const { return {format().d, {}, nullptr}; }
};

namespace api {

[[noreturn]] void bad(const std::string& what);
void require(bool fine, const char* function, const std::string& expectation);

// f(item, worker) for items [begin, end), on the workers' threads or here.
void for_items(KvWorkers* workers, int begin, int end, FunctionRef<void(int item, int worker)> f);
int threads_of(const KvWorkers* workers);

}  // namespace api
}  // namespace kvasir
