#include "store/lmdb/database.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace kvasir::store::lmdb {
namespace {

constexpr unsigned kMaxReaders = 1024;
// A commit writes and syncs the data, then writes the page that names it without waiting for the disk. After a crash of
// the machine the database is the one before or the one after; never damaged.
constexpr unsigned kFlags = MDB_NOTLS | MDB_NOMETASYNC;
// Pages at the end that were handed out but never written are normal; more that are missing are not.
constexpr std::uint64_t kUnwrittenPages = 64;

// Held while an environment is opened or closed.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

void expect_database(const std::string& folder) {
  std::error_code failed;
  const std::string file = folder + "/data.mdb";
  if (!std::filesystem::is_directory(folder, failed))
    throw Error(Code::kBadInput, failed ? failed.message() : "is no folder, expected the folder of a cache", folder);
  const auto bytes = std::filesystem::file_size(file, failed);
  if (failed || bytes == 0)
    throw Error(Code::kBadInput, "holds no cache (data.mdb: " + (failed ? failed.message() : "empty") + ")", folder);
}

using Identity = std::pair<dev_t, ino_t>;
std::mutex claims_mutex;
std::set<Identity>& claims() {
  static std::set<Identity> all;
  return all;
}

}  // namespace

std::string describe(int code) {
  switch (code) {
    case MDB_MAP_FULL:
      return "the database has no room";
    case MDB_READERS_FULL:
      return "too many readers of the database";
    case MDB_MAP_RESIZED:
      return "another process made the database larger, and records that are still in use keep this one from following";
    default:
      return ::mdb_strerror(code);
  }
}

