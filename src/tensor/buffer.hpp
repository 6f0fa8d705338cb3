// Owning, aligned, zeroed memory that counts itself: the figures that Kvasir prints come from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kvasir::tensor {

// What memory is for. Every Buffer carries one; `allocated_bytes` sums them.
enum class Tag { kWeights, kCache, kScratch };

class Buffer {
 public:
  Buffer() = default;
  // 64-byte aligned (2 MiB aligned and offered huge pages from 1 MiB up), zero filled. Throws Error(kMemory).
  Buffer(Tag tag, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Tag tag_ = Tag::kScratch;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Bytes held now by all buffers of one tag, process wide.
std::size_t allocated_bytes(Tag tag);

}  // namespace kvasir::tensor
