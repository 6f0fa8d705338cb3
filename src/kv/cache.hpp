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
#include <vector>

#include "base/team.hpp"
#include "kv/device.hpp"
#include "kv/options.hpp"

namespace kvasir::kv {

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
  std::int64_t sinks() const;  // first tokens of every sequence that are raw for good: sealed pages do not have them

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
  // possible: with a lossy codec, tokens that must become raw again may exist only sealed, a layer with a window may
  // have given back what the shorter sequence sees, and a recurrent layer has no state from before its last page. Then
  // it throws Error(kUnsupported) and nothing changes. 0 always works, and with CacheOptions::window whatever ends in
  // the page of the last token; with CacheOptions::residual a page may be sealed within that.
  void truncate(Sequence* sequence, std::int64_t n);
  bool can_truncate(const Sequence& sequence, std::int64_t n) const;
  // The next step may take a generated token and at most so many drafted ones, and be cut back to any of them
  // afterwards: those up to the end of the token's page, or to where the next page is sealed. The states of recurrent
  // layers go on from where the step began, if CacheOptions::drafts. 0 for a sequence that borrows.
  std::int64_t draft_room(const Sequence& sequence) const;
  // Steps of drafted tokens have the bits of single ones and are cut back cheaply: not with a selector that remembers
  // what it chose.
  bool can_draft() const;

  // A sequence as bytes, to be kept elsewhere: its sealed pages, and a tail, which is everything that is raw, the
  // sealed pages that layers with a window still see, and the states of recurrent layers at the last page boundary.
  // They mean something only to caches of the same shape, codecs, window and sinks, and restore it bit for bit. A page
  // is memory().chunk_bytes in pieces that follow each other: by layer that keeps its pages and head, keys before
  // values. Of a cache with pages on a disk they are good until the next call. Throws Error(kIo) where the disk fails.
  std::vector<std::span<const std::byte>> sealed_page(const Sequence& sequence, std::int64_t page) const;
  std::size_t tail_bytes(std::int64_t n) const;  // of n tokens
  // The tail of the first n tokens, at most length, as if there were no more. REQUIRES: has_tail(sequence, n), and
  // tail_bytes(n) bytes.
  void save_tail(const Sequence& sequence, std::int64_t n, std::span<std::byte> tail) const;
  // No page has been sealed or given back since, or none matters: see pages_suffice. Always true for n = length.
  bool has_tail(const Sequence& sequence, std::int64_t n) const { return keeps_tail(length(sequence), n); }
  // The same of any sequence of `length` tokens.
  bool keeps_tail(std::int64_t length, std::int64_t n) const;
  // A length that still has the tail of n >= 1 tokens, with every kind of layer: the end of the page, or where the next
  // page is sealed.
  std::int64_t tail_kept_to(std::int64_t n) const;
  // The shortest length in the same page whose tail a sequence of n >= 1 tokens still has.
  std::int64_t tail_kept_from(std::int64_t n) const;
  // A sequence of n >= 1 tokens with the raw part from `tail`; the caller fills its sealed_tokens() / 128 sealed pages
  // before it is used. Throws Error(kMemory) when sequences or pages do not suffice, Error(kBadInput) when the tail is
  // not tail_bytes(n) long; nothing has changed then.
  Sequence* restore(std::int64_t n, std::span<const std::byte> tail);
  // Sealed pages are what they were when they were raw, and nothing but them and the sinks is needed to go on behind
  // any of them: lossless codecs, no windows, no recurrent layers. Then a sequence of whole pages needs no tail of its
  // own.
  bool pages_suffice() const;
  // As restore, of the first 128 * pages tokens, whose sinks are those of `tail`, the tail of the first n of them. The
  // caller fills all pages, raw ones, too. REQUIRES: pages_suffice(), sinks() <= n <= 128 * pages.
  Sequence* restore_pages(std::int64_t pages, std::int64_t n, std::span<const std::byte> tail);
  // from: memory().chunk_bytes. In ascending order: a page's outline depends on an earlier page.
  void fill_page(Sequence& sequence, std::int64_t page, std::span<const std::byte> from);
  // Sealed pages of a sequence of n tokens.
  std::int64_t sealed_pages_at(std::int64_t n) const;

