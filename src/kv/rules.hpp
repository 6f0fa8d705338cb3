// What holds of every sequence of n tokens in a cache, whatever the tokens are (law 1), and of a sequence as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvasir::kv {

class PageSelector;
class Sequence;
struct Arena;

class Rules {
 public:
  explicit Rules(const Arena& arena) : arena_(arena) {}

  std::int64_t sinks() const;  // first tokens of every sequence that are raw for good: sealed pages do not have them
  // Sealed pages of a sequence of n tokens.
  std::int64_t sealed_pages(std::int64_t n) const;
  std::size_t tail_bytes(std::int64_t n) const;  // of n tokens, see SequenceBytes
  // Of the tail of n tokens: states of recurrent layers and raw rows behind them.
  std::size_t recurrent_bytes(std::int64_t n) const;
  // A sequence of `length` tokens has the tail of its first n: no page has been sealed or given back since, or none
  // matters, see pages_suffice. Always true for n = length.
  bool keeps_tail(std::int64_t length, std::int64_t n) const;
  // A length that still has the tail of n >= 1 tokens, with every kind of layer: the end of the page, or where the next
  // page is sealed.
  std::int64_t tail_kept_to(std::int64_t n) const;
  // The shortest length in the same page whose tail a sequence of n >= 1 tokens still has.
  std::int64_t tail_kept_from(std::int64_t n) const;
  // Sealed pages are what they were when they were raw, and nothing but them and the sinks is needed to go on behind
  // any of them: lossless codecs, no windows, no recurrent layers. Then a sequence of whole pages needs no tail of its
  // own.
  bool pages_suffice() const;
  // Steps of drafted tokens have the bits of single ones and are cut back cheaply: not with a selector that remembers
  // what it chose.
  bool can_draft() const;
  // Cache::truncate keeps the first n tokens of the sequence.
  bool can_truncate(const Sequence& sequence, std::int64_t n) const;
  // The next step may take a generated token and at most so many drafted ones, and be cut back to any of them
  // afterwards: those up to the end of the token's page, or to where the next page is sealed. The states of recurrent
  // layers go on from where the step began, if CacheOptions::drafts. 0 for a sequence that borrows.
  std::int64_t draft_room(const Sequence& sequence) const;
  // First tokens whose keys and values are what these tokens always give: all, unless a selector other than a dense one
  // chose pages for them. Only these may be offered to a store.
  static std::int64_t exact_tokens(const Sequence& sequence);
  // First tokens of a prompt of n that a sequence with that selector (null: the cache's own) may take from
  // others: all, unless its prompts read choices, or the prompt's last tokens vote.
  std::int64_t exact_prompt(const PageSelector* selector, std::int64_t n) const;
  // Of the products that `count` queries from position `first` on have with all tokens they see: how many are computed
  // on packed bytes, in integers, 0 to 1; the others are computed in floats. `decode`: as in Slice.
  double packed_share(std::int64_t first, std::int64_t count, bool decode) const;

 private:
  const Arena& arena_;
};

}  // namespace kvasir::kv
