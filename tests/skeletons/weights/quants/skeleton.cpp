// A number format of weights: copy to src/weights/quants/NAME.cpp and rename `skeleton` to NAME. Compiled once per
// instruction set. Contract: weights/quant.hpp; what the struct holds: kernel/int_planes.hpp; helpers:
// weights/families.
//
// This one has a table of levels: blocks of 32 elements, f16 d, 16 bytes of nibbles (element i low in byte i, element
// i + 16 high), x = d level[u]. A type without a table leaves kLevels out and says with kZero which code is 0. Its
// numbers in GGUF files are its own, as ggml does not number it; a type that ggml numbers has none here.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/levels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format {
  static constexpr std::int8_t kLevels[16] = {-128, -96, -70, -50, -34, -21, -11, -3, 3, 11, 21, 34, 50, 70, 96, 127};
  static constexpr int kBits = 4, kBlock = 32, kScales = 1, kBlockBytes = 18, kHeadBytes = 32;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) { nibbles(block + 2, u, 16); }
  static void pack_head(const std::byte* block, int row, std::byte* head) { put_half(block, row, head); }
  KVASIR_INLINE void load_head(const std::byte* head, int, F32* d, F32*) { d[0] = get_halves(head); }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += 18) {
    put_half_value(extreme(row, 32) / -128.0f, out);
    std::uint8_t u[32];
    encode_levels(row, 32, half_at(out), Format::kLevels, u);
    put_nibbles(u, out + 2, 16);
  }
}

}  // namespace

extern const Quant skeleton;
const Quant skeleton = of_codes<Format>(
    {.summary = "a type that no file has", .gguf_type = 1000, .gguf_file_type = 1000, .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
