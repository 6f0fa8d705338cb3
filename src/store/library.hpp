// Finds what earlier requests computed, by tokens, and restores it from tiers.
//
//   sequence   page 0 | page 1 | ... | page s - 1 | raw pages | page that fills
//   stored     chunk 0, chunk 1, ...   chunk s - 1   one tail: everything raw, and the sinks
//
// A chunk is one sealed page across all layers. A sequence needs a tail to continue bit for bit. A sequence of n tokens
// is restored from its kv::Rules::sealed_pages(n) chunks and one tail. The tail was made at n, or later in the same
// page with as many sealed pages, and is then cut. Where pages suffice (kv::Rules::pages_suffice) a sequence of whole
// pages is restored from their chunks, and of the tail of any beginning it takes the sinks.
//
// Keys. The key of chunk i is chained over the tokens of pages 0 .. i. A tail of n = 128 j + c tokens (1 <= c <= 128)
// has a key over the chain up to page j - 1 and the first floor((c - 1) / 16) * 16 tokens of page j. So a page has 8
// possible keys of tails, and a search can ask for all of them. Answers that differ early have different keys and do
// not replace each other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kv/cache.hpp"
#include "store/chain.hpp"
#include "store/notes.hpp"
#include "store/passages.hpp"
#include "store/pins.hpp"
#include "store/recent_prompts.hpp"
#include "store/tier.hpp"

namespace kvasir::store {

// Of a restored sequence: tokens [begin, end) came from tier number `tier`.
struct TierRun {
  std::int64_t begin, end;
  int tier;
};

// The answer to a search.
struct Known {
  std::int64_t tokens = 0;       // that can be restored; 0: none
  std::int64_t tail_tokens = 0;  // of the tail, >= tokens; less where chunks suffice behind it
  int tail_tier = 0;
  Found tail;
  Key tail_key;
  std::vector<Found> chunks;
  std::vector<TierRun> runs;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::int64_t chunks_present = 0;    // leading chunks that some tier said it has
  std::vector<std::int64_t> present;  // by tier: leading chunks that it has, or may have: it was not to be asked
  // The remembered prompt that begins most alike: how many tokens, and whether that is all of it.
  std::int64_t nearest = 0;
  bool nearest_ends = false;
};

class Library {
 public:
  // Tiers: the fastest first; other libraries may have the same ones. `cache` must outlive this; it is asked for sizes
  // by the library's thread, and touched only in restore and offer.
  Library(kv::Cache& cache, const Fingerprint& fingerprint, std::vector<std::shared_ptr<Tier>> tiers);
  ~Library();

  const Fingerprint& fingerprint() const { return fingerprint_; }
  std::span<const std::shared_ptr<Tier>> tiers() const { return tiers_; }
  // What each tier is called in receipts and metrics: its kind, and behind the second of a kind -2, behind the third
  // -3.
  std::span<const std::string> labels() const { return labels_; }

  // Looks for the longest beginning of `ids`, at most ids.size() - 1 tokens, that can be restored. With tiers that
  // answer from memory the search is over when this returns, otherwise `done` is called in another thread; it must not
  // call the search. What it refers to must stay until take() or abandon() has returned.
  class Search {
   public:
    bool ready() const;
    Known take();    // REQUIRES: ready. Once
    void abandon();  // nobody waits any more: when this returns, `done` is over or will not be called

   private:
    friend class Library;
    std::string tenant_;
    std::vector<std::int32_t> ids_;
    Deadline deadline_;
    bool elsewhere_ = false;
    std::function<std::int64_t(std::int64_t)> common_;
    std::int64_t common(std::int64_t n) const { return common_ ? common_(n) : n; }
    mutable std::mutex mutex_;
    std::function<void()> done_;  // called with the mutex held, so that it cannot outlive whom it calls
    bool ready_ = false;
    Known known_;
  };
  // elsewhere: find_moved will be asked, too, and shall find what earlier processes stored. common(n): of n tokens that
  // are equal the first so many say the same for sure.
  std::shared_ptr<Search> search(std::string_view tenant, std::span<const std::int32_t> ids, Deadline deadline,
                                 std::function<void()> done, bool elsewhere = false,
                                 std::function<std::int64_t(std::int64_t)> common = {});

  // A sequence of known.tokens tokens. nullptr: it has no room. Tiers that lack chunks which another one had are given
  // them, and the tail.
  kv::Sequence* restore(const Known& known, std::span<const std::int32_t> ids, Chain& chain);

  // Gives every tier the chunks of `sequence` that are new to it, as far as the tier's queue has room. A long prompt is
  // larger than a queue. So it is offered while it is computed, and a chunk that finds no room is offered again later.
  // `ids` are the sequence's tokens. cost: microseconds that computing one token takes.
  enum class Offering {
    kChunks,
    kTail,  // and the tail, without which its chunks restore nothing
    kLast,  // the same; the chunks that find no room are counted as dropped
  };
  void offer(Chain& chain, std::span<const std::int32_t> ids, const kv::Sequence& sequence, Offering offering,
             float cost);
  // The tail of the first n tokens. REQUIRES: the cache has it, and the chunks in front of it were offered.
  void offer_tail(Chain& chain, std::span<const std::int32_t> ids, const kv::Sequence& sequence, std::int64_t n,
                  float cost);
  // See store/pins.hpp and store/passages.hpp. Any thread.
  Status pin(std::string_view tenant, std::span<const std::int32_t> ids, std::span<const std::int64_t> ends,
             Clock::duration ttl) {
    return pins_.pin(tenant, ids, ends, ttl);
  }
  bool unpin(std::string_view tenant, std::span<const std::int32_t> ids) { return pins_.unpin(tenant, ids); }
  void remember_pieces(Chain& chain, std::string_view tenant, std::span<const std::int32_t> ids,
                       std::int64_t sealed_tokens, std::span<const std::int64_t> borders) {
    passages_.remember(chain, tenant, ids, sealed_tokens, borders);
  }
  Moved find_moved(std::string_view tenant, std::span<const std::int32_t> ids, const ContentIndex::Scope& scope,
                   Deadline deadline) {
    return passages_.find(tenant, ids, scope, deadline);
  }
  const Notes& notes() const { return notes_; }  // about the model, under its fingerprint
  // Keeps a prompt, so that later searches that miss can say where they differ from it.
  void remember(std::string_view tenant, std::span<const std::int32_t> ids) { recent_.add(tenant, ids); }

 private:
  struct Candidate {
    std::int64_t page;
    std::int64_t skip;  // tokens of the page in the key
    std::size_t key;    // index in the batch
  };
  void run();
  void stop();
  Known find(const Search& search);
  bool load(const Search& search, const Candidate& candidate, std::span<const Key> keys,
            std::span<const std::vector<Found>> present, const Chain& chain, std::int64_t* usable, Known* known) const;
  std::vector<Found> load_chunks(const Search& search, std::span<const Key> keys,
                                 std::span<const std::vector<Found>> present, const Chain& chain, std::int64_t count,
                                 Deadline deadline) const;

  kv::Cache& cache_;
  const Fingerprint fingerprint_;
  const std::vector<std::shared_ptr<Tier>> tiers_;
  const std::vector<std::string> labels_;
  bool immediate_ = true;
  Pins pins_;
  Passages passages_;
  const Notes notes_;
  RecentPrompts recent_;

  std::mutex mutex_;  // of everything below
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Search>> queue_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvasir::store
