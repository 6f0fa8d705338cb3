// What only the tier `lmdb` promises: records survive the process however it ends, several processes share one
// database, the file keeps its bound, and a disk that is full is no error of the request.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "store/store_fixture.hpp"

namespace kvasir::store {
namespace {

constexpr auto kSmall = "?timeout=5s&size=8MiB";

class Lmdb : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open();
    } catch (const Error& e) {
      if (e.code() == Code::kUnsupported) GTEST_SKIP() << e.what();
      throw;
    }
  }
  std::unique_ptr<Tier> open(const std::string& options = kSmall) const {
    return open_tier("lmdb:" + folder_.path() + options);
  }
  std::string data() const { return folder_.path() + "/data.mdb"; }
  std::uint64_t file_size() const { return std::filesystem::file_size(data()); }

  // In a process of its own, which must not have inherited an open database.
  template <class F>
  pid_t child(F&& work) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 1;
    try {
      code = work();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "child: %s\n", e.what());
    }
    ::_exit(code);
  }
  static int exit_code(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  TempFolder folder_;
};

// Every record that is there is whole, has its parent, and the totals are those of the records. With several writers a
// record may lack its parent: another process can evict that one, while it has no child, before the child is written.
void check_whole(Tier& tier, const std::vector<TestChain>& chains, bool one_writer = true) {
  std::uint64_t records = 0;
  for (const TestChain& c : chains) {
    const auto found = tier.get(c.keys).take();
    bool before = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].outcome == Outcome::kFound || found[i].outcome == Outcome::kAbsent);
      EXPECT_TRUE(before || !found[i] || !one_writer) << "a child without its parent";
      before = static_cast<bool>(found[i]);
      if (!found[i]) continue;
      EXPECT_TRUE(same_bytes(found[i].bytes, c.records[i]));
      ++records;
    }
  }
  EXPECT_EQ(tier.stats().usage.records, records);
  EXPECT_EQ(tier.stats().errors, 0u) << tier.stats().last_error;
}

TEST_F(Lmdb, SurvivesARestart) {
  const TestChain a(1, 5, 40000, 9), b(2, 5, 40000, 0.1f);
  for (int round = 0; round < 3; ++round) {
    auto tier = open();
    if (round > 0) check_whole(*tier, {a, b});
    EXPECT_EQ(count_found(tier->get(a.keys).take()), round > 0 ? 5 : 0);
    for (std::size_t i = 0; i < 5; ++i) {
      tier->put(a.keys[i], a.records[i]);
      tier->put(b.keys[i], b.records[i]);
    }
  }  // closing writes what is queued
  auto tier = open();
  EXPECT_EQ(tier->stats().usage.records, 10u);
  // The order of eviction survives too: what is dear stays.
  for (std::uint64_t seed = 10; seed < 60; ++seed) {
    const TestChain c(seed, 5, 40000, 3);
    for (std::size_t i = 0; i < 5; ++i) tier->put(c.keys[i], c.records[i]);
    ASSERT_TRUE(tier->flush().ok());
    if (count_found(tier->contains(b.keys).take()) == 0) break;
  }
  EXPECT_EQ(count_found(tier->contains(b.keys).take()), 0);
  EXPECT_EQ(count_found(tier->contains(a.keys).take()), 5);
}

TEST_F(Lmdb, SurvivesKilledWriters) {
  std::vector<TestChain> chains;
  for (std::uint64_t seed = 0; seed < 60; ++seed) chains.emplace_back(seed, 4, 30000 + seed * 100);
  std::uint64_t state = 11, written = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t pid = child([&] {
      auto tier = open();
      for (std::uint64_t s = static_cast<std::uint64_t>(round);;) {
        const TestChain& c = chains[splitmix64(s) % chains.size()];
        for (std::size_t i = 0; i < 4; ++i) tier->put(c.keys[i], c.records[i]);
        if (splitmix64(s) % 4 == 0) tier->erase(c.keys);
        auto found = tier->get(c.keys).take();  // a snapshot is open when it dies
        if (!tier->flush().ok()) return 1;
      }
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + splitmix64(state) % 60));
    ::kill(pid, SIGKILL);
    EXPECT_EQ(exit_code(pid), 128 + SIGKILL);
    auto tier = open();
    check_whole(*tier, chains);
    written += tier->stats().usage.records;
    EXPECT_LE(file_size(), 8u << 20);
    const TestChain& c = chains[0];
    for (std::size_t i = 0; i < 4; ++i) tier->put(c.keys[i], c.records[i]);
    ASSERT_TRUE(tier->flush(within(5s)).ok()) << "the lock of a dead writer";
    EXPECT_EQ(count_found(tier->get(c.keys).take()), 4);
    ASSERT_TRUE(tier->erase(c.keys).ok());
  }
  EXPECT_GT(written, 20u);
}

