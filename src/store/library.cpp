#include "store/library.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/threads.hpp"
#include "kv/page.hpp"
#include "store/tail.hpp"

namespace kvasir::store {
namespace {

using kv::kPageTokens;

// Searches that go on at once: one may wait for a disk or a network.
constexpr int kSearchers = 4;
// Chunks are fetched in batches of about so many bytes, so that a tier's limit on the time of a batch is not one on the
// length of prompts; so many batches are asked for in advance.
constexpr std::size_t kLookupBytes = std::size_t{4} << 20;
constexpr std::size_t kFlying = 8;
// Chunks may take this share of the time that computing them took, and no more than kLongestLoad.
constexpr double kLoadShare = 0.05;
constexpr double kLongestLoad = 30;

std::span<const std::int32_t> piece(std::span<const std::int32_t> ids, std::int64_t begin, std::int64_t end) {
  return ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

std::vector<std::string> labels_of(std::span<const std::shared_ptr<Tier>> tiers) {
  std::map<std::string, int> count;
  std::vector<std::string> labels;
  for (const auto& tier : tiers) {
    const std::string kind = tier->name().substr(0, tier->name().find(':'));
    const int n = ++count[kind];
    labels.push_back(n == 1 ? kind : kind + "-" + std::to_string(n));
  }
  return labels;
}

// How many of the first `count` keys a tier has, or may have, as it was not to be asked.
std::int64_t leading(std::span<const Found> present, std::size_t count) {
  std::size_t n = 0;
  while (n < count && (present[n] || present[n].outcome == Outcome::kLate || present[n].outcome == Outcome::kFailed))
    ++n;
  return static_cast<std::int64_t>(n);
}

// Until when the chunks of `tokens` tokens may be waited for, according to what their tail took to compute.
Deadline load_deadline(const RecordView& tail, std::int64_t tokens, Deadline least) {
  const double microseconds = tail.head.cost / std::max(1.0, static_cast<double>(tail.n_tokens()));
  const double seconds = std::clamp(kLoadShare * 1e-6 * microseconds * static_cast<double>(tokens), 0.0, kLongestLoad);
  return std::max(least, within(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))));
}

// The first tier that has it, -1 when none.
int holder(std::span<const std::vector<Found>> present, std::size_t key) {
  for (std::size_t t = 0; t < present.size(); ++t)
    if (present[t][key]) return static_cast<int>(t);
  return -1;
}

}  // namespace

Library::Library(kv::Cache& cache, const Fingerprint& fingerprint, std::vector<std::shared_ptr<Tier>> tiers)
    : cache_(cache),
      fingerprint_(fingerprint),
      tiers_(std::move(tiers)),
      labels_(labels_of(tiers_)),
      pins_(fingerprint_, tiers_),
      passages_(cache, fingerprint_, tiers_),
      notes_(fingerprint_, tiers_) {
  for (const auto& tier : tiers_) immediate_ = immediate_ && tier->immediate();
  // Without its tail a conversation has no place to restore from, and tails with states are large.
  if (cache.rules().recurrent_bytes(kPageTokens) > 0)
    for (const auto& tier : tiers_)
      tier->expect(std::max(cache.rules().tail_bytes(kPageTokens), cache.rules().tail_bytes(2 * kPageTokens)) +
                   kEnvelopeBytes + 8 * kPageTokens + kPayloadAlign);
  if (!immediate_)
    start_threads(
        threads_, kSearchers, "threads that search the tiers", [this](int) { run(); }, [this] { stop(); });
}

void Library::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
}

Library::~Library() {
  stop();
  join_all(threads_);
}

bool Library::Search::ready() const {
  const std::lock_guard lock(mutex_);
  return ready_;
}

Known Library::Search::take() {
  const std::lock_guard lock(mutex_);
  KVASIR_CHECK(ready_);
  return std::move(known_);
}

void Library::Search::abandon() {
  const std::lock_guard lock(mutex_);
  done_ = nullptr;
}

std::shared_ptr<Library::Search> Library::search(std::string_view tenant, std::span<const std::int32_t> ids,
                                                 Deadline deadline, std::function<void()> done, bool elsewhere,
                                                 std::function<std::int64_t(std::int64_t)> common) {
  auto search = std::make_shared<Search>();
  search->tenant_ = tenant;
  search->ids_.assign(ids.begin(), ids.end());
  search->deadline_ = deadline;
  search->elsewhere_ = elsewhere;
  search->common_ = std::move(common);
  if (immediate_) {
    search->known_ = find(*search);
    search->ready_ = true;
    return search;
  }
  search->done_ = std::move(done);
  const std::lock_guard lock(mutex_);
  queue_.push_back(search);
  wake_.notify_one();
  return search;
}

