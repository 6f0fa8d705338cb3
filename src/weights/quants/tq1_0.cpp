// TQ1_0: super-blocks of 256, x = d (u - 1) with u in 0..2, five u to a byte.
//    52 bytes  codes: a byte b stands for the fraction b / 256, whose digits to base 3 are the u of its elements.
//              Byte i has elements i, i + 32, ... i + 128 (i 0..31); byte 32 + i elements 160 + i, + 16, ... + 64
//              (i 0..15); byte 48 + i elements 240 + i, + 4, + 8, + 12 (i 0..3)
//              f16 d
// In panels codes take 2 bits.
#include "weights/families/int_codes.hpp"
#include "weights/families/ternary.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

// f(first byte, bytes, first element, elements per byte) of the three parts.
template <class F>
KVASIR_INLINE void each_part(F&& f) {
  f(0, 32, 0, 5);
  f(32, 16, 160, 5);
  f(48, 4, 240, 4);
}

struct Format : Ternary<> {
  static constexpr int kBlockBytes = 54;
  static void codes(const std::byte* block, std::uint8_t* u) {
    each_part([&](int at, int bytes, int element, int count) __attribute__((always_inline)) {
      std::uint8_t rest[32];
      __builtin_memcpy(rest, block + at, static_cast<std::size_t>(bytes));
      for (int j = 0; j < count; ++j, element += bytes)
        for (int i = 0; i < bytes; ++i) {
          const int x = 3 * rest[i];
          u[element + i] = static_cast<std::uint8_t>(x >> 8);
          rest[i] = static_cast<std::uint8_t>(x);
        }
    });
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block + 52, row, head);
  }
};

// The smallest fraction of 256 parts that is not below the digits' (of five, as all bytes have).
void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    std::uint8_t u[256];
    quantise_ternary<256>(row, out + 52, u);
    each_part([&](int at, int bytes, int element, int count) __attribute__((always_inline)) {
      for (int i = 0; i < bytes; ++i) {
        int number = 0;
        for (int j = 0; j < 5; ++j) number = 3 * number + (j < count ? u[element + bytes * j + i] : 0);
        out[at + i] = static_cast<std::byte>((256 * number + 242) / 243);
      }
    });
  }
}

}  // namespace

extern const Quant tq1_0;
const Quant tq1_0 = of_codes<Format>(
    {.summary = "ternary, five to a byte, blocks of 256, f16 scale", .fallback = "q4_0", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
