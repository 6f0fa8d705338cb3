#include "kernel/streaming.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace kvasir::kernel {
namespace {

constexpr const char* kNames[kStreamings] = {"interleaved", "plain", "ahead"};
std::atomic<int> g_streaming{-1};

#if defined(__x86_64__)
bool has_avx_vnni() {  // GCC 12 knows no "avxvnni" in __builtin_cpu_supports
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

Streaming choose() {
  if (const char* wanted = std::getenv("KVASIR_STREAMING"); wanted && *wanted) {
    for (int i = 0; i < kStreamings; ++i)
      if (std::string(kNames[i]) == wanted) return static_cast<Streaming>(i);
    throw Error(Code::kUnsupported,
                "unknown way of reading '" + std::string(wanted) + "', expected interleaved, plain or ahead",
                "KVASIR_STREAMING");
  }
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f"))
    return has_avx_vnni() ? Streaming::kAhead : Streaming::kPlain;
#endif
  return Streaming::kInterleaved;
}

}  // namespace

Streaming streaming() {
  int i = g_streaming.load(std::memory_order_relaxed);
  if (i < 0) {
    i = static_cast<int>(choose());
    g_streaming.store(i, std::memory_order_relaxed);
  }
  return static_cast<Streaming>(i);
}

void force(Streaming way) { g_streaming.store(static_cast<int>(way), std::memory_order_relaxed); }

}  // namespace kvasir::kernel
