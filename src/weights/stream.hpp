// Blocks of a packed file that are read while the computation goes through them in a cycle: a thread reads ahead into a
// ring (weights/ring.hpp), across the end of a pass into the next one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "weights/packed_file.hpp"
#include "weights/reads.hpp"
#include "weights/ring.hpp"
#include "weights/stream_stats.hpp"

namespace kvasir::weights {

// Reads a block once, now, to `to` (padded bytes, aligned to kBlockAlign), and compares its checksums. Throws Error
// naming the file:
// kIo when the disk does not give them, kBadInput when they are damaged.
void read_block(const PackedFile& file, Reads& reads, int block, std::byte* to);

class Stream {
 public:
  // `blocks`: those that are streamed, in the order of their use. The file must outlive this. REQUIRES: room as of
  // Ring.
  Stream(const PackedFile& file, std::vector<int> blocks, std::int64_t room, std::unique_ptr<Reads> reads);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Of the i-th of `blocks`: its bytes, which stay until it is released. Waits until they are there. Throws Error(kIo)
  // naming the file when the disk does not give them, or gives damaged ones. A later call tries again.
  // REQUIRES: one thread; at most the block before it is held.
  const std::byte* acquire(int i);
  void release(int i);

  StreamStats stats() const;  // any thread
  std::string reads_name() const { return reads_->name(); }
  std::int64_t room() const { return memory_.size(); }

 private:
  // A read of a piece.
  struct Piece {
    Ring::Read read;
    std::int64_t from = 0, bytes = 0, done = 0;
    int attempts = 0;
    bool used = false;
  };
  // A block that is being read.
  struct Pending {
    Ring::Read read;
    std::int64_t started = 0, over = 0;  // bytes
    int in_flight = 0;
    bool failed = false;
  };
  void run();
  bool start_one();
  void start(std::size_t slot);
  void answered(std::unique_lock<std::mutex>& lock, const ReadAnswer& answer);
  void end_piece(Piece& piece, bool whole);
  Pending& pending(std::uint64_t id);
  void settle();

  const PackedFile& file_;
  const std::vector<int> blocks_;
  PageBuffer memory_;
  std::unique_ptr<Reads> reads_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, arrived_;
  Ring ring_;
  std::deque<Pending> pending_;
  std::vector<Piece> pieces_;
  int in_flight_ = 0;
  std::optional<Error> failure_;  // what the computation is told next
  bool stop_ = false;
  double busy_since_ = 0;
  StreamStats stats_;
  std::thread thread_;
};

}  // namespace kvasir::weights