void Library::run() {
  for (;;) {
    std::shared_ptr<Search> search;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      search = std::move(queue_.front());
      queue_.pop_front();
    }
    if (search.use_count() == 1) continue;  // nobody waits for it any more
    Known known;
    try {
      known = find(*search);
      if (search->elsewhere_) {
        passages_.learn(search->tenant_);
        passages_.learn_indexed(search->tenant_, search->ids_, search->deadline_);
      }
    } catch (const std::exception&) {
      // Out of memory: then nothing is known, and the prompt is computed.
    }
    const std::lock_guard lock(search->mutex_);
    search->known_ = std::move(known);
    search->ready_ = true;
    if (search->done_) search->done_();
  }
}

Known Library::find(const Search& search) {
  const double start = steady_seconds();
  Known known;
  const auto nearest = recent_.nearest(search.tenant_, search.ids_);
  known.nearest = nearest.tokens;
  known.nearest_ends = nearest.ends;
  const std::span<const std::int32_t> ids = search.ids_;
  const auto most = static_cast<std::int64_t>(ids.size()) - 1;
  if (most > 0 && !tiers_.empty()) {
    Chain chain(fingerprint_, search.tenant_);
    const std::span<const Key> chunks = chain.extend(piece(ids, 0, most));
    std::vector<Key> keys(chunks.begin(), chunks.end());
    std::vector<Candidate> candidates;  // the longest first
    for (std::int64_t page = page_of_last(most); page >= 0; --page) {
      const std::int64_t begin = page * kPageTokens;
      const std::int64_t here = std::min<std::int64_t>(most - begin, kPageTokens);
      // With all tokens of `here` in the key the tail ends behind them and is cut.
      for (std::int64_t skip = std::min(here / kTailGrain * kTailGrain, kPageTokens - kTailGrain); skip >= 0;
           skip -= kTailGrain) {
        candidates.push_back({page, skip, keys.size()});
        keys.push_back(key_of_tail(chain.before(page), piece(ids, begin, begin + here), skip));
      }
    }
    std::vector<Lookup> tickets;
    for (const auto& tier : tiers_)
      tickets.push_back(tier->contains(keys, {.fingerprint = fingerprint_, .deadline = search.deadline_}));
    std::vector<std::vector<Found>> present;
    for (Lookup& ticket : tickets) {
      present.push_back(ticket.take());
      known.present.push_back(leading(present.back(), chunks.size()));
    }
    std::int64_t usable = 0;
    while (usable < static_cast<std::int64_t>(chunks.size()) && holder(present, static_cast<std::size_t>(usable)) >= 0)
      ++usable;
    known.chunks_present = usable;
    for (const Candidate& c : candidates)
      if (load(search, c, keys, present, chain, &usable, &known)) break;
  }
  known.seconds = steady_seconds() - start;
  return known;
}

// Tries to get a tail and the chunks in front of it. Keys are not believed: every record must name the parent that the
// prompt has there, and hold the prompt's tokens. On false *usable may be smaller: a chunk was not to be had.
bool Library::load(const Search& search, const Candidate& c, std::span<const Key> keys,
                   std::span<const std::vector<Found>> present, const Chain& chain, std::int64_t* usable,
                   Known* known) const {
  const int tail_tier = holder(present, c.key);
  const std::int64_t begin = c.page * kPageTokens;
  std::int64_t sealed = cache_.rules().sealed_pages(begin + 1);
  if (tail_tier < 0 || sealed > *usable) return false;
  const Ask ask{.fingerprint = fingerprint_, .deadline = search.deadline_};
  Found tail = std::move(tiers_[static_cast<std::size_t>(tail_tier)]->get(keys.subspan(c.key, 1), ask).take().front());
  if (!tail || tail.record.head.kind != Kind::kTail) return false;
  const auto most = static_cast<std::int64_t>(search.ids_.size()) - 1;
  const std::span<const std::int32_t> ids = search.ids_;
  const auto tokens = static_cast<std::int64_t>(tail.record.n_tokens());
  // Where a page is sealed within this one, a tail from behind that begins a page later.
  if (page_of_last(sealed * kPageTokens + tokens) < c.page) sealed = cache_.rules().sealed_pages(begin + kPageTokens);
  if (sealed > *usable) return false;
  const std::int64_t raw = sealed * kPageTokens;
  const std::int64_t tail_tokens = raw + tokens;
  const std::int64_t common = search.common(
      raw + static_cast<std::int64_t>(tail.record.common_prefix(piece(ids, raw, std::min(begin + kPageTokens, most)))));
  if (common <= begin || page_of_last(tail_tokens) != c.page || tail.record.head.parent != chain.before(sealed) ||
      tail.record.payload.size() != cache_.rules().tail_bytes(tail_tokens) ||
      !cache_.rules().keeps_tail(tail_tokens, std::min(common, tail_tokens)))
    return false;

  // Where pages suffice those behind the tail are as good as it, and of it only the sinks are needed.
  const bool alone =
      cache_.rules().pages_suffice() && common >= cache_.rules().sinks() && *usable * kPageTokens > common;
  const std::int64_t wanted = alone ? *usable : sealed;
  std::vector<Found> chunks = load_chunks(search, keys, present, chain, wanted,
                                          load_deadline(tail.record, wanted * kPageTokens, search.deadline_));
  if (static_cast<std::int64_t>(chunks.size()) < sealed) {
    *usable = static_cast<std::int64_t>(chunks.size());
    return false;
  }
  while (!chunks.empty() && search.common(std::ssize(chunks) * kPageTokens) < std::ssize(chunks) * kPageTokens &&
         std::ssize(chunks) > sealed)
    chunks.pop_back();
  if (static_cast<std::int64_t>(chunks.size()) * kPageTokens <= common) chunks.resize(static_cast<std::size_t>(sealed));
  const std::int64_t whole = static_cast<std::int64_t>(chunks.size()) * kPageTokens;
  std::vector<TierRun> runs;
  const auto add = [&](std::int64_t from, std::int64_t to, int tier) {
    if (runs.empty() || runs.back().tier != tier) runs.push_back({from, 0, tier});
    runs.back().end = to;
  };
  known->bytes = tail.bytes.bytes.size();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    known->bytes += chunks[i].bytes.bytes.size();
    const auto at = static_cast<std::int64_t>(i) * kPageTokens;
    add(at, at + kPageTokens, holder(present, i));
  }
  if (whole < common) add(whole, common, tail_tier);
  known->tokens = std::max(common, whole);
  known->tail_tokens = tail_tokens;
  known->tail_tier = tail_tier;
  known->tail = std::move(tail);
  known->tail_key = keys[c.key];
  known->chunks = std::move(chunks);
  known->runs = std::move(runs);
  return true;
}

