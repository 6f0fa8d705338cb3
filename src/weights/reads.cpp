#include "weights/reads.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/error.hpp"

#ifdef KVASIR_URING
#include <liburing.h>
#endif

namespace kvasir::weights {
namespace {

// A file for direct reads; `direct` is false where its file system has none (tmpfs).
struct OpenFile {
  int fd = -1;
  bool direct = true;

  explicit OpenFile(const std::string& path) {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0 && errno == EINVAL) {
      direct = false;
      fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) throw Error(Code::kIo, std::string("cannot open: ") + std::strerror(errno), path);
  }
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::string name(std::string_view way) const { return std::string(way) + (direct ? ", direct" : ", page cache"); }
};

std::int64_t read_now(int fd, const ReadRequest& r) {
  const ssize_t n = ::pread(fd, r.to, static_cast<std::size_t>(r.bytes), r.at);
  return n < 0 ? -errno : n;
}

class ThreadReads final : public Reads {
 public:
  explicit ThreadReads(const std::string& path) : file_(path) {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~ThreadReads() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  void start(const ReadRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(request);
    }
    wake_.notify_one();
  }
  ReadAnswer wait() override {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return !answers_.empty(); });
    const ReadAnswer answer = answers_.front();
    answers_.pop_front();
    return answer;
  }
  std::string name() const override { return file_.name("threads"); }

 private:
  static constexpr int kThreads = 4;

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !asked_.empty(); });
      if (stop_) return;
      const ReadRequest r = asked_.front();
      asked_.pop_front();
      lock.unlock();
      const std::int64_t result = read_now(file_.fd, r);
      lock.lock();
      answers_.push_back({r.tag, result});
      over_.notify_one();
    }
  }

  OpenFile file_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, over_;
  std::deque<ReadRequest> asked_;
  std::deque<ReadAnswer> answers_;
  bool stop_ = false;
};

#ifdef KVASIR_URING
// What the ring does not take is read at once, in this thread; what it took and does not give back is an error of these
// reads.
class UringReads final : public Reads {
 public:
  explicit UringReads(const std::string& path) : file_(path) {
    usable_ = io_uring_queue_init(2 * kMostReads, &ring_, 0) == 0;
    tags_.reserve(kMostReads);
  }
  ~UringReads() override {
    if (!usable_) return;
    while (!tags_.empty()) wait();
    io_uring_queue_exit(&ring_);
  }
  bool usable() const { return usable_; }  // containers often forbid it
  void start(const ReadRequest& r) override {
    if (!submits_ || !submit(r)) {
      submits_ = false;
      answers_.push_back({r.tag, read_now(file_.fd, r)});
    }
  }
  ReadAnswer wait() override {
    if (!answers_.empty()) {
      const ReadAnswer answer = answers_.front();
      answers_.pop_front();
      return answer;
    }
    KVASIR_CHECK(!tags_.empty());
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      int n;
      do n = io_uring_wait_cqe(&ring_, &cqe);
      while (n == -EINTR || n == -EAGAIN);
      if (n != 0) {
        const ReadAnswer lost{tags_.back(), n};
        tags_.pop_back();
        return lost;
      }
      const ReadAnswer answer{io_uring_cqe_get_data64(cqe), cqe->res};
      io_uring_cqe_seen(&ring_, cqe);
      const auto at = std::find(tags_.begin(), tags_.end(), answer.tag);
      if (at == tags_.end()) continue;  // one that was not submitted when it was to be, and read otherwise
      tags_.erase(at);
      return answer;
    }
  }
  std::string name() const override { return file_.name("io_uring"); }

 private:
  bool submit(const ReadRequest& r) {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    if (!sqe) return false;
    io_uring_prep_read(sqe, file_.fd, r.to, static_cast<unsigned>(r.bytes), static_cast<std::uint64_t>(r.at));
    io_uring_sqe_set_data64(sqe, r.tag);
    int n;
    do n = io_uring_submit(&ring_);
    while (n == -EINTR || n == -EAGAIN || n == -EBUSY);
    if (n < 1) {
      io_uring_prep_nop(sqe);  // it stays in the queue
      return false;
    }
    tags_.push_back(r.tag);
    return true;
  }

  OpenFile file_;
  io_uring ring_{};
  bool usable_ = false, submits_ = true;
  std::vector<std::uint64_t> tags_;  // in flight
  std::deque<ReadAnswer> answers_;
};
#endif

}  // namespace

std::unique_ptr<Reads> open_uring(const std::string& path) {
#ifdef KVASIR_URING
  auto reads = std::make_unique<UringReads>(path);
  if (reads->usable()) return reads;
#else
  static_cast<void>(path);
#endif
  return nullptr;
}

std::unique_ptr<Reads> open_threads(const std::string& path) { return std::make_unique<ThreadReads>(path); }

std::unique_ptr<Reads> open_reads(const std::string& path) {
  const char* const forced = std::getenv("KVASIR_READS");
  if (forced && std::string_view(forced) == "threads") return open_threads(path);
  auto reads = open_uring(path);
  return reads ? std::move(reads) : open_threads(path);
}

}  // namespace kvasir::weights
