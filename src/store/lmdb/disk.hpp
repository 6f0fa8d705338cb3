// Records in an LMDB database: what the tier `lmdb` is made of. Several processes may have one database open.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "store/backend.hpp"
#include "store/lmdb/database.hpp"
#include "store/lmdb/ledger.hpp"

namespace kvasir::store::lmdb {

// The file never grows beyond `size`. An eighth of it stays free for what a transaction copies and for pages that
// readers of older states still hold; when that is not enough (readers that stay for long, space in pieces) the share
// for records shrinks for a while.
class Disk : public Backend {
 public:
  // In Mode::kInspect reading counts as no use, and `size` is that of the database.
  Disk(const std::string& folder, std::uint64_t size, Database::Mode mode = Database::Mode::kServe);
  ~Disk() override;

  Traits traits() const override { return {.immediate = false, .readers = 2, .scans = true}; }
  // Records of at least a page are not copied: the answers share a snapshot of the database.
  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override;
  Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) override;
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override;
  Status erase(std::span<const Key> keys, Deadline deadline) override;
  Status touch(std::span<const Key> keys, Deadline deadline) override;
  Status clear(Deadline deadline) override;
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline) override;
  Status scan(FunctionRef<bool(const Seen&)> each, Deadline deadline) override;
  Usage usage() override;
  Status sync(Deadline deadline) override;

 private:
  using Uses = std::unordered_map<Key, std::uint32_t>;
  template <class F>
  Status guarded(F&& work);
  template <class Shown, class Look>
  Status walk(Look look, FunctionRef<bool(const Shown&)> each, Deadline deadline);
  template <class F>
  void write(F&& work);  // one transaction, with the uses that were noted
  void put_batch(std::span<const Offer> offers, std::span<PutOutcome> outcomes);
  bool put_once(std::span<const Offer> offers, std::span<PutOutcome> outcomes);
  void make_space(std::span<const Offer> offers);
  void shrink(std::uint64_t limit);
  void note_use(const Key& key);
  std::uint64_t full_limit() const { return size_ - size_ / 8; }

  const Database::Mode mode_;
  const std::shared_ptr<Database> shared_;  // with the records that were handed out: those outlive this object
  Database& database_;
  const std::uint64_t size_;
  std::mutex write_mutex_;       // one writer of this process at a time, and it holds what follows
  std::uint64_t limit_;          // bytes that records may take now
  bool disk_full_ = false;       // found in the current put
  Clock::time_point grow_at_{};  // what shrank grows back from then on
  Clock::time_point next_reap_{};
  std::atomic<std::uint64_t> evictions_{0};
  std::mutex uses_mutex_;
  Uses uses_;  // hits that the database does not know of yet
};

}  // namespace kvasir::store::lmdb
