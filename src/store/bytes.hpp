// Immutable bytes with an owner that may be shared.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace kvasir::store {

// Read-only bytes that stay valid while any copy of `owner` lives. Aligned to 16 bytes.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  // The owner is memory of its own and may be kept. Otherwise it pins something shared (a snapshot of a database, which
  // cannot reuse its space meanwhile): copy what is needed and let go.
  bool heap = false;

  explicit operator bool() const { return owner != nullptr; }
};

constexpr std::size_t kBlockAlign = 64;

// Uninitialised memory, aligned to kBlockAlign. Throws std::bad_alloc.
inline std::shared_ptr<std::byte> allocate_block(std::size_t size) {
  auto* p = static_cast<std::byte*>(::operator new (size, std::align_val_t{kBlockAlign}));
  return {p, [](std::byte* q) { ::operator delete (q, std::align_val_t{kBlockAlign}); }};
}

SharedBytes copy_bytes(std::span<const std::byte> bytes);

}  // namespace kvasir::store
