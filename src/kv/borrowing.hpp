// Pages made elsewhere (architecture, section 2). A text is n tokens; the sequence has the first ones already. All of
// this is for between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/options.hpp"

namespace kvasir::kv {

struct CacheState;

class Borrowing {
 public:
  explicit Borrowing(CacheState& cache) : c_(cache) {}

  // A page as SequenceBytes::sealed_page has it, as a slot of the pool for borrow; drop_page gives the slot back,
  // though sequences that borrowed it keep it. Throws Error(kMemory).
  std::int32_t adopt_page(std::span<const std::byte> from);
  void drop_page(std::int32_t slot);
  // From now on the next tokens of the sequence are those at the positions `fresh`, and then those behind the text; it
  // reads the others of the text in `runs`. Tokens in runs that are fresh are hidden there. Exact no longer: see
  // Rules::exact_tokens. Throws Error(kUnsupported) for layers with states or latent rows, and for those with windows
  // unless CacheOptions::whole_windows, Error(kMemory) when the text exceeds the capacity; nothing has changed then.
  // REQUIRES: `fresh` ascends to the end of the text and has every token behind the sequence's that is in no run; runs
  // ascend and begin behind the sequence's tokens.
  void borrow(Sequence* sequence, std::span<const BorrowedRun> runs, std::span<const std::int64_t> fresh);
  static bool borrows(const Sequence& sequence);
  // Keys and values of a layer in such a page, as its codec has them: k (128, kv_heads, head_dim), rotated as they were
  // when the page was made; v (128, kv_heads, head_dim_v). REQUIRES: the layer has pages of its own, rows `first` on
  // are wanted.
  void unseal(std::span<const std::byte> page, int layer, int first, float* k, float* v) const;

 private:
  CacheState& c_;
};

}  // namespace kvasir::kv
