// Contract of an entry in store/tiers: where records are kept. A backend is synchronous and knows nothing of queues,
// threads, deadlines of callers or checksums; Tier (store/tier.hpp) puts all of that in front of it, and is what the
// rest of the engine uses.
//
// Every function may be called from several threads at once. What the world can cause (a server that is gone, a full
// disk) is a Status or an Outcome; exceptions are programming errors and memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/registry.hpp"
#include "store/bytes.hpp"
#include "store/key.hpp"
#include "store/record.hpp"

namespace kvasir::store {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline within(Clock::duration time) { return Clock::now() + time; }

// Empty: it went well. Otherwise what went wrong, for people.
struct Status {
  std::string why;
  bool ok() const { return why.empty(); }
};

enum class Outcome : std::uint8_t {
  kAbsent,
  kFound,
  kFailed,   // nobody knows: the tier could not be asked, or did not answer in time
  kDamaged,  // there was something, but not what was stored (set by Tier)
  kForeign,  // a record of another fingerprint or version (set by Tier)
  kLate,     // the answer had not come at the caller's deadline (set by Tier)
};

struct Answer {
  Outcome outcome = Outcome::kAbsent;
  SharedBytes bytes;  // when found
};

// A record to be kept. `head` was read from `record`, which is whole.
struct Offer {
  Key key;
  SharedBytes record;
  RecordHead head;
};

enum class PutOutcome : std::uint8_t {
  kStored,
  kKept,     // the same record was there already
  kRefused,  // too large, or there is no room that it may take
  kFailed,
};

struct Listed {
  Key key;
  std::uint64_t bytes = 0;  // of the record
  // What the backend knows besides, 0 where it does not: uses, and the times of the put and of the last use in seconds
  // since 1970. Uses reach a backend's books in batches, so the last of them may be missing.
  std::uint32_t uses = 0;
  std::int64_t written = 0, used = 0;
};

// A chunk as a scan shows it.
struct Seen {
  Key key;
  RecordHead head;
  std::vector<std::int32_t> ids;
  std::int64_t used = 0;  // as Listed has it
};

// As far as the backend knows; for a shared one this is what all its users did.
struct Usage {
  std::uint64_t bytes = 0;   // that the budget counts: records and what it takes to find them
  std::uint64_t budget = 0;  // 0: no bound that this side knows of
  std::uint64_t records = 0;
  std::uint64_t evictions = 0;  // by this backend, since it was opened
  std::uint64_t pinned_bytes = 0;
};

struct Traits {
  // Answers from memory: Tier calls it in the caller's thread and starts none.
  bool immediate = false;
  // Threads that may wait in get at once to some avail.
  int readers = 1;
  // `scan` is worth calling.
  bool scans = false;
  // To tools, too, reading a record is a use of it: they ask for ages (list_ages) before they read.
  bool looking_is_use = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Traits traits() const = 0;

  // Fills in one answer per key, in order; returns a Status that is not ok when any of them is kFailed. A hit counts as
  // a use of the record. Keys of one batch usually are a chain, parents first.
  virtual Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) = 0;
  // kAbsent, kFound or kFailed per key; no use of the record.
  virtual Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) = 0;
  // One outcome per offer; a record that is there is replaced. The order is parents first. To make room, records that
  // save least per byte go first, and no record before those that name it as their parent.
  virtual Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) = 0;
  // Also pinned records, and records that have children. Absent keys are fine.
  virtual Status erase(std::span<const Key> keys, Deadline deadline) = 0;
  // Counts as a use; a hint.
  virtual Status touch(std::span<const Key> keys, Deadline deadline) = 0;
  // Erases everything that `list` would show.
  virtual Status clear(Deadline deadline) = 0;
  // Calls `each` until it returns false. Records that come or go meanwhile may or may not be seen.
  virtual Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline) = 0;
  // The same, but no use of any record: bytes and uses may be left out for that.
  virtual Status list_ages(FunctionRef<bool(const Listed&)> each, Deadline deadline) { return list(each, deadline); }
  // Calls `each` with every readable chunk until it returns false, and reads no payloads: no use of any record. Not ok
  // when the backend cannot do that, or the deadline has passed: then not all were shown.
  virtual Status scan(FunctionRef<bool(const Seen&)> each, Deadline deadline);
  // Records that are pinned are not evicted before `until`. Keys that are absent are passed over; not ok when
  // the backend pins nothing, or no more than it has pinned already.
  virtual Status pin(std::span<const Key> keys, Clock::time_point until);
  virtual Status unpin(std::span<const Key> keys);
  virtual Usage usage() = 0;
  // What was put is safe from the end of this process, and as far as the backend can see to it of the machine.
  virtual Status sync(Deadline deadline) = 0;
};

inline Status Backend::scan(FunctionRef<bool(const Seen&)> /*each*/, Deadline /*deadline*/) {
  return {"this tier cannot be scanned"};
}
inline Status Backend::pin(std::span<const Key> /*keys*/, Clock::time_point /*until*/) {
  return {"this tier cannot pin records"};
}
inline Status Backend::unpin(std::span<const Key> /*keys*/) { return {"this tier cannot pin records"}; }

// What stands behind the colon of a tier's specification.
enum class Place {
  kNone,    // nothing: "ram:"
  kFolder,  // a folder, made if need be: "lmdb:/var/cache/kvasir"
  kServer,  // "redis:host:port"
};

class Spec;

struct TierKind {
  const char* summary;
  const char* usage;  // "lmdb:FOLDER?size=10GiB"
  Place place;
  // Asks for its options, calls spec.finish(), then opens. Throws Error(kBadInput) for what the specification says,
  // Error(kUnsupported) when this build lacks a library (naming its package), Error(kIo) when the place cannot be used.
  // A server that does not answer now is no error.
  std::unique_ptr<Backend> (*open)(Spec& spec);
  // The records are in the memory of the process that opened it, so that no other can look at them.
  bool private_memory = false;
  // Of a folder, both or none: the file by which tools know that it holds such records, and the option with which they
  // open it.
  const char* file = nullptr;
  const char* inspect = nullptr;
};

std::span<const Entry<TierKind>> tiers();

}  // namespace kvasir::store
