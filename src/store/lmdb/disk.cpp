#include "store/lmdb/disk.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>
#include <utility>
#include <vector>

namespace kvasir::store::lmdb {
namespace {

constexpr std::size_t kUsesToWrite = 256;
constexpr std::size_t kMaxUses = 1 << 16;
constexpr std::size_t kListSlice = 1024;
constexpr auto kGrowAfter = std::chrono::seconds(5);
constexpr auto kReapEvery = std::chrono::seconds(10);

bool is_full(int code) { return code == MDB_MAP_FULL || code == MDB_TXN_FULL; }

// EFBIG: a limit on the size of files. EIO: what LMDB makes of a write that the disk took in part.
bool is_full_disk(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG || code == EIO; }

struct Snapshot {
  explicit Snapshot(std::shared_ptr<Database> d) : database(std::move(d)), transaction(*database, false) {}
  const std::shared_ptr<Database> database;
  const Database::Transaction transaction;
};

void read_ahead(std::span<const std::byte> bytes, std::uint64_t page) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

}  // namespace

Disk::Disk(const std::string& folder, std::uint64_t size, Database::Mode mode)
    : mode_(mode),
      shared_(std::make_shared<Database>(folder, size, mode)),
      database_(*shared_),
      size_(mode == Database::Mode::kInspect ? database_.map_size() : size),
      limit_(full_limit()) {}

Disk::~Disk() {
  if (mode_ == Database::Mode::kInspect) return;
  // Uses that were not written yet; a store that cannot be written to any more only loses them.
  guarded([&] { write([](Ledger&) {}); });
}

template <class F>
Status Disk::guarded(F&& work) {
  try {
    work();
    return {};
  } catch (const Failure& f) {
    return {describe(f.code)};
  }
}

Status Disk::get(std::span<const Key> keys, Deadline /*deadline*/, std::span<Answer> answers) {
  std::fill(answers.begin(), answers.end(), Answer{Outcome::kFailed, {}});
  return guarded([&] {
    const auto owner = std::make_shared<Snapshot>(shared_);
    const Database::Transaction* const snapshot = &owner->transaction;
    const std::uint64_t page = database_.page_size();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      MDB_val key = value_of(keys[i].bytes), value;
      const int code = ::mdb_get(snapshot->get(), snapshot->tables().records, &key, &value);
      answers[i].outcome = code == MDB_NOTFOUND ? Outcome::kAbsent : Outcome::kFound;
      if (code == MDB_NOTFOUND) continue;
      check(code);
      const auto bytes = bytes_of(value);
      if (bytes.size() >= page) {
        if (mode_ == Database::Mode::kServe) read_ahead(bytes, page);
        answers[i].bytes = {owner, bytes, false};
      } else {
        answers[i].bytes = copy_bytes(bytes);  // small records are not aligned, and not worth a snapshot
      }
      note_use(keys[i]);
    }
  });
}

Status Disk::contains(std::span<const Key> keys, Deadline /*deadline*/, std::span<Outcome> outcomes) {
  std::fill(outcomes.begin(), outcomes.end(), Outcome::kFailed);
  return guarded([&] {
    const Database::Transaction t(database_, false);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      MDB_val key = value_of(keys[i].bytes), value;
      const int code = ::mdb_get(t.get(), t.tables().rows, &key, &value);
      if (code != MDB_NOTFOUND) check(code);
      outcomes[i] = code == 0 ? Outcome::kFound : Outcome::kAbsent;
    }
  });
}

void Disk::note_use(const Key& key) {
  if (mode_ == Database::Mode::kInspect) return;
  const std::lock_guard lock(uses_mutex_);
  if (uses_.size() < kMaxUses || uses_.contains(key)) ++uses_[key];
}

template <class F>
void Disk::write(F&& work) {
  if (Clock::now() >= next_reap_) {
    database_.reap_dead_readers();
    next_reap_ = within(kReapEvery);
  }
  Uses uses;
  {
    const std::lock_guard lock(uses_mutex_);
    uses.swap(uses_);
  }
  Database::Transaction t(database_, true);
  Ledger ledger(t, database_.page_size());
  for (const auto& [key, times] : uses) ledger.use(key, times);
  work(ledger);
  ledger.save();
  t.commit();
}

