// For tests on machines without AMX: its instructions end in SIGILL there, and a handler does what they would have
// done. So the kernels that ship are what runs, instruction by instruction, with its checks of configurations and
// shapes (Intel's manual, volume 2: LDTILECFG, TILELOADD, TILESTORED, TDPBSSD, TDPBF16PS and their exceptions). Some
// microseconds each.
#pragma once

#include "simd/flush_subnormals.hpp"
#include "simd/isa.hpp"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace kvasir::simd::emulated_amx {

struct Tile {
  int rows = 0, row_bytes = 0;
  std::uint8_t bytes[16][64] = {};
};
// Of a thread, as the registers are.
struct Unit {
  bool configured = false;
  Tile tiles[8];
};
inline thread_local Unit unit;
inline thread_local long executed = 0;

// What the processor would refuse ends the program, and says why.
[[noreturn]] inline void refuse(const char* why) {
  const char intro[] = "emulated AMX: ";
  (void)!write(2, intro, sizeof intro - 1);
  (void)!write(2, why, std::strlen(why));
  (void)!write(2, "\n", 1);
  _exit(99);
}

inline void configure(const std::uint8_t* p) {
  if (p[0] != 1) refuse("a palette other than 1");
  for (int i = 1; i < 16; ++i)
    if (p[i] != 0) refuse("a start row, or bytes that are reserved");
  unit.configured = true;
  for (int t = 0; t < 16; ++t) {
    const int row_bytes = p[16 + 2 * t] | p[17 + 2 * t] << 8, rows = p[48 + t];
    if (t >= 8 ? rows + row_bytes != 0 : rows > 16 || row_bytes > 64 || (rows == 0) != (row_bytes == 0))
      refuse("a tile of a shape that palette 1 lacks");
    if (t < 8) unit.tiles[t] = {rows, row_bytes, {}};
  }
}

inline void check_shapes(const Tile& c, const Tile& a, const Tile& b) {
  if (&c == &a || &c == &b || &a == &b) refuse("a tile that is named twice");
  if (a.rows != c.rows || b.row_bytes != c.row_bytes || a.row_bytes != 4 * b.rows || c.row_bytes % 4 != 0)
    refuse("tiles whose shapes do not fit");
}

inline void dot(Tile& c, const Tile& a, const Tile& b, bool a_signed, bool b_signed) {
  check_shapes(c, a, b);
  const auto value = [](std::uint8_t x, bool is_signed) { return is_signed ? static_cast<std::int8_t>(x) : int{x}; };
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      std::int32_t sum;
      std::memcpy(&sum, c.bytes[m] + 4 * n, 4);
      for (int k = 0; k < a.row_bytes; ++k)
        sum += value(a.bytes[m][k], a_signed) * value(b.bytes[k / 4][4 * n + k % 4], b_signed);
      std::memcpy(c.bytes[m] + 4 * n, &sum, 4);
    }
}

// The manual's operation of TDPBF16PS: products of even elements and of odd ones are added up apart, from 0 on, each
// with one rounding; then both sums, then what was there. REQUIRES: FlushSubnormals lives, as the instruction's DAZ and
// FTZ.
__attribute__((noinline)) inline void dot_bf16(Tile& c, const Tile& a, const Tile& b) {
  check_shapes(c, a, b);
  const auto value = [](const std::uint8_t* p) {
    const std::uint32_t bits = static_cast<std::uint32_t>(p[1]) << 24 | static_cast<std::uint32_t>(p[0]) << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  };
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      float sums[2] = {0, 0}, before;
      for (int k = 0; k < a.row_bytes / 4; ++k)
        for (int i = 0; i < 2; ++i)
          sums[i] = __builtin_fmaf(value(a.bytes[m] + 4 * k + 2 * i), value(b.bytes[k] + 4 * n + 2 * i), sums[i]);
      std::memcpy(&before, c.bytes[m] + 4 * n, 4);
      const float after = before + (sums[0] + sums[1]);
      std::memcpy(c.bytes[m] + 4 * n, &after, 4);
    }
}

