// What a cache and its parts share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kv/arena.hpp"
#include "kv/attend.hpp"
#include "kv/borrowing.hpp"
#include "kv/recur.hpp"
#include "kv/rules.hpp"
#include "kv/sequence_bytes.hpp"

namespace kvasir::kv {

struct CacheState {
  CacheState(Team& team, const CacheShape& shape, const CacheOptions& options);

  void check_handle(const Sequence* s) const {
    KVASIR_CHECK(s && s->index >= 0 && static_cast<std::size_t>(s->index) < arena.sequences.size() &&
                 arena.sequences[static_cast<std::size_t>(s->index)].get() == s && s->used);
  }
  // An empty sequence. Throws Error(kMemory).
  Sequence* create();
  // Drops pages of its own until `keep` are left.
  void drop_own(Sequence* s, std::int64_t keep);
  void drop_all(Sequence* s);  // borrowed ones, too
  void abort();                // as Cache::abort
  void check_disk();           // gives the step up where the disk failed
  // A page of the pool from its pieces, see SequenceBytes::sealed_page. Throws Error(kIo).
  void fill(std::int32_t slot, std::span<const std::byte> from) const {
    visit_slot(arena, slot, [&](std::byte* p, std::size_t n) {
      std::memcpy(p, from.data(), n);
      from = from.subspan(n);
    });
    arena.pages.store(slot);
  }
  // Whether partial states have room: of the groups of own tokens and of borrowed pages.
  bool holds(std::int64_t own, const Borrowed& borrowed) const {
    return own / kPageTokens + static_cast<std::int64_t>(borrowed.pages().size()) <=
           memory.tokens / kPageTokens + kGroupPages;
  }
  Selection& selection() { return attention.selection(); }

  Team& team;
  Arena arena;
  Attention attention;
  Recurrence recurrence;
  Rules rules{arena};
  SequenceBytes bytes{*this};
  Borrowing borrowing{*this};
  MemoryPlan memory;
  std::vector<std::int32_t> adopted;  // slots
  std::vector<Slice> slices;          // of the open step
  std::vector<char> attended;         // layers, in the open step
  std::vector<char> recurred;
  bool open = false;
  CacheShape given;  // without the layers that indexes are
  bool shares;       // some layer reads another one's keys
  int step_tokens;
};

}  // namespace kvasir::kv
