// Two ways to have many reads under way at once. With liburing (Debian's liburing-dev) and a system that allows it, a
// ring of requests. Else the system is told which pieces will be read (posix_fadvise) before the first of them is: it
// reads ahead while they are taken one by one.
#include "kv/page_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.hpp"

#ifdef KVASIR_URING
#include <liburing.h>
#endif

namespace kvasir::kv {
namespace {

std::string reason(int error) { return std::strerror(error); }

// A file without a name.
class Descriptor {
 public:
  Descriptor(const std::string& folder, std::uint64_t bytes) : context_("page file in " + folder) {
    struct stat s {};
    if (stat(folder.c_str(), &s) != 0 || !S_ISDIR(s.st_mode))
      throw Error(Code::kBadInput, "is no folder, expected one that pages can be written to", folder);
    fd_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ < 0) {  // file systems without nameless files
      std::string path = folder + "/kvasir-pages-XXXXXX";
      fd_ = mkostemp(path.data(), O_CLOEXEC);
      if (fd_ >= 0) unlink(path.c_str());
    }
    if (fd_ < 0) throw Error(Code::kBadInput, "no file can be made there: " + reason(errno), folder);
    const int error = bytes > 0 ? posix_fallocate(fd_, 0, static_cast<off_t>(bytes)) : 0;
    if (error != 0) {
      close(fd_);
      throw Error(Code::kIo, std::to_string(bytes) + " bytes cannot be reserved: " + reason(error), context_);
    }
    posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }
  [[noreturn]] void fail(const std::string& what) const { throw Error(Code::kIo, what, context_); }
  [[noreturn]] void fail_read(std::uint64_t at, int error) const {
    fail("reading at byte " + std::to_string(at) + ": " +
         (error == 0 ? "the file ends there, expected the page that was written" : reason(error)));
  }

  void read_plain(FilePiece p) const {
    while (p.bytes > 0) {
      const ssize_t n = pread(fd_, p.to, p.bytes, static_cast<off_t>(p.at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail_read(p.at, n < 0 ? errno : 0);
      p = {p.at + static_cast<std::uint64_t>(n), p.to + n, p.bytes - static_cast<std::size_t>(n)};
    }
  }
  void write(std::uint64_t at, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("writing at byte " + std::to_string(at) + ": " + reason(n < 0 ? errno : ENOSPC));
      at += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

 private:
  std::string context_;
  int fd_ = -1;
};

class PlainFile : public PageFile {
 public:
  PlainFile(const std::string& folder, std::uint64_t bytes) : file_(folder, bytes) {}
  void read(std::span<const FilePiece> pieces) override {
    if (pieces.size() > 1)
      for (const FilePiece& p : pieces)
        posix_fadvise(file_.fd(), static_cast<off_t>(p.at), static_cast<off_t>(p.bytes), POSIX_FADV_WILLNEED);
    for (const FilePiece& p : pieces) file_.read_plain(p);
  }
  void write(std::uint64_t at, std::span<const std::byte> bytes) override { file_.write(at, bytes); }
  const char* how() const override { return "pread"; }

 private:
  Descriptor file_;
};

#ifdef KVASIR_URING

class RingFile : public PageFile {
 public:
  RingFile(const std::string& folder, std::uint64_t bytes) : file_(folder, bytes) {
    works_ = io_uring_queue_init(kDepth, &ring_, 0) == 0;
  }
  ~RingFile() override {
    if (works_) io_uring_queue_exit(&ring_);
  }
  bool works() const { return works_; }

  void read(std::span<const FilePiece> pieces) override {
    if (!works_ || pieces.size() == 1) {
      for (const FilePiece& p : pieces) file_.read_plain(p);
      return;
    }
    left_.assign(pieces.begin(), pieces.end());
    std::size_t next = 0, under_way = 0, done = 0;
    int error = 0;
    std::uint64_t error_at = 0;
    const auto submit = [&](std::size_t i) {
      io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
      if (!sqe) return false;
      const FilePiece& p = left_[i];
      io_uring_prep_read(sqe, file_.fd(), p.to, static_cast<unsigned>(p.bytes), p.at);
      io_uring_sqe_set_data64(sqe, i);
      ++under_way;
      return true;
    };
    bool failed = false;
    while (under_way > 0 || (next < left_.size() && !failed)) {
      while (!failed && next < left_.size() && under_way < kDepth && submit(next)) ++next;
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted < 0 && submitted != -EINTR) abandon(-submitted);
      io_uring_cqe* cqe = nullptr;
      while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const auto i = static_cast<std::size_t>(io_uring_cqe_get_data64(cqe));
        const int n = cqe->res;
        io_uring_cqe_seen(&ring_, cqe);
        --under_way;
        FilePiece& p = left_[i];
        if (n == -EINTR || n == -EAGAIN) {
          submit(i);
        } else if (n <= 0) {
          if (!failed) error = -n, error_at = p.at;
          failed = true;
        } else if (static_cast<std::size_t>(n) < p.bytes) {
          p = {p.at + static_cast<std::uint64_t>(n), p.to + n, p.bytes - static_cast<std::size_t>(n)};
          submit(i);
        } else {
          ++done;
        }
      }
    }
    if (failed) file_.fail_read(error_at, error);
    if (done != pieces.size()) file_.fail("reads got lost");
  }
  void write(std::uint64_t at, std::span<const std::byte> bytes) override { file_.write(at, bytes); }
  const char* how() const override { return "io_uring"; }

 private:
  static constexpr unsigned kDepth = 128;

  // The ring itself failed, so requests may still write to their pieces: they end with it.
  [[noreturn]] void abandon(int error) {
    io_uring_queue_exit(&ring_);
    works_ = io_uring_queue_init(kDepth, &ring_, 0) == 0;
    file_.fail("io_uring: " + reason(error));
  }

  Descriptor file_;
  io_uring ring_{};
  bool works_ = false;
  std::vector<FilePiece> left_;
};

#endif

}  // namespace

std::unique_ptr<PageFile> make_page_file(const std::string& folder, std::uint64_t bytes,
                                         [[maybe_unused]] Reading reading) {
#ifdef KVASIR_URING
  if (reading == Reading::kBest) {
    auto ring = std::make_unique<RingFile>(folder, bytes);
    if (ring->works()) return ring;  // else the system does not allow it, as in many containers
  }
#endif
  return std::make_unique<PlainFile>(folder, bytes);
}

}  // namespace kvasir::kv