Status Disk::put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) {
  std::fill(outcomes.begin(), outcomes.end(), PutOutcome::kFailed);
  const std::lock_guard lock(write_mutex_);
  // A transaction needs free pages for all that it writes, so small databases get small batches.
  const std::uint64_t most = size_ / 32;
  disk_full_ = false;
  Status status = guarded([&] {
    for (std::size_t begin = 0; begin < offers.size();) {
      if (begin > 0 && Clock::now() >= deadline) throw Failure{ETIMEDOUT};
      std::size_t end = begin + 1;
      for (std::uint64_t bytes = offers[begin].record.bytes.size(); end < offers.size(); ++end)
        if ((bytes += offers[end].record.bytes.size()) > most) break;
      put_batch(offers.subspan(begin, end - begin), outcomes.subspan(begin, end - begin));
      begin = end;
    }
  });
  if (status.ok() && disk_full_) status.why = "the disk is full or fails; the database makes do with the space it has";
  return status;
}

void Disk::put_batch(std::span<const Offer> offers, std::span<PutOutcome> outcomes) {
  try {
    if (put_once(offers, outcomes)) return;
    make_space(offers);
    if (put_once(offers, outcomes)) return;
    std::fill(outcomes.begin(), outcomes.end(), PutOutcome::kRefused);
  } catch (...) {
    std::fill(outcomes.begin(), outcomes.end(), PutOutcome::kFailed);
    throw;
  }
}

// False: there was no room, and nothing was written.
bool Disk::put_once(std::span<const Offer> offers, std::span<PutOutcome> outcomes) {
  std::uint64_t evicted = 0;
  try {
    write([&](Ledger& ledger) {
      std::unordered_set<Key> refused;  // without its parent a record is of no use
      for (std::size_t i = 0; i < offers.size(); ++i) {
        outcomes[i] =
            refused.contains(offers[i].head.parent) ? PutOutcome::kRefused : ledger.put(offers[i], limit_, &evicted);
        if (outcomes[i] == PutOutcome::kRefused) refused.insert(offers[i].key);
      }
    });
  } catch (const Failure& f) {
    if (is_full(f.code)) {
      shrink(std::max(limit_ - limit_ / 16, size_ / 4));
    } else if (is_full_disk(f.code)) {
      disk_full_ = true;
      shrink(std::min(limit_, database_.file_pages() * database_.page_size() * 7 / 8));
    } else {
      throw;
    }
    return false;
  }
  evictions_ += evicted;
  if (Clock::now() >= grow_at_) limit_ = std::min(full_limit(), limit_ + size_ / 1024);
  return true;
}

void Disk::shrink(std::uint64_t limit) {
  limit_ = limit;
  grow_at_ = within(kGrowAfter);
}

// Room for the offers and down to the limit. Pages that a transaction frees can be used by the one after the next, so
// there are three of them.
void Disk::make_space(std::span<const Offer> offers) {
  std::uint64_t charge = 0, evicted = 0;
  for (const Offer& o : offers) charge += o.record.bytes.size() + database_.page_size();
  for (int step = 0; step < 3; ++step) {
    try {
      write([&](Ledger& ledger) {
        for (const Offer& o : offers) ledger.hold(o.head.parent);
        for (std::uint64_t freed = 0; step < 2 && (freed < charge || ledger.totals().charge > limit_); ++evicted) {
          const std::uint64_t before = ledger.totals().charge;
          if (!ledger.evict_one()) break;
          freed += before - ledger.totals().charge;
        }
        for (const Offer& o : offers) ledger.release(o.head.parent);
      });
    } catch (const Failure& f) {
      if (!is_full(f.code) && !is_full_disk(f.code)) throw;
    }
  }
  evictions_ += evicted;
}

