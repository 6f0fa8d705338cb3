// The database looked at by tools, and as earlier versions left it.
#include "store/lmdb/disk.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/patience_fixture.hpp"
#include "store/store_fixture.hpp"

namespace kvasir::store::lmdb {
namespace {

namespace fs = std::filesystem;
using Mode = Database::Mode;

constexpr std::uint64_t kSize = 8 << 20;

void put(Disk& disk, const store::TestChain& chain) {
  for (std::size_t i = 0; i < chain.keys.size(); ++i) {
    const Offer offer{chain.keys[i], chain.records[i], parse_record(chain.records[i].bytes).record.head};
    PutOutcome outcome{};
    ASSERT_TRUE(disk.put(std::span(&offer, 1), within(5s), std::span(&outcome, 1)).ok());
  }
}

std::vector<Listed> listed(Disk& disk) {
  std::vector<Listed> all;
  EXPECT_TRUE(disk.list([&](const Listed& l) { return all.push_back(l), true; }, within(5s)).ok());
  return all;
}

std::string refusal(const std::string& folder) {
  try {
    Disk disk(folder, 0, Mode::kInspect);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    return e.what();
  }
  return "";
}

int files_in(const std::string& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(DiskInspection, MakesNothing) {
  const TempFolder folder;
  EXPECT_NE(refusal(folder.path() + "/none").find("/none: "), std::string::npos);
  EXPECT_FALSE(fs::exists(folder.path() + "/none"));
  EXPECT_NE(refusal(folder.path()).find("holds no cache"), std::string::npos);
  EXPECT_EQ(files_in(folder.path()), 0);
  std::ofstream(folder.path() + "/data.mdb").flush();
  EXPECT_NE(refusal(folder.path()).find("empty"), std::string::npos);
  EXPECT_EQ(files_in(folder.path()), 1);
  std::ofstream(folder.path() + "/data.mdb") << std::string(100000, 'x');
  EXPECT_NE(refusal(folder.path()).find("move data.mdb away"), std::string::npos);
  EXPECT_EQ(fs::file_size(folder.path() + "/data.mdb"), 100000u);
}

TEST(DiskInspection, IsNoUse) {
  const TempFolder folder;
  const store::TestChain chain(1, 3, 20000);
  {
    Disk disk(folder.path(), kSize);
    put(disk, chain);
  }
  {
    Disk disk(folder.path(), 0, Mode::kInspect);
    EXPECT_EQ(disk.usage().budget, kSize) << "its own size";
    std::vector<Answer> answers(3);
    ASSERT_TRUE(disk.get(chain.keys, within(5s), answers).ok());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bytes(answers[i].bytes, chain.records[i]));
  }
  Disk disk(folder.path(), kSize);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  for (const Listed& l : listed(disk)) {
    EXPECT_EQ(l.uses, 1u);
    EXPECT_LE(l.written, now.count());
    EXPECT_GE(l.written, now.count() - 60);
    EXPECT_EQ(l.used, l.written);
  }
  std::vector<Answer> answers(3);
  ASSERT_TRUE(disk.get(chain.keys, within(5s), answers).ok());
  ASSERT_TRUE(disk.sync(within(5s)).ok());
  for (const Listed& l : listed(disk)) EXPECT_EQ(l.uses, 2u);
}

// Beside a process that writes: records come and go, and nothing that is seen is wrong.
TEST(DiskInspection, WorksBesideAWriter) {
  const TempFolder folder;
  { Disk make(folder.path(), kSize); }
  int until[2];  // the writer goes on until the other end is closed
  ASSERT_EQ(::pipe2(until, O_NONBLOCK), 0);
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::close(until[1]);
    {
      Disk disk(folder.path(), kSize);
      char none;
      for (std::uint64_t seed = 0; ::read(until[0], &none, 1) < 0; ++seed) put(disk, store::TestChain(seed, 3, 30000));
    }
    ::_exit(0);
  }
  ::close(until[0]);
  int seen = 0, cleared = 0;
  const auto end = within(kPatience);
  while ((seen < 200 || cleared < 3) && Clock::now() < end) {
    Disk disk(folder.path(), 0, Mode::kInspect);
    const int before = seen;
    for (const Listed& l : listed(disk)) {
      std::vector<Answer> answer(1);
      EXPECT_TRUE(disk.get(std::span(&l.key, 1), within(5s), answer).ok());
      if (answer[0].outcome != Outcome::kFound) continue;
      EXPECT_TRUE(parse_record(answer[0].bytes.bytes));
      ++seen;
    }
    if (seen == before) continue;
    EXPECT_TRUE(disk.clear(within(5s)).ok());
    ++cleared;
  }
  ::close(until[1]);
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_GE(seen, 200);
  EXPECT_GE(cleared, 3);
}

// Rows of version 1 end before the times.
TEST(DiskVersions, OneIsReadAndBecomesTwo) {
  const TempFolder folder;
  const store::TestChain chain(1, 3, 20000);
  {
    Disk disk(folder.path(), kSize);
    put(disk, chain);
  }
  {
    Database database(folder.path(), kSize);
    Database::Transaction t(database, true);
    for (const Key& k : chain.keys) {
      Row row = Ledger::read_row(t, k).value();
      MDB_val key = value_of(k.bytes), value{kRowBytes1, &row};
      check(::mdb_put(t.get(), t.tables().rows, &key, &value, 0));
    }
    Totals totals = Ledger::read_totals(t).value();
    totals.version = 1;
    MDB_val key{6, const_cast<char*>("totals")}, value{sizeof totals, &totals};
    check(::mdb_put(t.get(), t.tables().totals, &key, &value, 0));
    t.commit();
  }
  Disk disk(folder.path(), kSize);
  for (const Listed& l : listed(disk)) {
    EXPECT_EQ(l.uses, 1u);
    EXPECT_EQ(l.written, 0);
    EXPECT_EQ(l.used, 0);
  }
  std::vector<Answer> answers(3);
  ASSERT_TRUE(disk.get(chain.keys, within(5s), answers).ok());
  ASSERT_TRUE(disk.sync(within(5s)).ok());
  for (const Listed& l : listed(disk)) {
    EXPECT_EQ(l.uses, 2u);
    EXPECT_EQ(l.written, 0);
    EXPECT_GT(l.used, 0);
  }
  EXPECT_TRUE(disk.erase(chain.keys, within(5s)).ok());
  EXPECT_EQ(disk.usage().records, 0u);
}

TEST(DiskVersions, AnotherDatabaseIsLeftAlone) {
  const TempFolder folder;
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi table = 0;
  ASSERT_EQ(::mdb_env_create(&env), 0);
  ASSERT_EQ(::mdb_env_set_maxdbs(env, 4), 0);
  ASSERT_EQ(::mdb_env_open(env, folder.path().c_str(), 0, 0600), 0);
  ASSERT_EQ(::mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(::mdb_dbi_open(txn, "theirs", MDB_CREATE, &table), 0);
  ASSERT_EQ(::mdb_txn_commit(txn), 0);
  ::mdb_env_close(env);
  EXPECT_NE(refusal(folder.path()).find("something else"), std::string::npos);
  EXPECT_THROW(Disk(folder.path(), kSize), Error);
}

}  // namespace
}  // namespace kvasir::store::lmdb