// The general registers in the order in which instructions number them.
inline std::uint64_t reg(const ucontext_t& c, int number) {
  static constexpr int kAt[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<std::uint64_t>(c.uc_mcontext.gregs[kAt[number]]);
}

// Executes the instruction of three-byte VEX, map 0F38 and 128 bits at p; its length, or 0 when it is none of AMX.
inline int execute(const ucontext_t& c, const std::uint8_t* p) {
  if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84) != 0) return 0;
  const int prefix = p[2] & 3;  // none, 66, F3, F2
  const int third = ~(p[2] >> 3) & 15;
  const int op = p[3], mod = p[4] >> 6, first = p[4] >> 3 & 7, second = p[4] & 7;
  int length = 5;
  std::uint64_t base = 0, stride = 0;
  if (mod != 3) {
    const int high_base = p[1] & 0x20 ? 0 : 8, high_index = p[1] & 0x40 ? 0 : 8;
    int name = second | high_base;
    if (second == 4) {
      const int sib = p[length++];
      name = (sib & 7) | high_base;
      if (const int index = (sib >> 3 & 7) | high_index; index != 4) stride = reg(c, index) << (sib >> 6);
      if ((sib & 7) == 5 && mod == 0) return 0;  // without a base: compilers make none
    } else if (mod == 0 && second == 5) {
      return 0;  // relative to the instruction
    }
    base = reg(c, name);
    if (mod == 1) base += static_cast<std::uint64_t>(static_cast<std::int8_t>(p[length])), length += 1;
    if (mod == 2) {
      std::int32_t offset;
      std::memcpy(&offset, p + length, 4);
      base += static_cast<std::uint64_t>(std::int64_t{offset}), length += 4;
    }
  }
  auto* const memory = reinterpret_cast<std::uint8_t*>(base);
  const auto tile = [](int i) -> Tile& {
    if (!unit.configured) refuse("a tile before LDTILECFG");
    if (unit.tiles[i].rows == 0) refuse("a tile without a shape");
    return unit.tiles[i];
  };
  if (op == 0x49 && prefix == 0 && mod != 3) {
    configure(memory);
  } else if (op == 0x49 && prefix == 0 && p[4] == 0xc0) {
    unit = {};
  } else if (op == 0x49 && prefix == 3 && mod == 3) {
    std::memset(tile(first).bytes, 0, sizeof tile(first).bytes);
  } else if (op == 0x4b && mod != 3 && second == 4 && (prefix == 3 || prefix == 1)) {
    Tile& t = tile(first);
    std::memset(t.bytes, 0, sizeof t.bytes);
    for (int r = 0; r < t.rows; ++r)
      std::memcpy(t.bytes[r], memory + static_cast<std::uint64_t>(r) * stride, static_cast<std::size_t>(t.row_bytes));
  } else if (op == 0x4b && mod != 3 && second == 4 && prefix == 2) {
    const Tile& t = tile(first);
    for (int r = 0; r < t.rows; ++r)
      std::memcpy(memory + static_cast<std::uint64_t>(r) * stride, t.bytes[r], static_cast<std::size_t>(t.row_bytes));
  } else if (op == 0x5c && mod == 3 && prefix == 2) {
    const FlushSubnormals flush;
    dot_bf16(tile(first), tile(second), tile(third & 7));
  } else if (op == 0x5e && mod == 3) {  // none: both unsigned, 66: b signed, F3: a signed, F2: both
    dot(tile(first), tile(second), tile(third & 7), prefix >= 2, prefix == 1 || prefix == 3);
  } else {
    return 0;
  }
  ++executed;
  return length;
}

inline struct sigaction before;

inline void on_illegal(int number, siginfo_t* info, void* context) {
  auto& c = *static_cast<ucontext_t*>(context);
  if (const int length = execute(c, reinterpret_cast<const std::uint8_t*>(c.uc_mcontext.gregs[REG_RIP]))) {
    c.uc_mcontext.gregs[REG_RIP] += length;
    return;
  }
  sigaction(number, &before, nullptr);  // none of ours: it happens again, to whoever handled it before
  (void)info;
}

// Whether this build has the kernels and this processor what surrounds them.
inline bool possible() { return built(Isa::kAvx512Amx) && supported(Isa::kAvx512Vnni) && !emulated(Isa::kAvx512Vnni); }

}  // namespace kvasir::simd::emulated_amx

namespace kvasir::simd {

// As long as this lives, tiles can be used, by the processor where it has them. REQUIRES: emulated_amx::possible().
class UsableTiles {
 public:
  UsableTiles() {
    if (by_processor()) return;
    struct sigaction action = {};
    action.sa_sigaction = emulated_amx::on_illegal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, &emulated_amx::before);
  }
  ~UsableTiles() {
    if (!by_processor()) sigaction(SIGILL, &emulated_amx::before, nullptr);
  }
  UsableTiles(const UsableTiles&) = delete;
  UsableTiles& operator=(const UsableTiles&) = delete;

  static bool by_processor() { return supported(Isa::kAvx512Amx); }
  // Instructions that this thread has had emulated.
  static long executed() { return emulated_amx::executed; }
};

}  // namespace kvasir::simd

#endif