Status Disk::erase(std::span<const Key> keys, Deadline /*deadline*/) {
  const std::lock_guard lock(write_mutex_);
  return guarded([&] {
    write([&](Ledger& ledger) {
      for (const Key& key : keys) ledger.remove(key);
    });
  });
}

Status Disk::touch(std::span<const Key> keys, Deadline /*deadline*/) {
  for (const Key& key : keys) note_use(key);
  {
    const std::lock_guard lock(uses_mutex_);
    if (uses_.size() < kUsesToWrite) return {};
  }
  const std::lock_guard lock(write_mutex_);
  return guarded([&] { write([](Ledger&) {}); });
}

Status Disk::clear(Deadline /*deadline*/) {
  const std::lock_guard lock(write_mutex_);
  return guarded([&] { write([](Ledger& ledger) { ledger.clear(); }); });
}

// What `look(listed, record, out)` makes of every record for which it is true. In slices, each of a snapshot of its
// own: `each` may take its time, and may call this tier.
template <class Shown, class Look>
Status Disk::walk(Look look, FunctionRef<bool(const Shown&)> each, Deadline deadline) {
  Key last;
  for (bool first = true, more = true; more; first = false) {
    std::vector<Shown> slice;
    const Key from = last;
    const Status s = guarded([&] {
      const Database::Transaction t(database_, false);
      MDB_cursor* cursor = nullptr;
      check(::mdb_cursor_open(t.get(), t.tables().records, &cursor));
      const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> closing(cursor, ::mdb_cursor_close);
      MDB_val key = value_of(from.bytes), value;
      int code = ::mdb_cursor_get(cursor, &key, &value, first ? MDB_FIRST : MDB_SET_RANGE);
      std::size_t seen = 0;
      for (; code == 0 && seen < kListSlice; code = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        Listed l{.bytes = value.mv_size};
        const auto bytes = bytes_of(key);
        if (bytes.size() != l.key.bytes.size()) throw Failure{MDB_CORRUPTED};
        std::copy(bytes.begin(), bytes.end(), l.key.bytes.begin());
        if (!first && l.key == from) continue;
        last = l.key;
        ++seen;
        if (const auto row = Ledger::read_row(t, l.key)) {
          l.uses = row->uses;
          l.written = row->written;
          l.used = row->used;
        }
        if (Shown shown; look(l, bytes_of(value), &shown)) slice.push_back(std::move(shown));
      }
      if (code != MDB_NOTFOUND) check(code);
      more = code == 0;
    });
    if (!s.ok()) return s;
    for (const Shown& shown : slice)
      if (!each(shown)) return {};
    if (more && Clock::now() >= deadline) return {"not all records were listed before the deadline"};
  }
  return {};
}

Status Disk::list(FunctionRef<bool(const Listed&)> each, Deadline deadline) {
  const auto look = [](const Listed& l, std::span<const std::byte>, Listed* shown) {
    *shown = l;
    return true;
  };
  return walk<Listed>(look, each, deadline);
}

Status Disk::scan(FunctionRef<bool(const Seen&)> each, Deadline deadline) {
  const auto look = [](const Listed& l, std::span<const std::byte> record, Seen* seen) {
    const Parsed parsed = parse_record(record, Check::kHead);
    if (!parsed || parsed.record.head.kind != Kind::kChunk) return false;
    *seen = {l.key, parsed.record.head, std::vector<std::int32_t>(parsed.record.n_tokens()), l.used};
    parsed.record.copy_tokens(seen->ids.data());
    return true;
  };
  return walk<Seen>(look, each, deadline);
}

Usage Disk::usage() {
  Usage u;
  u.budget = size_;
  u.evictions = evictions_;
  guarded([&] {
    const Database::Transaction t(database_, false);
    const auto totals = Ledger::read_totals(t).value_or(Totals{});
    u.bytes = totals.charge;
    u.records = totals.records;
  });
  return u;
}

Status Disk::sync(Deadline /*deadline*/) {
  const std::lock_guard lock(write_mutex_);
  return guarded([&] {
    write([](Ledger&) {});
    database_.sync();
  });
}

}  // namespace kvasir::store::lmdb