// The first `count` of `keys`, in order, up to the first one that did not come or is not what it should be.
std::vector<Found> Library::load_chunks(const Search& search, std::span<const Key> keys,
                                        std::span<const std::vector<Found>> present, const Chain& chain,
                                        std::int64_t count, Deadline deadline) const {
  const std::size_t most =
      std::max<std::size_t>(1, kLookupBytes / std::max<std::size_t>(1, cache_.memory().chunk_bytes));
  const auto end = static_cast<std::size_t>(count);
  std::vector<Found> chunks;
  const auto is_next = [&](const Found& f) {
    const auto i = static_cast<std::int64_t>(chunks.size());
    return f && f.record.head.kind == Kind::kChunk && f.record.payload.size() == cache_.memory().chunk_bytes &&
           f.record.head.parent == chain.before(i) &&
           f.record.tokens_are(piece(search.ids_, i * kPageTokens, (i + 1) * kPageTokens));
  };
  std::deque<Lookup> flying;
  for (std::size_t asked = 0; chunks.size() < end;) {
    while (asked < end && flying.size() < kFlying) {
      const int tier = holder(present, asked);
      std::size_t n = 1;
      while (n < most && asked + n < end && holder(present, asked + n) == tier) ++n;
      flying.push_back(tiers_[static_cast<std::size_t>(tier)]->get(
          keys.subspan(asked, n), {.fingerprint = fingerprint_, .deadline = deadline}));
      asked += n;
    }
    for (Found& f : flying.front().take()) {
      if (!is_next(f)) return chunks;
      chunks.push_back(std::move(f));
    }
    flying.pop_front();
  }
  return chunks;
}

