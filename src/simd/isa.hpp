// Which instruction sets this build has kernels for, which this machine can run, and which one is in use.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir::simd {

// In increasing order of preference. Every per-ISA table in the project is indexed by this enum. kAvx512Bf16 has the
// instructions and kernels of kAvx512Vnni, and multiplies F16 and BF16 weights by the bf16 dot product.
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16 };
inline constexpr int kIsaCount = 5;

std::string_view name(Isa isa);          // "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16"
std::string_view requirements(Isa isa);  // the CPU features it needs, for `kvasir info`
bool supported(Isa isa);                 // by this machine (CPU and operating system), or emulated

// Whether it is chosen by itself where it is supported: kAvx512Bf16 only where it is faster. AMD's processors (Zen 4
// on) do twice the multiply-adds with bf16 that they do with float32, Intel's without AMX half of them.
bool preferred(Isa isa);

// Whether this build computes it with AVX2 (-DKVASIR_EMULATE_AVX512=ON): right, but its speed means nothing.
bool emulated(Isa isa);
std::string label(Isa isa);  // the name, and that it is emulated where it is; for what people and files are told

// The one that kernels dispatch to: KVASIR_ISA when set, else the last one that is supported and preferred. Decided at
// the first call; throws Error(kUnsupported) when KVASIR_ISA names an unknown or unsupported set.
Isa active();

// For tests: run everything with `isa` until the next call. REQUIRES: supported(isa), no kernel running.
void force(Isa isa);

}  // namespace kvasir::simd

// Declares the per-ISA instances of a kernel table and a function that returns the active one:
//   KVASIR_DECLARE_KERNELS(MatmulKernels, matmul)  in kvasir::kernel  ->  const MatmulKernels& matmul();
#define KVASIR_DECLARE_KERNELS(Type, function) \
  namespace scalar {                           \
  extern const Type function##_table;          \
  }                                            \
  namespace avx2 {                             \
  extern const Type function##_table;          \
  }                                            \
  namespace avx512 {                           \
  extern const Type function##_table;          \
  }                                            \
  namespace avx512vnni {                       \
  extern const Type function##_table;          \
  }                                            \
  inline const Type& function() {              \
    switch (::kvasir::simd::active()) {        \
      case ::kvasir::simd::Isa::kAvx512Bf16:   \
      case ::kvasir::simd::Isa::kAvx512Vnni:   \
        return avx512vnni::function##_table;   \
      case ::kvasir::simd::Isa::kAvx512:       \
        return avx512::function##_table;       \
      case ::kvasir::simd::Isa::kAvx2:         \
        return avx2::function##_table;         \
      case ::kvasir::simd::Isa::kScalar:       \
        break;                                 \
    }                                          \
    return scalar::function##_table;           \
  }