struct Database::Claim {
  explicit Claim(const std::string& folder) {
    struct stat st {};
    if (::stat(folder.c_str(), &st) != 0) throw Error(Code::kIo, std::strerror(errno), folder);
    identity = {st.st_dev, st.st_ino};
    const std::lock_guard lock(claims_mutex);
    if (!claims().insert(identity).second)
      throw Error(Code::kBadInput, "is open in this process already; share the tier instead of opening it twice",
                  folder);
  }
  ~Claim() {
    const std::lock_guard lock(claims_mutex);
    claims().erase(identity);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  Identity identity;
};

Database::Transaction::Transaction(Database& database, bool writes) : database_(database) {
  check(database_.begin(writes, &txn_));
}

Database::Transaction::~Transaction() {
  if (!txn_) return;
  ::mdb_txn_abort(txn_);
  database_.end();
}

void Database::Transaction::commit() {
  const int code = ::mdb_txn_commit(std::exchange(txn_, nullptr));
  database_.end();
  check(code);
}

Database::Database(const std::string& folder, std::uint64_t size, Mode mode) {
  std::error_code failed;
  if (mode == Mode::kServe) std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(Code::kIo, "cannot make the folder: " + failed.message(), folder);
  if (mode == Mode::kInspect) expect_database(folder);
  claim_ = std::make_unique<Claim>(folder);
  lock_path_ = folder + "/open.lock";
  const FileLock lock(lock_path_);
  if (!lock.ok()) throw Error(Code::kIo, std::string("cannot write here: ") + std::strerror(errno), folder);
  try {
    open(folder, size, mode);
  } catch (const Failure& f) {
    if (env_) ::mdb_env_close(env_);
    const bool foreign = f.code == MDB_INVALID || f.code == MDB_VERSION_MISMATCH || f.code == MDB_CORRUPTED;
    throw Error(foreign ? Code::kBadInput : Code::kIo,
                "cannot open the LMDB database: " + describe(f.code) + (foreign ? "; move data.mdb away" : ""), folder);
  } catch (...) {
    if (env_) ::mdb_env_close(env_);
    throw;
  }
}

void Database::open(const std::string& folder, std::uint64_t size, Mode mode) {
  check(::mdb_env_create(&env_));
  check(::mdb_env_set_maxdbs(env_, 8));
  check(::mdb_env_set_maxreaders(env_, kMaxReaders));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (mode == Mode::kServe) check(::mdb_env_set_mapsize(env_, size / page * page));
  // What is kept are people's prompts: nobody else may read them.
  check(::mdb_env_open(env_, folder.c_str(), kFlags, 0600));
  MDB_stat stat;
  check(::mdb_env_stat(env_, &stat));
  page_size_ = stat.ms_psize;
  repair_length(folder);
  reap_dead_readers();
  open_tables(folder, mode);
}

// Reading the map behind the end of a file kills the process, so a file that was cut is found here.
void Database::repair_length(const std::string& folder) {
  struct stat st {};
  const std::string path = folder + "/data.mdb";
  if (::stat(path.c_str(), &st) != 0) throw Error(Code::kIo, std::strerror(errno), path);
  const std::uint64_t wanted = file_pages() * page_size_;
  const auto there = static_cast<std::uint64_t>(st.st_size);
  if (there >= wanted) return;
  if (wanted - there > kUnwrittenPages * page_size_)
    throw Error(Code::kBadInput,
                "is " + std::to_string(wanted - there) + " bytes shorter than its directory says; move it away", path);
  if (::truncate(path.c_str(), static_cast<off_t>(wanted)) != 0)
    throw Error(Code::kIo, std::string("cannot extend: ") + std::strerror(errno), path);
}

void Database::open_tables(const std::string& folder, Mode mode) {
  Transaction t(*this, mode == Mode::kServe);
  MDB_dbi names = 0, totals = 0;
  MDB_stat stat;
  check(::mdb_dbi_open(t.get(), nullptr, 0, &names));
  check(::mdb_stat(t.get(), names, &stat));
  if (stat.ms_entries > 0 || mode == Mode::kInspect) {
    const int code = ::mdb_dbi_open(t.get(), "totals", 0, &totals);
    if (code == MDB_NOTFOUND || code == MDB_INCOMPATIBLE)
      throw Error(Code::kBadInput, "is an LMDB database of something else, expected a cache of Kvasir", folder);
    check(code);
  }
  const std::pair<const char*, MDB_dbi*> all[] = {{"records", &tables_.records},
                                                  {"rows", &tables_.rows},
                                                  {"order", &tables_.order},
                                                  {"children", &tables_.children},
                                                  {"totals", &tables_.totals}};
  for (const auto& [name, table] : all)
    check(::mdb_dbi_open(t.get(), name, mode == Mode::kServe ? MDB_CREATE : 0, table));
  t.commit();
}

Database::~Database() {
  const FileLock lock(lock_path_);
  ::mdb_env_close(env_);
}

std::uint64_t Database::map_size() const {
  MDB_envinfo info;
  ::mdb_env_info(env_, &info);
  return info.me_mapsize;
}

std::uint64_t Database::file_pages() const {
  MDB_envinfo info;
  ::mdb_env_info(env_, &info);
  return info.me_last_pgno + 1;
}

void Database::sync() { check(::mdb_env_sync(env_, 1)); }

void Database::reap_dead_readers() {
  int dead = 0;
  check(::mdb_reader_check(env_, &dead));
}

int Database::begin(bool writes, MDB_txn** txn) {
  for (int attempt = 0;; ++attempt) {
    {
      const std::lock_guard lock(gate_);
      ++active_;
    }
    int code = ::mdb_txn_begin(env_, nullptr, writes ? 0 : MDB_RDONLY, txn);
    if (code == 0) return 0;
    *txn = nullptr;
    const std::lock_guard lock(gate_);
    --active_;
    if (attempt > 0) return code;
    int dead = 0;
    if (code == MDB_READERS_FULL)
      code = ::mdb_reader_check(env_, &dead);
    else if (code == MDB_MAP_RESIZED && active_ == 0)
      code = ::mdb_env_set_mapsize(env_, 0);  // takes the size that the other process uses
    if (code != 0) return code;
  }
}

void Database::end() {
  const std::lock_guard lock(gate_);
  --active_;
}

}  // namespace kvasir::store::lmdb
