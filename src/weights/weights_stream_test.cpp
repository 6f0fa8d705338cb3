// Blocks that come from a file while others are used, by both ways of reading and from disks that fail.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "weights/faulty_reads_fixture.hpp"
#include "weights/stream.hpp"

namespace kvasir::weights {
namespace {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyReads;

class Streams : public ::testing::Test {
 protected:
  Streams() : path_((fs::temp_directory_path() / ("kvasir-stream-" + std::to_string(::getpid()))).string()) {
    std::mt19937 random(1);
    for (int i = 0; i < 9; ++i) sizes_.push_back(1 + static_cast<std::int64_t>(random() % (5 * kPieceBytes / 2)));
    write_packed_file(path_, print_, sizes_, [&](int block, std::span<std::byte> to) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = at(block, i);
    });
    file_ = std::make_unique<PackedFile>(path_, print_, sizes_);
  }
  ~Streams() override { fs::remove(path_); }
  static std::byte at(int block, std::size_t i) { return static_cast<std::byte>(97 * block + 1 + i % 253 + i / 4096); }
  std::int64_t room(const std::vector<int>& blocks) const {
    std::vector<std::int64_t> bytes;
    for (const int b : blocks) bytes.push_back(file_->layout().bytes[static_cast<std::size_t>(b)]);
    return Ring::least_room(bytes);
  }
  // Goes through `order` (places in `blocks`), each held until the one behind it is there, and looks at the bytes.
  void go(Stream& stream, const std::vector<int>& blocks, const std::vector<int>& order) const {
    int held = -1;
    for (const int i : order) {
      const std::byte* const bytes = stream.acquire(i);
      const int block = blocks[static_cast<std::size_t>(i)];
      for (std::int64_t k = 0; k < sizes_[static_cast<std::size_t>(block)]; k += 509)
        ASSERT_EQ(bytes[k], at(block, static_cast<std::size_t>(k))) << "block " << block << " at " << k;
      if (held >= 0) stream.release(held);
      held = i;
    }
    stream.release(held);
  }

  const std::string path_;
  std::vector<std::int64_t> sizes_;
  const PackedFingerprint print_ = packed_fingerprint("a model");
  std::unique_ptr<PackedFile> file_;
  const std::vector<int> all_{0, 1, 2, 3, 4, 5, 6, 7, 8}, some_{1, 2, 5, 8};
};

std::vector<int> passes(int count, int length) {
  std::vector<int> order;
  for (int p = 0; p < count; ++p)
    for (int i = 0; i < length; ++i) order.push_back(i);
  return order;
}

TEST_F(Streams, EveryWayOfReadingGivesTheBytes) {
  for (const auto open : {&open_uring, &open_threads, &open_reads}) {
    auto reads = open(path_);
    if (!reads) continue;  // io_uring is not here
    SCOPED_TRACE(reads->name());
    std::vector<std::byte> room_of(4 * kPieceBytes + kBlockAlign);
    auto* const aligned = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(
        padded(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(room_of.data())))));
    for (const int b : all_) {
      read_block(*file_, *reads, b, aligned);
      for (std::int64_t k = 0; k < sizes_[static_cast<std::size_t>(b)]; k += 509)
        ASSERT_EQ(aligned[k], at(b, static_cast<std::size_t>(k)));
    }
    for (const auto& blocks : {all_, some_}) {
      Stream stream(*file_, blocks, room(blocks), open(path_));
      go(stream, blocks, passes(4, static_cast<int>(blocks.size())));
      const StreamStats f = stream.stats();
      EXPECT_EQ(f.blocks, 4 * blocks.size());
      EXPECT_EQ(f.restarts, 0u);
      EXPECT_EQ(f.retries, 0u);
      std::uint64_t bytes = 0;
      for (const int b : blocks)
        bytes += static_cast<std::uint64_t>(file_->layout().bytes[static_cast<std::size_t>(b)]);
      EXPECT_GE(f.bytes_read, 4 * bytes);
      EXPECT_GT(f.busy_seconds, 0);
    }
  }
}

// A ring that the system takes away (here: its descriptor is closed) aborts nothing: what it had is read otherwise, or
// said to be lost.
TEST_F(Streams, ARingThatFailsIsSlowerAndNeverWrong) {
  auto reads = open_uring(path_);
  if (!reads) GTEST_SKIP() << "io_uring is not here";
  int ring = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string target = std::filesystem::read_symlink(entry.path(), none).string();
    if (target.find("io_uring") != target.npos) ring = std::stoi(entry.path().filename().string());
  }
  ASSERT_GE(ring, 0);
  // The descriptor goes on as another one's, so that nothing that the ring's owner does later closes a stranger.
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::dup3(null, ring, O_CLOEXEC), ring);
  ::close(null);
  std::vector<std::byte> room_of(4 * kPieceBytes + kBlockAlign);
  auto* const aligned = reinterpret_cast<std::byte*>(
      static_cast<std::uintptr_t>(padded(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(room_of.data())))));
  for (const int b : all_) {
    read_block(*file_, *reads, b, aligned);
    for (std::int64_t k = 0; k < sizes_[static_cast<std::size_t>(b)]; k += 509)
      ASSERT_EQ(aligned[k], at(b, static_cast<std::size_t>(k)));
  }
}

