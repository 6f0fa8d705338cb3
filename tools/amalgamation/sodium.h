// What store/key.cpp and text/pictures.cpp call of libsodium, for programs that have no libsodium: BLAKE2b with a key
// (RFC 7693), and random bytes of the system. Written for amalgamations (tools/amalgamate.py);
// tests/amalgamation_hash_test.cpp holds it against libsodium.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>

namespace {
namespace blake2b {

constexpr std::uint64_t kStart[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                     0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr std::uint8_t kOrder[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
constexpr std::size_t kBlock = 128;  // bytes

struct State {
  std::uint64_t h[8];
  std::uint64_t count;          // bytes that were compressed; a hash of 2^64 bytes is never made
  std::size_t held;             // of `block`
  unsigned char block[kBlock];  // compressed when more comes: the last one is marked
};

inline std::uint64_t turned(std::uint64_t x, int n) { return x >> n | x << (64 - n); }

inline void compress(State& s, bool last) {
  std::uint64_t m[16], v[16];
  std::memcpy(m, s.block, kBlock);  // little-endian, as store/key.cpp asserts
  for (int i = 0; i < 8; ++i) {
    v[i] = s.h[i];
    v[i + 8] = kStart[i];
  }
  v[12] ^= s.count;
  if (last) v[14] = ~v[14];
  const auto mix = [&](int a, int b, int c, int d, std::uint64_t x, std::uint64_t y) {
    v[a] += v[b] + x;
    v[d] = turned(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 63);
  };
  for (int round = 0; round < 12; ++round) {
    const std::uint8_t* o = kOrder[round % 10];
    for (int i = 0; i < 4; ++i) mix(i, i + 4, i + 8, i + 12, m[o[2 * i]], m[o[2 * i + 1]]);
    for (int i = 0; i < 4; ++i)
      mix(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12, m[o[8 + 2 * i]], m[o[9 + 2 * i]]);
  }
  for (int i = 0; i < 8; ++i) s.h[i] ^= v[i] ^ v[i + 8];
}

inline void add(State& s, const unsigned char* bytes, std::size_t n) {
  while (n > 0) {
    if (s.held == kBlock) {
      s.count += kBlock;
      compress(s, false);
      s.held = 0;
    }
    const std::size_t part = n < kBlock - s.held ? n : kBlock - s.held;
    std::memcpy(s.block + s.held, bytes, part);
    s.held += part;
    bytes += part;
    n -= part;
  }
}

}  // namespace blake2b

struct alignas(64) crypto_generichash_state {
  unsigned char bytes[384];  // a blake2b::State
};
static_assert(sizeof(blake2b::State) <= 384);

inline blake2b::State& state_in(crypto_generichash_state* s) {
  return *std::launder(reinterpret_cast<blake2b::State*>(s->bytes));
}

// REQUIRES: key_size <= 64, 1 <= size <= 64.
inline int crypto_generichash_init(crypto_generichash_state* state, const unsigned char* key, std::size_t key_size,
                                   std::size_t size) {
  blake2b::State& s = *new (state->bytes) blake2b::State{};
  std::memcpy(s.h, blake2b::kStart, sizeof s.h);
  s.h[0] ^= 0x01010000 ^ key_size << 8 ^ size;
  if (key_size > 0) {
    std::memcpy(s.block, key, key_size);
    s.held = blake2b::kBlock;
  }
  return 0;
}

inline int crypto_generichash_update(crypto_generichash_state* state, const unsigned char* bytes, std::size_t size) {
  blake2b::add(state_in(state), bytes, size);
  return 0;
}

// Writes `size` bytes, those that were asked for at the beginning.
inline int crypto_generichash_final(crypto_generichash_state* state, unsigned char* out, std::size_t size) {
  blake2b::State& s = state_in(state);
  s.count += s.held;
  std::memset(s.block + s.held, 0, blake2b::kBlock - s.held);
  blake2b::compress(s, true);
  std::memcpy(out, s.h, size);
  return 0;
}

inline int sodium_init() { return 0; }

inline void randombytes_buf(void* out, std::size_t size) {
  for (std::size_t at = 0; at < size; at += 256)  // the most that one call gives
    if (getentropy(static_cast<unsigned char*>(out) + at, size - at < 256 ? size - at : 256) != 0)
      throw std::runtime_error("the system gives no random bytes");
}

}  // namespace
