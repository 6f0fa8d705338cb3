// For tests: kernels as C++, the items of a work group as fibers. What OpenCL C and NVIDIA's assembler give is here in
// plain C++, so that a text's layouts and bits are checked where there is no such card.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "simd/half.hpp"

namespace kvasir::device::emulated {

using uint = unsigned int;
using uchar = unsigned char;
using ushort = unsigned short;
using ulong = unsigned long;
struct uint2 {
  uint x, y;
};
struct alignas(16) uint4 {
  uint x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline constexpr int kItems = 256;
inline int item = 0;
inline int group = 0;
inline ucontext_t scheduler;
inline ucontext_t fibers[kItems];
inline void pass() {
  const int me = item;
  swapcontext(&fibers[me], &scheduler);
}

// Items of a warp exchange words: written, all pass, read. Two sets in turn, so that nobody writes what is still read.
inline uint shared_words[2][6][kItems];
inline int turn_of[kItems];
inline uint exchange(uint v, int from) {
  const int set = turn_of[item];
  turn_of[item] ^= 1;
  shared_words[set][0][item] = v;
  pass();
  return shared_words[set][0][(item & ~31) | (from & 31)];
}

inline float as_float(uint u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline uint as_uint(float f) {
  uint u;
  std::memcpy(&u, &f, 4);
  return u;
}
inline float H2F(uint h) { return simd::f16_to_f32(static_cast<std::uint16_t>(h)); }
inline uint PRMT(uint a, uint b, uint s) {
  const std::uint64_t v = static_cast<std::uint64_t>(b) << 32 | a;
  uint r = 0;
  for (int i = 0; i < 4; ++i) {
    const uint c = s >> 4 * i & 15;
    if (c & 8) throw std::logic_error("prmt would replicate a sign");
    r |= static_cast<uint>(v >> 8 * c & 255) << 8 * i;
  }
  return r;
}
inline int DP4A(uint a, uint b, int c) {
  for (int i = 0; i < 4; ++i)
    c +=
        static_cast<int>(static_cast<std::int8_t>(a >> 8 * i)) * static_cast<int>(static_cast<std::int8_t>(b >> 8 * i));
  return c;
}
inline float XOR(float v, int o) { return as_float(exchange(as_uint(v), (item & 31) ^ o)); }
inline int XORI(int v, int o) { return static_cast<int>(exchange(static_cast<uint>(v), (item & 31) ^ o)); }
inline float FROM(float v, int l) { return as_float(exchange(as_uint(v), l)); }

// mma.sync m16n8k32, 8-bit integers
inline void mma(int* c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  const int set = turn_of[item];
  turn_of[item] ^= 1;
  const uint in[6] = {a0, a1, a2, a3, b0, b1};
  for (int i = 0; i < 6; ++i) shared_words[set][i][item] = in[i];
  pass();
  const int warp = item & ~31;
  const int g = (item & 31) >> 2;
  const int t = item & 3;
  const auto dot = [&](int row, int column) {
    int sum = 0;
    for (int q = 0; q < 4; ++q) {
      const int a = warp + (row & 7) * 4 + q;
      const int b = warp + column * 4 + q;
      sum = DP4A(shared_words[set][row >= 8 ? 1 : 0][a], shared_words[set][4][b], sum);
      sum = DP4A(shared_words[set][row >= 8 ? 3 : 2][a], shared_words[set][5][b], sum);
    }
    return sum;
  };
  c[0] += dot(g, 2 * t);
  c[1] += dot(g, 2 * t + 1);
  c[2] += dot(g + 8, 2 * t);
  c[3] += dot(g + 8, 2 * t + 1);
}

// f() for every item of every group. All items pass together, so a barrier and an exchange are one pass of each.
template <class F>
void launch(int groups, int items, F f) {
  static F* function;
  static bool done[kItems];
  function = &f;
  std::vector<std::vector<char>> stacks(static_cast<std::size_t>(items), std::vector<char>(1 << 17));
  for (group = 0; group < groups; ++group) {
    for (int i = 0; i < items; ++i) {
      done[i] = false;
      turn_of[i] = 0;
      getcontext(&fibers[i]);
      fibers[i].uc_stack.ss_sp = stacks[static_cast<std::size_t>(i)].data();
      fibers[i].uc_stack.ss_size = 1 << 17;
      fibers[i].uc_link = nullptr;
      makecontext(&fibers[i], static_cast<void (*)()>([] {
        (*function)();
        done[item] = true;
        pass();
      }),
                  0);
    }
    for (bool any = true; any;) {
      any = false;
      for (int i = 0; i < items; ++i)
        if (!done[i]) {
          any = true;
          item = i;
          swapcontext(&scheduler, &fibers[i]);
        }
    }
  }
}

}  // namespace kvasir::device::emulated