  // Pages made elsewhere (architecture, section 2). A text is n tokens; the sequence has the first ones already.
  //
  // adopt_page: a page as sealed_page has it, as a slot of the pool for borrow; drop_page gives the slot back, though
  // sequences that borrowed it keep it. Throws Error(kMemory).
  std::int32_t adopt_page(std::span<const std::byte> from);
  void drop_page(std::int32_t slot);
  // From now on the next tokens of the sequence are those at the positions `fresh`, and then those behind the text; it
  // reads the others of the text in `runs`. Tokens in runs that are fresh are hidden there. Exact no longer: see
  // exact_tokens. Throws Error(kUnsupported) for layers with states or latent rows, and for those with windows
  // unless CacheOptions::whole_windows, Error(kMemory) when the text exceeds the capacity; nothing has changed then.
  // REQUIRES: `fresh` ascends to the end of the text and has every token behind the sequence's that is in no run; runs
  // ascend and begin behind the sequence's tokens.
  void borrow(Sequence* sequence, std::span<const BorrowedRun> runs, std::span<const std::int64_t> fresh);
  static bool borrows(const Sequence& sequence);
  // Keys and values of a layer in such a page, as its codec has them: k (128, kv_heads, head_dim), turned as they were
  // when the page was made; v (128, kv_heads, head_dim_v). REQUIRES: the layer has pages of its own, rows `first` on
  // are wanted.
  void unseal(std::span<const std::byte> page, int layer, int first, float* k, float* v) const;

  // Opens a step; at most one slice per sequence. Throws Error(kMemory) when pages or the capacity do not suffice,
  // having changed nothing.
  void begin(std::span<const Slice> slices);
  // Appends k, v of every slice to `layer` and writes softmax(score(q k^T)) v, causal and within the layer's window,
  // for every row of every slice. Layers may come in any order, each once per step, but shared ones after those that
  // they read; theirs are no k and v. Latent layers have no v. q and k are already rotated.
  //   q (n, query_heads, head_dim)  k (n, kv_heads, head_dim)  v (n, kv_heads, head_dim_v)
  //   out (n, query_heads, head_dim_v): rows outside all slices are left alone
  void attend(int layer, const float* q, const float* k, const float* v, float* out, const Scoring& scoring);
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

  // Figures.
  std::int64_t free_pages() const;
  std::int64_t shared_pages() const;  // that more than one sequence has
  std::int64_t sealed_tokens(const Sequence& sequence) const;
  // Which blocks the sequence's generated tokens read from now on, as kv/select_spec.hpp; empty: as CacheOptions say.
  // Forks have it, too. Throws Error(kBadInput) when it cannot be read, or needs summaries or a memory of choices that
  // this cache was not made with.
  void set_selection(Sequence* sequence, const std::string& text);
  static std::string selection(const Sequence& sequence);  // as it was written; empty: everything is read
  const SelectionStats& selection_stats(const Sequence& sequence) const;
  DiskStats disk_stats() const;      // of pages on a disk
  DeviceStats device_stats() const;  // of CacheOptions::device
  double choosing_seconds() const;   // that steps have spent on choosing blocks, since the cache was made
  // First tokens of a prompt of n that a sequence with that selection (as of set_selection) may take from others: all,
  // unless its prompts read choices, or the prompt's last tokens vote.
  std::int64_t exact_prompt(const std::string& text, std::int64_t n) const;
  // First tokens whose keys and values are what these tokens always give: all, unless a selector other than a dense one
  // chose pages for them. Only these may be offered to a store.
  static std::int64_t exact_tokens(const Sequence& sequence);
  std::size_t kv_bytes_read(const Sequence& sequence) const;  // by one decode step at its length, all layers
  // Of the tail of n tokens: states of recurrent layers and raw rows behind them.
  std::size_t recurrent_bytes(std::int64_t n) const;
  // Of the products that `count` queries from position `first` on have with all tokens they see: how many are computed
  // on packed bytes, in integers, 0 to 1; the others are computed in floats. `decode`: as in Slice.
  double packed_share(std::int64_t first, std::int64_t count, bool decode) const;
  // Hash of everything the sequence consists of: sealed bytes, raw tokens, sinks. Equal for equal tokens (law 1).
  std::uint64_t digest(const Sequence& sequence) const;
  // Throws std::logic_error unless free + used pages = total and reference counts match the page tables.
  void check_integrity() const;

 private:
  Sequence* restore(std::int64_t n, std::int64_t tail_of, std::span<const std::byte> tail);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir::kv
