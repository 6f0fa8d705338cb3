#include "simd/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "simd/bf16_products.hpp"

namespace kvasir::simd {
namespace {

#define KVASIR_ISA_NAME(isa, name, ...) #name,
#define KVASIR_ISA_NEEDS(isa, name, copy, shims, needs, ...) needs,
constexpr std::string_view kNames[kIsaCount] = {KVASIR_ISAS(KVASIR_ISA_NAME)};
constexpr std::string_view kRequirements[kIsaCount] = {KVASIR_ISAS(KVASIR_ISA_NEEDS)};
#define KVASIR_TEXT(x) #x
#define KVASIR_TEXT_OF(x) KVASIR_TEXT(x)
#define KVASIR_ISA_BUILT(isa, name, copy, ...) std::string_view(KVASIR_TEXT_OF(KVASIR_COPY_##copy)) == #copy,
constexpr bool kBuilt[kIsaCount] = {KVASIR_ISAS(KVASIR_ISA_BUILT)};

std::atomic<int> g_active{-1};

#if defined(__x86_64__)
// clang before 17 knows no "f16c" in __builtin_cpu_supports. The operating system's part is covered by asking for AVX2.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
// Leaf 7, subleaf 1, EAX bit 4; compilers before GCC 11 and clang 12 have no name for it. Its registers are those of
// AVX2.
[[maybe_unused]] bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) != 0;
}
// Leaf 7, EDX bits 24 (AMX-TILE) and 25 (AMX-INT8).
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3;
}
// Leaf 7, EDX bit 22 (AMX-BF16). Every processor with AMX so far has all three; a hypervisor may hide one.
bool lacks_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_amx() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) == 0;
}
// Whether this process may use tiles. Linux gives them on request: without it the first one ends the program. The
// request is for all threads and is inherited by fork; it fails where the kernel is older than 5.16, a hypervisor or a
// sandbox refuses, or a thread has an alternate stack for signals that is too small for what tiles add.
bool may_use_tiles() {
#if defined(__linux__)
  static const bool granted = [] {
    constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return granted;
#else
  return false;
#endif
}
#elif defined(__aarch64__)
// What the kernel says that programs may use.
struct Features {
  bool dot = false, i8mm = false, bf16 = false;
};
#if defined(__linux__)
Features features() {
  // By number: headers of older systems lack the names HWCAP_ASIMDDP, HWCAP2_I8MM and HWCAP2_BF16.
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  return {(first >> 20 & 1) != 0, (second >> 13 & 1) != 0, (second >> 14 & 1) != 0};
}
#elif defined(__APPLE__)
bool says(const char* feature) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}
Features features() {
  return {says("hw.optional.arm.FEAT_DotProd"), says("hw.optional.arm.FEAT_I8MM"), says("hw.optional.arm.FEAT_BF16")};
}
#else
Features features() { return {}; }
#endif
#endif

Isa choose() {
  if (const char* wanted = std::getenv("KVASIR_ISA"); wanted && *wanted) {
    for (int i = 0; i < kIsaCount; ++i) {
      if (kNames[i] != wanted) continue;
      if (!built(static_cast<Isa>(i)))
        throw Error(Code::kUnsupported,
                    "this build has no kernels for '" + std::string(wanted) + "' (cmake's KVASIR_ISAS)", "KVASIR_ISA");
      if (!supported(static_cast<Isa>(i)))
        throw Error(Code::kUnsupported,
                    withheld(static_cast<Isa>(i)).empty()
                        ? "this machine lacks " + std::string(kRequirements[i]) + " for '" + wanted + "'"
                        : std::string(withheld(static_cast<Isa>(i))) + ", which '" + wanted + "' needs",
                    "KVASIR_ISA");
      return static_cast<Isa>(i);
    }
    std::string known;
    for (int i = 0; i < kIsaCount; ++i) known.append(i == 0 ? "" : i + 1 < kIsaCount ? ", " : " or ").append(kNames[i]);
    throw Error(Code::kUnsupported, "unknown instruction set '" + std::string(wanted) + "', expected " + known,
                "KVASIR_ISA");
  }
  int best = 0;
  for (int i = 1; i < kIsaCount; ++i)
    if (supported(static_cast<Isa>(i)) && preferred(static_cast<Isa>(i))) best = i;
  return static_cast<Isa>(best);
}

}  // namespace

