// One LMDB environment and its transactions. Rules of LMDB that this file keeps: an environment is opened once per
// process and is not used after fork; opening and closing are not done by two processes at once; the size of the map
// changes only while this process has no transaction.
#pragma once

#include <lmdb.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "store/backend.hpp"

namespace kvasir::store::lmdb {

// What LMDB said; thrown and caught within this folder and its tier.
struct Failure {
  int code;
};
inline void check(int code) {
  if (code != 0) throw Failure{code};
}
std::string describe(int code);

inline MDB_val value_of(std::span<const std::byte> bytes) {
  return {bytes.size(), const_cast<std::byte*>(bytes.data())};
}
inline std::span<const std::byte> bytes_of(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

class Database {
 public:
  struct Tables {
    MDB_dbi records;   // key -> record
    MDB_dbi rows;      // key -> Row
    MDB_dbi order;     // priority, key -> nothing: what may be evicted, first to go first
    MDB_dbi children;  // key -> how many records name it as their parent (u32)
    MDB_dbi totals;    // "totals" -> Totals
  };

  // A transaction: ends (a writing one without effect) with this object unless it was committed.
  class Transaction {
   public:
    Transaction(Database& database, bool writes);  // throws Failure
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit();  // throws Failure; the transaction is over either way
    MDB_txn* get() const { return txn_; }
    const Tables& tables() const { return database_.tables_; }

   private:
    Database& database_;
    MDB_txn* txn_ = nullptr;
  };

  // kServe makes folder and tables if need be. kInspect makes nothing: there must be a database of ours, whose own size
  // is kept (`size` is not looked at).
  enum class Mode { kServe, kInspect };
  // Throws Error(kIo) naming the folder; Error(kBadInput) when it holds something else, or when this process has it
  // open already.
  Database(const std::string& folder, std::uint64_t size, Mode mode = Mode::kServe);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  std::uint64_t map_size() const;
  std::uint64_t page_size() const { return page_size_; }
  std::uint64_t file_pages() const;  // that were ever in use
  void sync();                       // throws Failure
  void reap_dead_readers();          // of processes that ended without saying so

 private:
  struct Claim;  // of the folder by this process
  void open(const std::string& folder, std::uint64_t size, Mode mode);
  void repair_length(const std::string& folder);
  void open_tables(const std::string& folder, Mode mode);
  int begin(bool writes, MDB_txn** txn);
  void end();

  std::unique_ptr<Claim> claim_;
  std::string lock_path_;
  MDB_env* env_ = nullptr;
  Tables tables_{};
  std::uint64_t page_size_ = 4096;
  std::mutex gate_;
  int active_ = 0;  // transactions of this process
};

}  // namespace kvasir::store::lmdb
