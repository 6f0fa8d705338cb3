// A tier: a place where records are kept between requests, asked in batches and without waiting for it.
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
//   ram->put(key, record);                                                // the same bytes for every tier, gathered
//   once disk->put(key, record);
//
// Nothing here throws because of what the world does: a server that is gone, a full disk and a damaged record are
// misses, and are counted. All functions may be called from several threads.
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
  // Answers that have not come by then are kLate. A lookup nobody waits for any more is not begun.
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

  // A suggestion. `record` is what make_record made or get returned; nobody may write to it any more. What is queued
  // is not seen by get until it is written. Put parents before their children.
  using Taken = Writer::Taken;
  Taken put(const Key& key, const SharedBytes& record);
  // Whether a record of so many bytes should be put now: who can put it later as well asks first, so that the queue has
  // room for what comes once, and says at the end what it gave up.
  bool has_room(std::uint64_t bytes) const { return writer_.has_room(bytes); }
  void gave_up(std::int64_t records) { counters_.dropped += static_cast<std::uint64_t>(records); }

  void touch(std::span<const Key> keys);  // they were used, though not read from here
  Status erase(std::span<const Key> keys, Deadline deadline = within(std::chrono::seconds(10)));
  Status clear(Deadline deadline = within(std::chrono::minutes(10)));
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline = within(std::chrono::minutes(10)));
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
  const bool immediate_;
  Counters counters_;
  Writer writer_;
  Reader reader_;
};

}  // namespace kvasir::store