TEST_F(Lmdb, IsSharedByProcesses) {
  std::vector<TestChain> chains;
  for (std::uint64_t seed = 0; seed < 60; ++seed) chains.emplace_back(seed, 4, 30000);
  // Each writes its half and reads everything, in a database that holds about half of all.
  const auto work = [&](std::uint64_t which) {
    auto tier = open();
    int others = 0;
    for (int round = 0; round < 40; ++round) {
      const TestChain& mine = chains[(static_cast<std::uint64_t>(round) * 2 + which) % chains.size()];
      for (std::size_t i = 0; i < 4; ++i) tier->put(mine.keys[i], mine.records[i]);
      if (!tier->flush().ok()) return 2;
      for (std::size_t c = 0; c < chains.size(); ++c) {
        const auto found = tier->get(chains[c].keys).take();
        for (std::size_t i = 0; i < 4; ++i) {
          if (found[i] && !same_bytes(found[i].bytes, chains[c].records[i])) return 3;
          if (found[i] && c % 2 != which) ++others;
        }
      }
    }
    const Stats s = tier->stats();
    if (s.errors + s.damaged + s.foreign > 0) std::fprintf(stderr, "%s\n", s.last_error.c_str());
    if (s.errors + s.damaged + s.foreign + s.dropped > 0) return 4;
    return others > 0 ? 0 : 5;
  };
  const pid_t a = child([&] { return work(0); }), b = child([&] { return work(1); });
  EXPECT_EQ(exit_code(a), 0);
  EXPECT_EQ(exit_code(b), 0);
  auto tier = open();
  check_whole(*tier, chains, false);
  EXPECT_LE(file_size(), 8u << 20);
}

// One process has the database with a larger bound: the other follows when it grows, or answers with misses while it
// cannot, and goes on.
TEST_F(Lmdb, FollowsAProcessWithALargerBound) {
  std::vector<TestChain> chains;
  for (std::uint64_t seed = 0; seed < 30; ++seed) chains.emplace_back(seed, 4, 100000);
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  char byte = 0;
  const pid_t pid = child([&] {
    auto tier = open("?timeout=5s&size=2MiB");
    if (::write(ready[1], "x", 1) != 1 || ::read(go[0], &byte, 1) != 1) return 1;
    int found = 0;
    for (const TestChain& c : chains) {
      auto answers = tier->get(c.keys).take();
      for (std::size_t i = 0; i < 4; ++i)
        if (answers[i] && !same_bytes(answers[i].bytes, c.records[i])) return 2;
      found += count_found(answers);
    }
    return found >= 100 ? 0 : 3;
  });
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  auto tier = open("?timeout=5s&size=32MiB");
  for (const TestChain& c : chains)
    for (std::size_t i = 0; i < 4; ++i) tier->put(c.keys[i], c.records[i]);
  ASSERT_TRUE(tier->flush().ok());
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  EXPECT_EQ(exit_code(pid), 0);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}

// Records that somebody holds keep their space from being used again; the file must not grow for that.
TEST_F(Lmdb, KeepsItsBoundWhileRecordsAreHeld) {
  auto tier = open("?timeout=5s&size=4MiB");
  const TestChain held(1, 10, 100000);
  for (std::size_t i = 0; i < 10; ++i) tier->put(held.keys[i], held.records[i]);
  ASSERT_TRUE(tier->flush().ok());
  const auto answers = tier->get(held.keys).take();
  ASSERT_EQ(count_found(answers), 10);
  for (std::uint64_t seed = 10; seed < 110; ++seed) {
    const TestChain c(seed, 1, 100000, 5);
    tier->put(c.keys[0], c.records[0]);
    tier->flush();
  }
  EXPECT_LE(file_size(), 4u << 20);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(same_bytes(answers[i].bytes, held.records[i]));
}

