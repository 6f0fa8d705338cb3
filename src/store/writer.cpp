#include "store/writer.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/heap.hpp"

namespace kvasir::store {
namespace {

constexpr std::size_t kMaxHints = 64;
// What a batch leaves in the heap, a database's copies too, is given back after so many bytes, or a 16th of the queue.
constexpr std::uint64_t kTrim = std::uint64_t{1} << 18;

bool same_envelope(const SharedBytes& a, const SharedBytes& b) {
  const auto mine = envelope(a.bytes), other = envelope(b.bytes);
  return std::equal(mine.begin(), mine.end(), other.begin(), other.end());
}

}  // namespace

Writer::Writer(Backend& backend, const Options& options, Counters& counters)
    : backend_(backend), options_(options), counters_(counters) {
  if (options_.threaded) thread_ = std::thread([this] { run(); });
}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    drain_until_ = within(options_.drain);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Writer::Taken Writer::put(Offer offer) {
  if (!options_.threaded) {
    PutOutcome outcome = PutOutcome::kFailed;
    const Status status = backend_.put(std::span(&offer, 1), within(options_.limit), std::span(&outcome, 1));
    if (!status.ok()) counters_.fail(status.why);
    switch (outcome) {
      case PutOutcome::kStored:
        ++counters_.inserts;
        counters_.insert_bytes += offer.record.bytes.size();
        return Taken::kStored;
      case PutOutcome::kKept:
        ++counters_.kept;
        return Taken::kStored;
      case PutOutcome::kRefused:
        ++counters_.refused;
        return Taken::kRefused;
      case PutOutcome::kFailed:
        break;
    }
    return Taken::kFailed;
  }
  const std::uint64_t size = offer.record.bytes.size();
  const std::lock_guard lock(mutex_);
  if (const auto it = waiting_.find(offer.key);
      it != waiting_.end() && !it->second.again && same_envelope(it->second.record, offer.record))
    return Taken::kQueued;
  if (stopping_ || (queued_bytes_ + size > most_queued())) {
    ++counters_.dropped;
    return Taken::kDropped;
  }
  queued_bytes_ += size;
  ++queued_records_;
  Item item;
  item.number = ++puts_;
  waiting_[offer.key] = {offer.record, item.number, false};
  item.offer = std::move(offer);
  queue_.push_back(std::move(item));
  changed_.notify_all();
  return Taken::kQueued;
}

void Writer::expect(std::uint64_t bytes) {
  constexpr std::uint64_t kFew = 4;
  const std::lock_guard lock(mutex_);
  least_ = std::max(least_, kFew * bytes);
}

bool Writer::has_room(std::uint64_t bytes) const {
  if (!options_.threaded) return true;
  const std::lock_guard lock(mutex_);
  const std::uint64_t most = queued_bytes_ == 0 ? most_queued() : most_queued() / 2;
  return !stopping_ && queued_bytes_ + bytes <= most;
}

void Writer::hint(std::function<Status(Deadline)> operation) {
  if (!options_.threaded) {
    if (const Status s = guarded(operation, within(options_.limit)); !s.ok()) counters_.fail(s.why);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (stopping_ || hints_ >= kMaxHints) return;
  ++hints_;
  follow();
  Item item;
  item.operation = std::move(operation);
  queue_.push_back(std::move(item));
  changed_.notify_all();
}

Status Writer::call(std::function<Status(Deadline)> operation, Deadline deadline) {
  if (!options_.threaded) {
    Status s = guarded(operation, deadline);
    if (!s.ok()) counters_.fail(s.why);
    return s;
  }
  std::future<Status> result;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return {"the tier is closed"};
    follow();
    Item item;
    // What begins after the caller has gone does nothing.
    item.operation = [operation = std::move(operation), deadline](Deadline limit) -> Status {
      if (Clock::now() >= deadline) return {"not begun before its deadline"};
      return operation(std::min(limit, deadline));
    };
    item.is_call = true;
    result = item.result.get_future();
    queue_.push_back(std::move(item));
    ++callers_;
    changed_.notify_all();
  }
  const bool done = result.wait_until(deadline) == std::future_status::ready;
  const std::lock_guard lock(mutex_);
  --callers_;
  return done ? result.get() : Status{"not done before its deadline"};
}

Status Writer::flush(Deadline deadline) {
  return call([this](Deadline limit) { return backend_.sync(limit); }, deadline);
}

void Writer::find(std::span<const Key> keys, std::span<SharedBytes> records) const {
  if (!options_.threaded) return;
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (const auto it = waiting_.find(keys[i]); it != waiting_.end()) records[i] = it->second.record;
}

void Writer::follow() {
  for (auto& [key, waiting] : waiting_) waiting.again = true;
}

std::uint64_t Writer::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

std::uint64_t Writer::queued_records() const {
  const std::lock_guard lock(mutex_);
  return queued_records_;
}

void Writer::run() {
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock)) {
    if (queue_.front().operation)
      run_operation(lock);
    else
      write_batch(lock);
  }
  counters_.dropped += queued_records_;
  for (Item& item : queue_)
    if (item.is_call) item.result.set_value({"the tier is closed"});
  queue_.clear();
}

