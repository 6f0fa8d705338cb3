// Which instruction sets this build has kernels for, which this machine can run, and which one is in use.
#pragma once

#include <iterator>
#include <string>
#include <string_view>

#include "simd/isas.hpp"

namespace kvasir::simd {

// In increasing order of preference. Every per-ISA table in the project is indexed by this enum. A set called k...Bf16
// has the kernels of the one before it, and multiplies F16 and BF16 weights by the bf16 dot product. kAvx512Amx has
// those of kAvx512Vnni and its bits, and multiplies pages of rotated codecs by AMX's tiles where many rows ask.
#define KVASIR_ISA_ENUMERATOR(isa, ...) isa,
enum class Isa { KVASIR_ISAS(KVASIR_ISA_ENUMERATOR) };
inline constexpr Isa kIsas[] = {
#define KVASIR_ISA_VALUE(isa, ...) Isa::isa,
    KVASIR_ISAS(KVASIR_ISA_VALUE)};
inline constexpr int kIsaCount = static_cast<int>(std::size(kIsas));

std::string_view name(Isa isa);          // "scalar", "avx2", "avx512vnni", ... or "neon", "neondot", ...
std::string_view requirements(Isa isa);  // the CPU features it needs, for `kvasir info`
bool built(Isa isa);                     // whether this build has its kernels (KVASIR_ISAS)
bool supported(Isa isa);                 // by this machine (CPU and operating system), or emulated, and built
bool has_tiles(Isa isa);                 // kernel/tiles.hpp

// Why a set is not supported though the processor has what it needs, such as an operating system that withholds the
// tiles of AMX; empty otherwise.
std::string_view withheld(Isa isa);

// Whether it is chosen by itself where it is supported: kAvx512Bf16 on AMD's processors, which (Zen 4 on) do twice the
// multiply-adds with bf16 that they do with float32, Intel's half of them; kNeonBf16 not until measured.
bool preferred(Isa isa);

// Whether this build computes it with other instructions, for tests: AVX-512 with AVX2 (-DKVASIR_EMULATE_AVX512=ON),
// whose speed means nothing, AVX-VNNI as AVX-512 encodes it (-DKVASIR_AVX_VNNI_BY_AVX512=ON).
bool emulated(Isa isa);
std::string label(Isa isa);  // the name, and that it is emulated where it is; for what people and files are told

// The one that kernels dispatch to: KVASIR_ISA when set, else the last one that is supported and preferred. Decided at
// the first call; throws Error(kUnsupported) when KVASIR_ISA names an unknown or unsupported set.
Isa active();

// For tests: run everything with `isa` until the next call. REQUIRES: supported(isa), no kernel running.
void force(Isa isa);

}  // namespace kvasir::simd

// Declares the per-ISA instances of a kernel table, a function that returns the active one, and one that returns a
// set's:
//   KVASIR_DECLARE_KERNELS(MatmulKernels, matmul)  in kvasir::kernel
//     ->  const MatmulKernels& matmul();  const MatmulKernels& matmul_of(simd::Isa);
#define KVASIR_ISA_TABLE(isa, name, copy, shims, needs, Type, function) \
  namespace KVASIR_COPY_##copy {                                        \
    extern const Type function##_table;                                 \
  }
#define KVASIR_ISA_CASE(isa, name, copy, shims, needs, Type, function) \
  case ::kvasir::simd::Isa::isa:                                       \
    return KVASIR_COPY_##copy::function##_table;
#define KVASIR_DECLARE_KERNELS(Type, function)                    \
  KVASIR_ISAS(KVASIR_ISA_TABLE, Type, function)                   \
  inline const Type& function##_of(::kvasir::simd::Isa isa) {     \
    switch (isa) { KVASIR_ISAS(KVASIR_ISA_CASE, Type, function) } \
    __builtin_unreachable();                                      \
  }                                                               \
  inline const Type& function() { return function##_of(::kvasir::simd::active()); }
