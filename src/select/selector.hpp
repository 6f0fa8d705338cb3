// Contract of an entry in select/selectors: what is written down about a block of keys, so that a generated token can
// tell which blocks matter to it without reading them.
//
// A block is 8, 16, 32, 64 or 128 tokens of one layer and KV head within one sealed page. When the page is sealed,
// every block gets a representative: some numbers that the entry computes from its keys. A query's score of a block is
// the inner product of the representative with what the entry makes of the query. All else (budget, first and local
// blocks, heads, reuse of choices, top-p) is the same for all entries: select/choice.hpp.
#pragma once

#include <span>

#include "base/registry.hpp"
#include "kv/page.hpp"

namespace kvasir::select {

// The keys of a block.
struct BlockKeys {
  int d;
  const float* keys;  // (d, 128), channel-major: the page's
  int begin;          // tokens [begin, end) of the page are the block's, sinks aside; never empty
  int end;
  const float* importance;  // (128), of the page's tokens, see Selector::weighs; null: not asked for
  int anchors;              // tokens that stand for a block, as the user said; at least 1

  const float* channel(int c) const { return keys + static_cast<std::ptrdiff_t>(c) * kv::kPageTokens; }
};

struct Selector {
  const char* summary;
  // Every block that may be chosen is: no scores. Without preselection attention has the bits of no selection.
  bool dense = false;
  // Blocks vote by the attention mass itself: every key is read to choose, and values of what is chosen alone. Nothing
  // below counts.
  bool exact = false;
  // "NAME:KEY=VALUE:...": the entry is another one with other defaults, and nothing below counts. Null: itself.
  const char* preset = nullptr;

  // Numbers of a representative. Null: there are none, no block scores, and only first and local blocks are read.
  int (*width)(int d) = nullptr;
  void (*represent)(const BlockKeys& block, float* to) = nullptr;  // (width)
  // A query (d), in units where scores are exponents of 2, to what representatives are multiplied by (width). Null: it
  // is the query itself.
  void (*ask)(const float* q, int d, float* to) = nullptr;

  // Representatives are stored in f16, rounded to nearest; those of bounds are rounded up in their first half and down
  // in their second, so that they stay bounds.
  bool bounds = false;
  // A block's score is an estimate of log2 of the mean of 2^score over its tokens, and no bound. So it can say what
  // weight blocks have that are not read (select/unread.cpp).
  bool estimates = false;
  // BlockKeys has the importance of tokens: the weight that the queries of the token whose coming seals the page give
  // them, summed over the heads of the group, each head's largest being 1.
  bool weighs = false;
};

std::span<const Entry<Selector>> selectors();

}  // namespace kvasir::select
