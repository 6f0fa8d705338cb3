#include "device/weight_forms.hpp"

#include <fmt/format.h>

#include "base/check.hpp"

namespace kvasir::device {
namespace {

constexpr signed char kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr signed char kFloats[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

constexpr WeightForm kForms[] = {
    {"q8_0", 8, 128, nullptr, 32, 1, false, Head::kHalf, 32},
    {"q4_0", 4, 8, nullptr, 32, 1, false, Head::kHalf, 32},
    {"q5_0", 5, 16, nullptr, 32, 1, false, Head::kHalf, 32},
    {"q4_1", 4, 0, nullptr, 32, 1, true, Head::kHalf, 64},
    {"q5_1", 5, 0, nullptr, 32, 1, true, Head::kHalf, 64},
    {"iq4_nl", 4, 0, kNonLinear, 32, 1, false, Head::kHalf, 32},
    {"q4_k", 4, 0, nullptr, 256, 1, true, Head::kK, 320},
    {"q5_k", 5, 0, nullptr, 256, 1, true, Head::kK, 320},
    {"q6_k", 6, 32, nullptr, 256, 2, false, Head::kSigned, 288},
    {"q3_k", 3, 4, nullptr, 256, 2, false, Head::kSigned, 288},
    {"q2_k", 2, 0, nullptr, 256, 2, true, Head::kQ2K, 320},
    {"iq4_xs", 4, 0, kNonLinear, 256, 1, false, Head::kIq4Xs, 160},
    {"mxfp4", 4, 0, kFloats, 32, 1, false, Head::kE8M0, 16},
    {"nvfp4", 4, 0, kFloats, 64, 2, false, Head::kE4M3, 64, true},
    {"affine8", 8, 128, nullptr, 64, 1, true, Head::kAffine, 128},
    {"affine6", 6, 0, nullptr, 64, 1, true, Head::kAffine, 128},
    {"int4_zero", 4, 0, nullptr, 32, 1, true, Head::kZeroPoint, 64},
};

const char* name_of(Head head) {
  switch (head) {
    case Head::kHalf:
      return "HEAD_HALF";
    case Head::kK:
      return "HEAD_K";
    case Head::kSigned:
      return "HEAD_SIGNED";
    case Head::kQ2K:
      return "HEAD_Q2_K";
    case Head::kIq4Xs:
      return "HEAD_IQ4_XS";
    case Head::kE8M0:
      return "HEAD_E8M0";
    case Head::kE4M3:
      return "HEAD_E4M3";
    case Head::kAffine:
      return "HEAD_AFFINE";
    case Head::kZeroPoint:
      return "HEAD_ZERO_POINT";
  }
  return "";
}

}  // namespace

std::span<const WeightForm> weight_forms() { return kForms; }

const WeightForm* form_of(const kernel::PanelFormat& format) {
  for (const WeightForm& f : kForms) {
    const weights::Quant* const quant = find(weights::quants(), f.name);
    if (quant && quant->panel == &format) return &f;
  }
  return nullptr;
}

const weights::Quant& quant_of(const WeightForm& form) {
  const weights::Quant* const quant = find(weights::quants(), form.name);
  KVASIR_CHECK(quant);
  return *quant;
}

std::string constants(const WeightForm& f) {
  // Blocks whose heads lie together: kernel::IntLayout.
  const int run = 256 / f.block, chunk = run * f.head_bytes % 64 == 0 ? run : 2 * run;
  std::string text = fmt::format(
      "#define BITS {}\n#define ZERO {}\n#define SUBS {}\n#define HALVES {}\n#define HEAD_BYTES {}\n"
      "#define CHUNK {}\n#define {}\n",
      f.bits, f.zero, f.block / 32, f.scales, f.head_bytes, chunk, name_of(f.head));
  if (f.minimum) text += "#define MINIMUM\n";
  if (f.factor) text += "#define FACTOR\n";
  for (int i = 0; f.levels && i < 4; ++i) {
    unsigned word = 0;
    for (int j = 0; j < 4; ++j) word |= static_cast<unsigned>(static_cast<unsigned char>(f.levels[4 * i + j])) << 8 * j;
    text += fmt::format("#define LEVELS{} 0x{:08x}u\n", i, word);
  }
  return text;
}

}  // namespace kvasir::device
