// A tier: a place where records are kept between requests. It is asked in batches, and callers need not wait.
//
//   auto ram = store::open_tier("ram:?size=4GiB");                        // store/open.hpp
//   auto disk = store::open_tier("lmdb:/var/cache/kvasir?size=100GiB&rate=200MiB");
//
//   Key key = root_key(fingerprint, tenant);
//   for (each chunk) keys.push_back(key = chunk_key(key, chunk_tokens));
//   Lookup lookup = disk->get(keys, {.fingerprint = fingerprint, .deadline = within(50ms)});
//   ...                                                                   // something else meanwhile
//   for (Found& f : lookup.take())
//     if (!f || !f.record.tokens_are(chunk_tokens)) break; else use(f.record.payload);
//
//   SharedBytes record = make_record({.fingerprint = ..., .parent = ..., .cost = microseconds}, tokens, parts);
//   ram->put(key, record);                                                // gathered once, the same bytes for
//   disk->put(key, record);                                               // every tier
//
// Faults outside the program do not throw. A server that is gone, a full disk and a damaged record are misses and are
// counted. Any thread may call any function.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "store/backend.hpp"
#include "store/counters.hpp"
#include "store/lookup.hpp"
#include "store/reader.hpp"
#include "store/writer.hpp"

namespace kvasir::store {

struct TierOptions {
  std::string name;  // for people
  Reader::Options reader;
  Writer::Options writer;
};

struct Ask {
  std::optional<Fingerprint> fingerprint = std::nullopt;  // records of another are misses; none accepts all
  // Answers that have not come by then are kLate. A lookup whose deadline has passed is not begun.
  std::optional<Deadline> deadline =
      std::nullopt;  // none: the tier's own limit, counted from now, and the queue's time
};

struct Stats {
  Usage usage;
  std::uint64_t hits = 0, misses = 0, hit_bytes = 0;  // records that get was asked for
  std::uint64_t damaged = 0, foreign = 0;             // of the misses
  std::uint64_t late = 0;                             // questions that nobody waited for
  std::uint64_t errors = 0;                          // calls of the backend that failed, and lookups it had no room for
  std::uint64_t inserts = 0, insert_bytes = 0;       // records written
  std::uint64_t kept = 0;                            // put again while they were there
  std::uint64_t refused = 0;                         // by the backend: too large, no room
  std::uint64_t dropped = 0;                         // puts lost to a full queue or a failure
  std::uint64_t queue_bytes = 0, queue_records = 0;  // puts that wait or are being written
  std::string last_error;
};

class Tier {
 public:
  Tier(std::unique_ptr<Backend> backend, TierOptions options);
  ~Tier();  // writes what is queued, within a few seconds

  const std::string& name() const { return options_.name; }
  // Answers come in the caller's thread, from memory.
  bool immediate() const { return immediate_; }

  // One answer per key. Views in the answers may be put into another tier as they are.
  Lookup get(std::span<const Key> keys, const Ask& ask = {});
  // Only whether they are there, and perhaps damaged.
  Lookup contains(std::span<const Key> keys, const Ask& ask = {});

  // Suggests a record; the tier may drop it. `record` comes from make_record or get, and nobody may write to it any
  // more. Lookups find a queued record before it is written. Put parents before their children.
  using Taken = Writer::Taken;
  Taken put(const Key& key, const SharedBytes& record);
  // Whether the queue has room for a record of so many bytes. Callers that could put a record later ask this first, so
  // that room is left for records that come only once. At the end they report what they never put to gave_up().
  bool has_room(std::uint64_t bytes) const { return writer_.has_room(bytes); }
  // Records of that size will come: the queue holds a few at least. For those that nothing else replaces.
  void expect(std::uint64_t bytes) { writer_.expect(bytes); }
  void gave_up(std::int64_t records) { counters_.dropped += static_cast<std::uint64_t>(records); }

  void touch(std::span<const Key> keys);  // they were used, though not read from here
  Status erase(std::span<const Key> keys, Deadline deadline = within(std::chrono::seconds(10)));
  Status clear(Deadline deadline = within(std::chrono::minutes(10)));
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline = within(std::chrono::minutes(10)));
  bool scans() const { return scans_; }
  Status scan(FunctionRef<bool(const Seen&)> each, Deadline deadline);  // Backend::scan
  // Until `ttl` from now the records are not evicted. Where the backend pins nothing the Status says so.
  Status pin(std::span<const Key> keys, Clock::duration ttl);
  Status unpin(std::span<const Key> keys);
  // Everything put before is written, and safe from the end of this process.
  Status flush(Deadline deadline = within(std::chrono::minutes(1)));
  Stats stats();

 private:
  Lookup look_up(std::span<const Key> keys, const Ask& ask, bool with_bytes);

  const TierOptions options_;
  const std::unique_ptr<Backend> backend_;
  const bool immediate_, scans_;
  Counters counters_;
  Writer writer_;
  Reader reader_;
};

}  // namespace kvasir::store