// Passes that stop early and begin anywhere, with rooms of all sizes.
TEST_F(Streams, PassesThatJumpGetTheirBytes) {
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    Stream stream(*file_, all_, room(all_) + static_cast<std::int64_t>(random() % 4) * kPieceBytes, open_reads(path_));
    for (int pass = 0; pass < 6; ++pass) {
      std::vector<int> order;
      const int from = pass % 2 ? 0 : static_cast<int>(random() % 9);
      for (int b = from; b < 9 && (b == from || random() % 5); ++b) order.push_back(b);
      go(stream, all_, order);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(Streams, ASlowDiskIsSlowerAndSaid) {
  Stream stream(*file_, all_, room(all_), std::make_unique<FaultyReads>(open_reads(path_), [](const ReadRequest&) {
    return Fault::Kind::kSlow;
  }));
  go(stream, all_, passes(2, 9));
  const StreamStats f = stream.stats();
  EXPECT_GT(f.stall_seconds, 0.01);
  EXPECT_GT(f.late, 9u);
  EXPECT_LT(f.overlap(), 0.9);
  EXPECT_GE(f.busy_seconds, f.stall_seconds * 0.9);
}

TEST_F(Streams, AFastDiskIsNotWaitedFor) {
  Stream stream(*file_, all_, room(all_) + 9 * kPieceBytes, open_reads(path_));
  for (const int i : passes(2, 9)) {
    stream.acquire(i);
    if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stream.release(i);
  }
  const StreamStats f = stream.stats();
  EXPECT_LT(f.late, f.blocks);
}

// Errors, short reads and flipped bits that a second attempt does not have.
TEST_F(Streams, FaultsThatPassAreRepeated) {
  for (const Fault::Kind kind : {Fault::Kind::kError, Fault::Kind::kShort, Fault::Kind::kEnd, Fault::Kind::kFlip}) {
    std::set<std::int64_t> seen;  // every piece has the fault once
    Stream stream(*file_, all_, room(all_), std::make_unique<FaultyReads>(open_reads(path_), [&](const ReadRequest& r) {
      return seen.insert(r.at / kPieceBytes).second ? kind : Fault::Kind::kNone;
    }));
    go(stream, all_, passes(3, 9));
    EXPECT_GT(stream.stats().retries, 0u) << static_cast<int>(kind);
    if (HasFatalFailure()) return;
  }
}

// Faults that stay are errors that name the file; when they go, reading goes on.
TEST_F(Streams, FaultsThatStayAreErrorsUntilTheyGo) {
  for (const Fault::Kind kind : {Fault::Kind::kError, Fault::Kind::kEnd, Fault::Kind::kFlip}) {
    std::atomic<bool> broken{false};
    Stream stream(*file_, all_, room(all_), std::make_unique<FaultyReads>(open_reads(path_), [&](const ReadRequest&) {
      return broken ? kind : Fault::Kind::kNone;
    }));
    go(stream, all_, passes(1, 9));
    broken = true;
    int errors = 0;
    for (int pass = 0; pass < 4; ++pass)
      for (int i = 0; i < 9; ++i) {
        try {
          stream.acquire(i);
          stream.release(i);
        } catch (const Error& e) {
          ++errors;
          EXPECT_EQ(e.code(), Code::kIo);
          EXPECT_EQ(e.context(), path_);
          EXPECT_NE(e.message().find("block "), std::string::npos) << e.message();
          break;
        }
      }
    EXPECT_GE(errors, 3) << static_cast<int>(kind);
    broken = false;
    go(stream, all_, passes(2, 9));
    if (HasFatalFailure()) return;
  }
}

TEST_F(Streams, AFileThatIsCutWhileItIsReadIsAnError) {
  Stream stream(*file_, all_, room(all_), open_reads(path_));
  go(stream, all_, passes(1, 9));
  fs::resize_file(path_, static_cast<std::uintmax_t>(file_->layout().at[2]));
  bool failed = false;
  for (int pass = 0; pass < 3 && !failed; ++pass)
    for (int i = 0; i < 9 && !failed; ++i) {
      try {
        stream.acquire(i);
        stream.release(i);
      } catch (const Error& e) {
        failed = true;
        EXPECT_NE(e.message().find("the file ends there"), std::string::npos) << e.message();
      }
    }
  EXPECT_TRUE(failed);
}

TEST_F(Streams, EndsWhileItReads) {
  for (int i = 0; i < 20; ++i) {
    Stream stream(*file_, all_, room(all_), open_reads(path_));
    if (i % 2) stream.acquire(0);
  }
}

}  // namespace
}  // namespace kvasir::weights