std::string_view name(Isa isa) { return kNames[static_cast<int>(isa)]; }
bool built(Isa isa) { return kBuilt[static_cast<int>(isa)]; }
std::string_view requirements(Isa isa) { return kRequirements[static_cast<int>(isa)]; }

bool emulated([[maybe_unused]] Isa isa) {
#if defined(KVASIR_EMULATE_AVX512)
  if (isa == Isa::kAvx512Vnni) return true;
#endif
#if defined(KVASIR_AVX_VNNI_BY_AVX512)
  if (isa == Isa::kAvxVnni) return true;
#endif
  return false;
}

std::string label(Isa isa) { return std::string(name(isa)) + (emulated(isa) ? " (emulated)" : ""); }

#if defined(__x86_64__)

bool supported(Isa isa) {
  if (!built(isa)) return false;
  __builtin_cpu_init();  // also asks the operating system whether it saves the wide registers
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#if defined(KVASIR_EMULATE_AVX512)
  if (emulated(isa)) return avx2;
  if (isa == Isa::kAvx512Bf16 || isa == Isa::kAvx512Amx) return false;  // these products are not emulated
#endif
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvxVnni:
#if defined(KVASIR_AVX_VNNI_BY_AVX512)
      return avx512 && __builtin_cpu_supports("avx512vnni");
#else
      return avx2 && has_avx_vnni();
#endif
    case Isa::kAvx512Vnni:
      return avx512 && __builtin_cpu_supports("avx512vnni");
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
    case Isa::kAvx512Amx:
      return avx512 && __builtin_cpu_supports("avx512vnni") && has_amx() && may_use_tiles();
  }
  return false;
}

std::string_view withheld(Isa isa) {
  return isa == Isa::kAvx512Amx && has_amx() && !may_use_tiles() ? "the operating system withholds AMX's tiles" : "";
}

bool has_tiles(Isa isa) { return isa == Isa::kAvx512Amx; }
bool has_bf16_tiles(Isa isa) {
  static const bool lacks = lacks_amx_bf16();
  return has_tiles(isa) && !lacks;
}
bool converts_to_bf16(Isa isa) {
  static const bool has = (__builtin_cpu_init(), __builtin_cpu_supports("avx512bf16"));
  return has && (isa == Isa::kAvx512Bf16 || isa == Isa::kAvx512Amx);
}
bool multiplies_bf16(Isa isa) { return isa == Isa::kAvx512Bf16; }

bool preferred(Isa isa) {
  __builtin_cpu_init();
  return isa != Isa::kAvx512Bf16 || __builtin_cpu_is("amd");
}

#elif defined(__aarch64__)

bool supported(Isa isa) {
  if (!built(isa)) return false;
  const Features has = features();
  switch (isa) {
    case Isa::kScalar:
    case Isa::kNeon:
      return true;
    case Isa::kNeonDot:
      return has.dot;
    case Isa::kNeonI8mm:
    case Isa::kNeonBf16:
      return has.dot && has.i8mm && has.bf16;
  }
  return false;
}

std::string_view withheld(Isa) { return ""; }
bool has_tiles(Isa) { return false; }
bool has_bf16_tiles(Isa) { return false; }
bool converts_to_bf16(Isa) { return false; }
bool multiplies_bf16(Isa isa) { return isa == Isa::kNeonBf16; }

bool preferred(Isa isa) { return isa != Isa::kNeonBf16; }

#else

bool supported(Isa isa) { return built(isa); }
std::string_view withheld(Isa) { return ""; }
bool has_tiles(Isa) { return false; }
bool has_bf16_tiles(Isa) { return false; }
bool converts_to_bf16(Isa) { return false; }
bool multiplies_bf16(Isa) { return false; }
bool preferred(Isa) { return true; }

#endif

Isa active() {
  int i = g_active.load(std::memory_order_relaxed);
  if (i < 0) {
    i = static_cast<int>(choose());
    g_active.store(i, std::memory_order_relaxed);
  }
  return static_cast<Isa>(i);
}

void force(Isa isa) { g_active.store(static_cast<int>(isa), std::memory_order_relaxed); }

}  // namespace kvasir::simd
