#include "store/tier.hpp"

#include <exception>
#include <utility>

namespace kvasir::store {
namespace {

TierOptions resolved(TierOptions options, const Traits& traits) {
  if (traits.immediate) {
    options.reader.threads = 0;
    options.writer.threaded = false;
  } else if (options.reader.threads < 1) {
    options.reader.threads = traits.readers;
  }
  return options;
}

template <class F>
Status guarded(Counters& counters, F&& call) {
  Status s;
  try {
    s = call();
  } catch (const std::exception& e) {
    s = {e.what()};
  }
  if (!s.ok()) counters.fail(s.why);
  return s;
}

}  // namespace

Tier::Tier(std::unique_ptr<Backend> backend, TierOptions options)
    : options_(resolved(std::move(options), backend->traits())),
      backend_(std::move(backend)),
      immediate_(backend_->traits().immediate),
      scans_(backend_->traits().scans),
      writer_(*backend_, options_.writer, counters_),
      reader_(*backend_, writer_, options_.reader, counters_, [this](std::vector<Key> keys) {
        // So that the next put of the record is not taken for one that is there.
        writer_.hint([this, keys = std::move(keys)](Deadline d) { return backend_->erase(keys, d); });
      }) {}

Tier::~Tier() = default;

Lookup Tier::look_up(std::span<const Key> keys, const Ask& ask, bool with_bytes) {
  auto state = std::make_shared<Lookup::State>();
  state->keys.assign(keys.begin(), keys.end());
  state->with_bytes = with_bytes;
  state->fingerprint = ask.fingerprint;
  // Without a deadline of its own a question may also wait while others are answered.
  state->deadline = ask.deadline.value_or(within(4 * options_.reader.limit));
  Lookup lookup(state);
  reader_.submit(std::move(state));
  return lookup;
}

Lookup Tier::get(std::span<const Key> keys, const Ask& ask) { return look_up(keys, ask, true); }
Lookup Tier::contains(std::span<const Key> keys, const Ask& ask) { return look_up(keys, ask, false); }

Tier::Taken Tier::put(const Key& key, const SharedBytes& record) {
  const Parsed parsed = parse_record(record.bytes, Check::kHead);
  if (!parsed) {
    ++counters_.refused;
    return Taken::kRefused;
  }
  try {
    // What pins something shared must not wait in a queue or stay in memory.
    return writer_.put({key, record.heap ? record : copy_bytes(record.bytes), parsed.record.head});
  } catch (const std::exception& e) {
    counters_.fail(e.what());
    return Taken::kFailed;
  }
}

void Tier::touch(std::span<const Key> keys) {
  writer_.hint(
      [this, copy = std::vector<Key>(keys.begin(), keys.end())](Deadline d) { return backend_->touch(copy, d); });
}

Status Tier::erase(std::span<const Key> keys, Deadline deadline) {
  return writer_.call(
      [this, copy = std::vector<Key>(keys.begin(), keys.end())](Deadline d) { return backend_->erase(copy, d); },
      deadline);
}

Status Tier::clear(Deadline deadline) {
  return writer_.call([this](Deadline d) { return backend_->clear(d); }, deadline);
}

Status Tier::list(FunctionRef<bool(const Listed&)> each, Deadline deadline) {
  return guarded(counters_, [&] { return backend_->list(each, deadline); });
}

Status Tier::scan(FunctionRef<bool(const Seen&)> each, Deadline deadline) { return backend_->scan(each, deadline); }

Status Tier::pin(std::span<const Key> keys, Clock::duration ttl) { return backend_->pin(keys, within(ttl)); }
Status Tier::unpin(std::span<const Key> keys) { return backend_->unpin(keys); }
Status Tier::flush(Deadline deadline) { return writer_.flush(deadline); }

Stats Tier::stats() {
  Stats s;
  s.usage = backend_->usage();
  s.hits = counters_.hits;
  s.misses = counters_.misses;
  s.hit_bytes = counters_.hit_bytes;
  s.damaged = counters_.damaged;
  s.foreign = counters_.foreign;
  s.late = counters_.late;
  s.errors = counters_.errors;
  s.inserts = counters_.inserts;
  s.insert_bytes = counters_.insert_bytes;
  s.kept = counters_.kept;
  s.refused = counters_.refused;
  s.dropped = counters_.dropped;
  s.queue_bytes = writer_.queued_bytes();
  s.queue_records = writer_.queued_records();
  s.last_error = counters_.last_error();
  return s;
}

}  // namespace kvasir::store
