// Small open-addressing hash tables for look-ups that happen per byte of text.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kvasir::text {

inline std::uint64_t hash_mix(std::uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

inline std::uint64_t hash_bytes(std::string_view bytes) {  // FNV-1a, 64 bits
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h ^ h >> 32;
}

// Token bytes -> id; the bytes stay with their owner, which has `piece(id)`. At most half of the slots are taken.
class PieceIndex {
 public:
  void reserve(std::size_t count) { slots_.assign(std::bit_ceil(2 * count + 2), -1); }

  // Keeps the id that is there already when the bytes are. REQUIRES: no more insertions than were reserved.
  template <class Owner>
  void insert(std::int32_t id, const Owner& owner) {
    auto& slot = slots_[position(owner.piece(id), owner)];
    if (slot < 0) slot = id;
  }

  template <class Owner>
  std::int32_t find(std::string_view bytes, const Owner& owner) const {
    return slots_.empty() ? -1 : slots_[position(bytes, owner)];
  }

 private:
  template <class Owner>
  std::size_t position(std::string_view bytes, const Owner& owner) const {
    const std::size_t mask = slots_.size() - 1;
    auto i = static_cast<std::size_t>(hash_bytes(bytes)) & mask;
    while (slots_[i] >= 0 && owner.piece(slots_[i]) != bytes) i = (i + 1) & mask;
    return i;
  }

  std::vector<std::int32_t> slots_;
};

// A pair of 32-bit numbers -> Value. At most half of the slots are taken.
template <class Value>
class PairMap {
 public:
  void reserve(std::size_t count) { slots_.assign(std::bit_ceil(2 * count + 2), Slot{}); }

  // Keeps the value that is there already. REQUIRES: no more insertions than were reserved; not both numbers 2^32 - 1.
  void insert(std::uint32_t a, std::uint32_t b, const Value& value) {
    Slot& slot = slots_[position(key(a, b))];
    if (slot.key == kFree) slot = {key(a, b), value};
  }

  const Value* find(std::uint32_t a, std::uint32_t b) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[position(key(a, b))];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Value value{};
  };

  static std::uint64_t key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

  std::size_t position(std::uint64_t k) const {
    const std::size_t mask = slots_.size() - 1;
    auto i = static_cast<std::size_t>(hash_mix(k)) & mask;
    while (slots_[i].key != kFree && slots_[i].key != k) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;
};

}  // namespace kvasir::text