kv::Sequence* Library::restore(const Known& known, std::span<const std::int32_t> ids, Chain& chain) {
  KVASIR_CHECK(known.tokens > 0 && static_cast<std::size_t>(known.tokens) < ids.size());
  const auto pages = static_cast<std::int64_t>(known.chunks.size());
  const bool by_pages = pages > cache_.rules().sealed_pages(known.tail_tokens);
  kv::Sequence* s = nullptr;
  try {
    s = by_pages ? cache_.bytes().restore_pages(pages, known.tail_tokens, known.tail.record.payload)
                 : cache_.bytes().restore(known.tail_tokens, known.tail.record.payload);
  } catch (const Error&) {
    return nullptr;  // no room: the prompt is computed
  }
  for (std::size_t i = 0; i < known.chunks.size(); ++i)
    cache_.bytes().fill_page(*s, static_cast<std::int64_t>(i), known.chunks[i].record.payload);
  cache_.truncate(s, known.tokens);
  // A shorter tail under its key would take the place of this one, which may be the end of another turn.
  for (std::size_t t = 0; t < tiers_.size(); ++t)
    if (known.tail_tier != static_cast<int>(t)) tiers_[t]->put(known.tail_key, known.tail.bytes);
  const RecordView& tail = known.tail.record;
  const std::int64_t raw = known.tail_tokens - static_cast<std::int64_t>(tail.n_tokens());
  const auto both = std::min<std::int64_t>(known.tail_tokens, static_cast<std::int64_t>(ids.size()));
  chain.has_tail(known.tail_key, raw + static_cast<std::int64_t>(tail.common_prefix(piece(ids, raw, both))));
  const std::span<const Key> keys = chain.extend(ids);
  for (std::size_t t = 0; t < tiers_.size(); ++t) {
    // What a tier has behind the chunks that were read may be damaged: it is offered again.
    std::int64_t& given = chain.given(t);
    given = std::max(given, std::min(known.present[t], pages));
    for (const TierRun& run : known.runs) {
      const std::int64_t end = std::min(run.end / kPageTokens, pages);
      if (run.tier == static_cast<int>(t)) given = std::max(given, end);
      for (; given < end; ++given) {
        const SharedBytes& bytes = known.chunks[static_cast<std::size_t>(given)].bytes;
        if (!tiers_[t]->has_room(bytes.bytes.size()) ||
            tiers_[t]->put(keys[static_cast<std::size_t>(given)], bytes) == Tier::Taken::kDropped)
          break;
      }
      if (given < end) break;
    }
  }
  return s;
}

void Library::offer(Chain& chain, std::span<const std::int32_t> ids, const kv::Sequence& sequence, Offering offering,
                    float cost) {
  const std::int64_t n = kv::Cache::length(sequence);
  KVASIR_CHECK(n <= static_cast<std::int64_t>(ids.size()));
  // What reads pages of other texts is an approximation from there on, and its own pages are no pages of this text.
  if (n == 0 || tiers_.empty() || kv::Borrowing::borrows(sequence)) return;
  const std::span<const Key> keys = chain.extend(ids);
  // What a lossy selector had a hand in is not what these tokens always give: it is kept by its sequence alone.
  // So is what such tokens sealed, because a page may remember the query that sealed it.
  const std::int64_t exact = kv::Rules::exact_tokens(sequence);
  const std::int64_t sealed = cache_.rules().sealed_pages(exact);
  const std::uint64_t room = cache_.memory().chunk_bytes + 4 * kPageTokens + kEnvelopeBytes + kPayloadAlign;
  std::int64_t first = sealed;
  for (std::size_t t = 0; t < tiers_.size(); ++t) first = std::min(first, chain.given(t));
  for (std::int64_t i = first; i < sealed; ++i) {
    SharedBytes record;
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
      if (chain.given(t) != i || !tiers_[t]->has_room(room)) continue;
      if (record.bytes.empty()) {
        record =
            make_record({.kind = Kind::kChunk,
                         .fingerprint = fingerprint_,
                         .parent = chain.before(i),
                         .cost = cost * static_cast<float>(kPageTokens)},
                        piece(ids, i * kPageTokens, (i + 1) * kPageTokens), cache_.bytes().sealed_page(sequence, i));
      }
      if (tiers_[t]->put(keys[static_cast<std::size_t>(i)], record) != Tier::Taken::kDropped) ++chain.given(t);
    }
  }
  if (offering == Offering::kLast)
    for (std::size_t t = 0; t < tiers_.size(); ++t)
      if (chain.given(t) < sealed) tiers_[t]->gave_up(sealed - chain.given(t));
  if (offering != Offering::kChunks && exact == n) offer_tail(chain, ids, sequence, n, cost);
}

void Library::offer_tail(Chain& chain, std::span<const std::int32_t> ids, const kv::Sequence& sequence, std::int64_t n,
                         float cost) {
  if (n == 0 || tiers_.empty()) return;
  KVASIR_CHECK(n <= kv::Rules::exact_tokens(sequence));
  chain.extend(ids);
  const std::int64_t sealed = cache_.rules().sealed_pages(n);
  const auto put = [&](const Key& key, const SharedBytes& record) {
    for (const auto& tier : tiers_) tier->put(key, record);
  };
  const std::int64_t begin = page_of_last(n) * kPageTokens;
  const Key key = key_of_tail(chain.before(begin / kPageTokens), piece(ids, begin, n), skip_of(n));
  if (chain.has_tail_of(key, n)) return;
  std::vector<std::byte> bytes(cache_.rules().tail_bytes(n));
  cache_.bytes().save_tail(sequence, n, bytes);
  const std::span<const std::byte> payload[] = {bytes};
  put(key, make_record({.kind = Kind::kTail,
                        .fingerprint = fingerprint_,
                        .parent = chain.before(sealed),
                        .cost = cost * static_cast<float>(n - sealed * kPageTokens)},
                       piece(ids, sealed * kPageTokens, n), payload));
}

}  // namespace kvasir::store
