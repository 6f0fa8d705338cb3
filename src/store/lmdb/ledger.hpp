// The records of a database and the tables that eviction needs, within one writing transaction. A transaction is
// written completely or not at all. So totals and order fit the records, whenever a process dies. Layouts:
// docs/formats/lmdb.md.
#pragma once

#include <cstdint>
#include <optional>

#include "store/backend.hpp"
#include "store/lmdb/database.hpp"

namespace kvasir::store::lmdb {

constexpr std::uint32_t kLedgerVersion = 2;

struct Row {
  std::uint64_t charge;  // bytes of the file that the record takes
  double priority;
  std::uint32_t uses;
  float cost;
  std::byte parent[32];
  // Seconds since 1970; 0 in rows of version 1, which end before them.
  std::uint32_t written;
  std::uint32_t used;
};
constexpr std::size_t kRowBytes1 = 56;
static_assert(sizeof(Row) == kRowBytes1 + 8);

struct Totals {
  std::uint32_t version = kLedgerVersion;
  std::uint32_t zero = 0;
  std::uint64_t charge = 0;
  std::uint64_t records = 0;
  std::uint64_t evictions = 0;  // by all processes
  double age = 0;
};
static_assert(sizeof(Totals) == 40);

class Ledger {
 public:
  // Throws Failure, as all its functions; Failure{MDB_VERSION_MISMATCH} for a ledger of another version.
  Ledger(const Database::Transaction& transaction, std::uint64_t page_size);

  const Totals& totals() const { return totals_; }
  // kStored, kKept, kRefused. `limit`: bytes that all records may take. `evicted` is counted up.
  PutOutcome put(const Offer& offer, std::uint64_t limit, std::uint64_t* evicted);
  bool remove(const Key& key);  // false: absent
  void use(const Key& key, std::uint32_t times);
  bool evict_one();  // false: nothing may go
  std::uint64_t charge_of(std::uint64_t record_bytes) const;
  // A record that is held counts as having a child, so it is not evicted.
  void hold(const Key& key) { add_child(key); }
  void release(const Key& key) { drop_child(key); }
  void clear();
  void save();  // writes the totals; the last call before commit

  // Reading a row does not count as a use of the record.
  static std::optional<Row> read_row(const Database::Transaction& transaction, const Key& key);
  static std::optional<Totals> read_totals(const Database::Transaction& transaction);

 private:
  std::optional<Row> row(const Key& key) const;
  void save_row(const Key& key, const Row& row);
  std::uint32_t children(const Key& key) const;
  void set_children(const Key& key, std::uint32_t n);
  void add_child(const Key& parent);
  void drop_child(const Key& parent);
  void into_order(const Key& key, const Row& row);
  void out_of_order(const Key& key, const Row& row);

  MDB_txn* const txn_;
  const Database::Tables& tables_;
  const std::uint64_t page_size_;
  Totals totals_;
};

}  // namespace kvasir::store::lmdb