TEST_F(Lmdb, FindsRoomAgainAfterRecordsWereHeld) {
  auto tier = open("?timeout=5s&size=4MiB");
  const TestChain old(1, 20, 100000);
  for (std::size_t i = 0; i < 20; ++i) tier->put(old.keys[i], old.records[i]);
  ASSERT_TRUE(tier->flush().ok());
  {
    const auto answers = tier->get(old.keys).take();
    for (std::uint64_t seed = 10; seed < 60; ++seed) {
      const TestChain c(seed, 1, 100000, 5);
      tier->put(c.keys[0], c.records[0]);
      tier->flush();
    }
  }
  int stored = 0;
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    const TestChain c(seed, 1, 100000, 5);
    tier->put(c.keys[0], c.records[0]);
    ASSERT_TRUE(tier->flush().ok());
    stored += count_found(tier->get(c.keys).take());
  }
  EXPECT_GE(stored, 25);
}

// A limit on the size of files stands for a full disk: the system refuses to extend the file all the same.
TEST_F(Lmdb, AFullDiskIsNoFailureOfRequests) {
  const pid_t pid = child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    auto tier = open("?timeout=5s&size=64MiB");
    const rlimit small{3 << 20, 3 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
    int stored = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const TestChain c(seed, 1, 100000, 1);
      tier->put(c.keys[0], c.records[0]);
      tier->flush();
      auto found = tier->get(c.keys).take();
      if (found[0] && !same_bytes(found[0].bytes, c.records[0])) return 2;
      if (found[0].outcome == Outcome::kFailed) return 3;
      if (seed >= 100) stored += count_found(found);
    }
    if (tier->stats().last_error.find("disk is full") == std::string::npos) return 4;
    return stored >= 25 ? 0 : 5;  // it lives in what it has
  });
  EXPECT_EQ(exit_code(pid), 0);
  auto tier = open();
  EXPECT_EQ(tier->stats().errors, 0u);
  EXPECT_GT(tier->stats().usage.records, 5u);
}

TEST_F(Lmdb, RefusesWhatItCannotOpen) {
  const auto message = [&](const std::string& folder) -> std::string {
    try {
      open_tier("lmdb:" + folder);
    } catch (const Error& e) {
      return e.what();
    }
    return "opened";
  };
  {
    auto tier = open();
    EXPECT_NE(message(folder_.path()).find("open in this process already"), std::string::npos);
  }
  EXPECT_NE(message("/proc/none").find("/proc/none: cannot make the folder"), std::string::npos);
  TempFolder other;
  std::ofstream(other.path() + "/data.mdb") << std::string(100000, 'x');
  EXPECT_NE(message(other.path()).find(other.path() + ": cannot open the LMDB database: MDB_INVALID"),
            std::string::npos)
      << message(other.path());
}

TEST_F(Lmdb, RefusesAFileThatWasCut) {
  {
    auto tier = open();
    const TestChain c(1, 20, 100000);
    for (std::size_t i = 0; i < 20; ++i) tier->put(c.keys[i], c.records[i]);
  }
  ASSERT_EQ(::truncate(data().c_str(), static_cast<off_t>(file_size() / 2)), 0);
  EXPECT_THROW(open(), Error);
}

// Bytes of the file that changed under a record make it a miss.
TEST_F(Lmdb, ADamagedRecordIsAMiss) {
  const TestChain c(1, 20, 100000);
  {
    auto tier = open();
    for (std::size_t i = 0; i < 20; ++i) tier->put(c.keys[i], c.records[i]);
  }
  const auto whole = noise(100000, 1000 + 7);  // the payload of record 7
  std::fstream file(data(), std::ios::in | std::ios::out | std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t at = text.find(std::string(reinterpret_cast<const char*>(whole.data()), 64));
  ASSERT_NE(at, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at + 50000));
  file.put(static_cast<char>(text[at + 50000] ^ 1));
  file.close();
  auto tier = open();
  const auto found = tier->get(c.keys).take();
  EXPECT_EQ(count_found(found), 19);
  EXPECT_EQ(found[7].outcome, Outcome::kDamaged);
}

TEST_F(Lmdb, OthersCannotReadIt) {
  struct stat st {};
  ASSERT_EQ(::stat(data().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace kvasir::store
