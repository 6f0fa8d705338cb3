// A sequence as bytes, to be kept elsewhere: its sealed pages, and a tail, which is everything that is raw, the sealed
// pages that layers with a window still see, and the states of recurrent layers at the last page boundary. They mean
// something only to caches of the same shape, codecs, window and sinks, and restore it bit for bit. All of this is for
// between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/options.hpp"

namespace kvasir::kv {

struct CacheState;

class SequenceBytes {
 public:
  explicit SequenceBytes(CacheState& cache) : c_(cache) {}

  // A page is MemoryPlan::chunk_bytes in pieces that follow each other: by layer that keeps its pages and head, keys
  // before values. Of a cache with pages on a disk they are good until the next call. Throws Error(kIo) where the disk
  // fails.
  std::vector<std::span<const std::byte>> sealed_page(const Sequence& sequence, std::int64_t page) const;
  // The tail of the first n tokens, at most length, as if there were no more. REQUIRES: Rules::keeps_tail, and
  // Rules::tail_bytes(n) bytes.
  void save_tail(const Sequence& sequence, std::int64_t n, std::span<std::byte> tail) const;
  // A sequence of n >= 1 tokens with the raw part from `tail`; the caller fills its Rules::sealed_pages(n) before it is
  // used. Throws Error(kMemory) when sequences or pages do not suffice, Error(kBadInput) when the tail has another
  // length; nothing has changed then.
  Sequence* restore(std::int64_t n, std::span<const std::byte> tail) { return restore(n, n, tail); }
  // As restore, of the first 128 * pages tokens, whose sinks are those of `tail`, the tail of the first n of them. The
  // caller fills all pages, raw ones, too. REQUIRES: Rules::pages_suffice(), Rules::sinks() <= n <= 128 * pages.
  Sequence* restore_pages(std::int64_t pages, std::int64_t n, std::span<const std::byte> tail);
  // from: MemoryPlan::chunk_bytes. In ascending order: a page's outline depends on an earlier page.
  void fill_page(Sequence& sequence, std::int64_t page, std::span<const std::byte> from);
  // Hash of everything the sequence consists of: sealed bytes, raw tokens, sinks. Equal for equal tokens (law 1).
  std::uint64_t digest(const Sequence& sequence) const;

 private:
  Sequence* restore(std::int64_t n, std::int64_t tail_of, std::span<const std::byte> tail);

  CacheState& c_;
};

}  // namespace kvasir::kv
