#include "tensor/buffer.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace kvasir::tensor {
namespace {

std::atomic<std::size_t> g_bytes[3];

constexpr std::size_t kMapFrom = std::size_t{1} << 20;  // mapped (lazily zeroed) from here up, malloc below
constexpr std::size_t kHuge = std::size_t{2} << 20;

const char* name(Tag tag) {
  switch (tag) {
    case Tag::kWeights:
      return "weights";
    case Tag::kCache:
      return "KV cache";
    case Tag::kScratch:
      return "scratch";
  }
  return "?";
}

// A 2 MiB-aligned mapping, so that transparent huge pages can back all of it: 512 times fewer page faults while loading
// and fewer TLB misses while streaming weights.
std::byte* map(std::size_t bytes) {
  const std::size_t padded = bytes + kHuge;
  void* p = ::mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const auto base = reinterpret_cast<std::uintptr_t>(p);
  const auto aligned = (base + kHuge - 1) / kHuge * kHuge;
  if (aligned > base) ::munmap(p, aligned - base);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto page_end = (aligned + bytes + page - 1) / page * page;
  if (base + padded > page_end) ::munmap(reinterpret_cast<void*>(page_end), base + padded - page_end);
#if defined(MADV_HUGEPAGE)
  ::madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<std::byte*>(aligned);
}

}  // namespace

Buffer::Buffer(Tag tag, std::size_t bytes) : tag_(tag), size_(bytes) {
  if (bytes == 0) return;
  if (bytes > (std::size_t{1} << 46))
    throw Error(Code::kMemory, "cannot allocate " + std::to_string(bytes) + " bytes", name(tag));
  if (bytes >= kMapFrom) {
    data_ = map(bytes);
  } else {
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (data_) std::memset(data_, 0, bytes);
  }
  if (!data_) throw Error(Code::kMemory, "cannot allocate " + std::to_string(bytes) + " bytes", name(tag));
  g_bytes[static_cast<int>(tag)].fetch_add(bytes, std::memory_order_relaxed);
}

Buffer::~Buffer() {
  if (!data_) return;
  if (size_ >= kMapFrom) {
    ::munmap(data_, (size_ + 4095) / 4096 * 4096);
  } else {
    std::free(data_);
  }
  g_bytes[static_cast<int>(tag_)].fetch_sub(size_, std::memory_order_relaxed);
}

Buffer::Buffer(Buffer&& other) noexcept
    : tag_(other.tag_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(tag_, other.tag_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::size_t allocated_bytes(Tag tag) { return g_bytes[static_cast<int>(tag)].load(std::memory_order_relaxed); }

}  // namespace kvasir::tensor
