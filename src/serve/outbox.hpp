// What a connection has to send: bytes are added while others are being written.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace kvasir::serve {

// Of one strand, but for size().
class Outbox {
 public:
  // True: nothing is being written, so somebody has to begin.
  bool add(std::string_view bytes) {
    size_ += bytes.size();
    pending_ += bytes;
    return idle();
  }
  bool idle() const { return writing_.empty(); }
  // False: nothing is left. A large buffer is then given back.
  bool begin() {
    if (!writing_.empty()) return true;
    if (pending_.empty() && writing_.capacity() > kKept) std::string().swap(writing_);
    writing_.swap(pending_);
    return !writing_.empty();
  }
  std::string_view left() const { return std::string_view(writing_).substr(written_); }
  void wrote(std::size_t n) {
    written_ += n;
    size_ -= n;
    if (written_ < writing_.size()) return;
    written_ = 0;
    writing_.clear();
  }
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kKept = 256 << 10;
  std::string pending_, writing_;  // what is sent next, and what is being sent from written_ on
  std::size_t written_ = 0;
  std::atomic<std::size_t> size_{0};
};

}  // namespace kvasir::serve
