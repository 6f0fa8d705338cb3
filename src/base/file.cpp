#include "base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace kvasir {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void io_error(const std::string& path, const char* what) {
  throw Error(Code::kIo, std::string(what) + ": " + std::strerror(errno), path);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  Descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (d.fd < 0) io_error(path, "cannot open");
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) io_error(path, "cannot stat");
  if (!S_ISREG(st.st_mode)) throw Error(Code::kBadInput, "not a regular file", path);
  if (st.st_size == 0) throw Error(Code::kBadInput, "the file is empty", path);
  size_ = static_cast<std::size_t>(st.st_size);
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, d.fd, 0);
  if (p == MAP_FAILED) io_error(path, "cannot map");
  data_ = static_cast<const std::byte*>(p);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::drop(std::span<const std::byte> range) const {
  // madvise wants the boundaries of pages, and no more than the range may be dropped.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uintptr_t begin = (from + page - 1) / page * page, end = (from + range.size()) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_text_file(const std::string& path) {
  Descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (d.fd < 0) io_error(path, "cannot open");
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(d.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error(path, "cannot read");
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

void check_replaceable(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode))
    throw Error(Code::kBadInput, "exists and is not a regular file, which could not be replaced by a new one", path);
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  check_replaceable(path);
  const std::string temporary = path + ".partial." + std::to_string(::getpid());
  {
    Descriptor d{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (d.fd < 0) io_error(path, "cannot create");
    while (!bytes.empty()) {
      const ssize_t n = ::write(d.fd, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int saved = errno;
        ::unlink(temporary.c_str());
        errno = saved;
        io_error(path, "cannot write");
      }
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    errno = saved;
    io_error(path, "cannot rename into place");
  }
}

}  // namespace kvasir