bool Writer::wait_for_work(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  // The rate bounds what is written while requests run, not the way out, nor what somebody waits for.
  while (!stopping_ && callers_ == 0 && Clock::now() < next_write_ && !queue_.front().operation)
    changed_.wait_until(lock, next_write_);
  if (queue_.empty()) return false;
  return !stopping_ || Clock::now() < drain_until_;
}

void Writer::write_batch(std::unique_lock<std::mutex>& lock) {
  std::vector<Offer> offers;
  std::vector<std::uint64_t> numbers;
  std::uint64_t bytes = 0;
  const std::uint64_t most = std::min(options_.batch_bytes, most_queued() / 8);
  std::unordered_map<Key, std::size_t> seen;
  // Of two records with one key the later wins; they must not meet in a batch.
  while (!queue_.empty() && !queue_.front().operation) {
    Offer& next = queue_.front().offer;
    const std::uint64_t size = next.record.bytes.size();
    if (!offers.empty() && (bytes + size > most || seen.contains(next.key))) break;
    bytes += size;
    seen.emplace(next.key, offers.size());
    numbers.push_back(queue_.front().number);
    offers.push_back(std::move(next));
    queue_.pop_front();
  }
  const auto waiting_of = [&](std::size_t i) {
    const auto it = waiting_.find(offers[i].key);
    return it != waiting_.end() && it->second.number == numbers[i] ? it : waiting_.end();
  };
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (const auto it = waiting_of(i); it != waiting_.end()) it->second.again = true;
  lock.unlock();
  store(offers);
  lock.lock();
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (const auto it = waiting_of(i); it != waiting_.end()) waiting_.erase(it);
  // Counted as queued until they are written: the bound is one of memory.
  queued_bytes_ -= bytes;
  queued_records_ -= offers.size();
  freed_ += bytes;
  if (freed_ >= std::max(kTrim, most_queued() / 16)) {
    freed_ = 0;
    offers.clear();
    lock.unlock();
    return_free_memory();
    lock.lock();
  }
  if (options_.rate > 0)
    next_write_ = std::max(next_write_, Clock::now()) +
                  std::chrono::nanoseconds(
                      static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / static_cast<double>(options_.rate)));
}

void Writer::run_operation(std::unique_lock<std::mutex>& lock) {
  Item item = std::move(queue_.front());
  queue_.pop_front();
  if (!item.is_call) --hints_;
  lock.unlock();
  Status s = guarded(item.operation, within(item.is_call ? std::chrono::hours(1) : options_.limit));
  if (!s.ok()) counters_.fail(s.why);
  if (item.is_call) item.result.set_value(std::move(s));
  lock.lock();
}

void Writer::store(const std::vector<Offer>& offers) {
  std::vector<PutOutcome> outcomes(offers.size(), PutOutcome::kFailed);
  const Status s = guarded([&](Deadline d) { return backend_.put(offers, d, outcomes); }, within(options_.limit));
  if (!s.ok()) counters_.fail(s.why);
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (outcomes[i] == PutOutcome::kStored) {
      ++counters_.inserts;
      counters_.insert_bytes += offers[i].record.bytes.size();
    } else if (outcomes[i] == PutOutcome::kKept) {
      ++counters_.kept;
    } else if (outcomes[i] == PutOutcome::kRefused) {
      ++counters_.refused;
    } else {
      ++counters_.dropped;
    }
  }
}

Status Writer::guarded(const std::function<Status(Deadline)>& operation, Deadline deadline) {
  try {
    return operation(deadline);
  } catch (const std::exception& e) {
    return {e.what()};
  }
}

}  // namespace kvasir::store
