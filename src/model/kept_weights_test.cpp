#include "model/kept_weights.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "model/hparams.hpp"
#include "model/model.hpp"
#include "model/reference_fixture.hpp"
#include "model/synth.hpp"

namespace kvasir::model {
namespace {

namespace fs = std::filesystem;

class KeptWeightsTest : public ::testing::Test {
 protected:
  KeptWeightsTest() { fs::remove_all(folder_); }
  ~KeptWeightsTest() override { fs::remove_all(folder_); }

  KeepWeights keep(std::int64_t bytes) {
    return {.folder = folder_, .bytes = bytes, .note = [this](const std::string& note) {
              const std::lock_guard lock(mutex_);
              notes_.push_back(note);
            }};
  }
  // Blocks of these sizes with the bytes of `seed`; as write() leaves them, and whether read() found them.
  bool use(const std::vector<std::int64_t>& sizes, unsigned seed, std::int64_t most = 1 << 24) {
    std::vector<std::vector<std::byte>> blocks;
    std::vector<std::byte*> places;
    for (const std::int64_t n : sizes) places.push_back(blocks.emplace_back(static_cast<std::size_t>(n)).data());
    KeptWeights kept(keep(most), print(seed), sizes, places);
    const bool found = kept.read(team_);
    for (std::size_t b = 0; b < blocks.size(); ++b)
      for (std::size_t i = 0; i < blocks[b].size(); ++i) {
        const auto want = static_cast<std::byte>((i * 31 + b * 7 + seed) >> (i % 3));
        if (found)
          EXPECT_EQ(blocks[b][i], want) << "block " << b << " byte " << i;
        else
          blocks[b][i] = want;
        if (::testing::Test::HasFailure()) return found;
      }
    if (!found) kept.write();
    return found;
  }
  static weights::PackedFingerprint print(unsigned seed) {
    return weights::packed_fingerprint("model " + std::to_string(seed));
  }
  fs::path file(unsigned seed) const { return fs::path(folder_) / (weights::hex_of(print(seed)) + ".packed"); }

  const std::string folder_ = ::testing::TempDir() + "kvasir-kept-" + std::to_string(getpid());
  std::mutex mutex_;
  std::vector<std::string> notes_;
  Team team_{3};
};

TEST_F(KeptWeightsTest, TheNextStartReadsWhatTheFirstOnePacked) {
  const std::vector<std::int64_t> sizes{64, 3 << 20, 4096, (1 << 20) + 192, 1 << 20, 128};
  EXPECT_FALSE(use(sizes, 1));
  EXPECT_TRUE(use(sizes, 1));
  EXPECT_FALSE(use(sizes, 2)) << "another model's";
  EXPECT_TRUE(use(sizes, 2));
  EXPECT_TRUE(use(sizes, 1));
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_NE(notes_[0].find("kept for the next start"), std::string::npos) << notes_[0];
}

TEST_F(KeptWeightsTest, DamagedFilesAreMadeAgain) {
  const std::vector<std::int64_t> sizes{5000, 2 << 20};
  EXPECT_FALSE(use(sizes, 1));
  {
    std::fstream f(file(1), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(-1000, std::ios::end);
    f.put('!');
  }
  EXPECT_FALSE(use(sizes, 1));
  ASSERT_EQ(notes_.size(), 3u);
  EXPECT_NE(notes_[1].find("damaged"), std::string::npos) << notes_[1];
  EXPECT_TRUE(use(sizes, 1));
  fs::resize_file(file(1), 100);
  EXPECT_FALSE(use(sizes, 1));
  EXPECT_TRUE(use(sizes, 1));
}

TEST_F(KeptWeightsTest, TheLeastRecentlyUsedLeaves) {
  const std::vector<std::int64_t> sizes{1 << 20};
  const std::int64_t most = 5 << 19;  // two files, not three
  EXPECT_FALSE(use(sizes, 1, most));
  EXPECT_FALSE(use(sizes, 2, most));
  fs::last_write_time(file(2), fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::last_write_time(file(1), fs::file_time_type::clock::now() - std::chrono::hours(3));
  EXPECT_TRUE(use(sizes, 1, most));  // and so it was used last
  EXPECT_FALSE(use(sizes, 3, most));
  EXPECT_TRUE(fs::exists(file(1)));
  EXPECT_FALSE(fs::exists(file(2)));
  EXPECT_TRUE(fs::exists(file(3)));
}

// A process that is killed while it writes leaves a part; the next writer takes it away, and leaves that of one that
// lives.
TEST_F(KeptWeightsTest, PartsOfKilledWritersGo) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);  // so nobody has its number
  fs::create_directories(folder_);
  const fs::path dead = file(9).string() + ".partial." + std::to_string(child);
  const fs::path alive = file(9).string() + ".partial." + std::to_string(getpid());
  for (const fs::path& p : {dead, alive}) std::ofstream(p) << "part";
  EXPECT_FALSE(use({4096}, 1));
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(use({4096}, 1));
}

TEST_F(KeptWeightsTest, WhatDoesNotFitIsNotKept) {
  EXPECT_FALSE(use({1 << 20}, 1, 1 << 19));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("--keep-weights"), std::string::npos) << notes_[0];
  EXPECT_FALSE(fs::exists(file(1)));
  std::ofstream(folder_ + ".file") << "no folder";
  KeepWeights none = keep(1 << 24);
  none.folder = folder_ + ".file";
  std::vector<std::byte> block(4096);
  {
    KeptWeights kept(none, print(1), {4096}, {block.data()});
    EXPECT_FALSE(kept.read(team_));
    kept.write();
  }
  EXPECT_NE(notes_.back().find("not kept"), std::string::npos) << notes_.back();
  fs::remove(folder_ + ".file");
}

}  // namespace
}  // namespace kvasir::model
