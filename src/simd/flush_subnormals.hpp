// While it lives, this thread's float arithmetic takes numbers below the smallest normal one as 0 and gives 0 for them.
// The work has to be a call that is not inlined: compilers move arithmetic across a change of the mode.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define KVASIR_MODE_INLINE inline __attribute__((always_inline))  // kernels export nothing that sets could share

namespace kvasir::simd {

class FlushSubnormals {
 public:
  KVASIR_MODE_INLINE FlushSubnormals() : before_(mode()) { set(before_ | kFlush); }
  KVASIR_MODE_INLINE ~FlushSubnormals() { set(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  using Mode = unsigned;
  static constexpr Mode kFlush = 1u << 15 | 1u << 6;  // results (FTZ), operands (DAZ)
  static KVASIR_MODE_INLINE Mode mode() { return _mm_getcsr(); }
  static KVASIR_MODE_INLINE void set(Mode m) { _mm_setcsr(m); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kFlush = 1u << 24;  // FZ of FPCR: both
  static KVASIR_MODE_INLINE Mode mode() {
    Mode m;
    asm volatile("mrs %0, fpcr" : "=r"(m));
    return m;
  }
  static KVASIR_MODE_INLINE void set(Mode m) { asm volatile("msr fpcr, %0" ::"r"(m) : "memory"); }
#else
  using Mode = unsigned;
  static constexpr Mode kFlush = 0;
  static KVASIR_MODE_INLINE Mode mode() { return 0; }
  static KVASIR_MODE_INLINE void set(Mode) {}
#endif
  Mode before_;
};

}  // namespace kvasir::simd

#undef KVASIR_MODE_INLINE
