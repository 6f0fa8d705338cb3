// How fast packed matrices are multiplied, against this machine's byte product peak and read bandwidth. Built by hand
// for one instruction set, as a library source is (cmake/isa.cmake), for example
//   g++ -std=c++20 -O3 -fno-math-errno -ffp-contract=off -DKVASIR_TARGET=avx2 -DKVASIR_TARGET_avx2=1 -mavx2 -mfma
//   -mf16c
//       -mbmi -mbmi2 -Isrc src/kv/packed_bench.cpp
// One thread, CPU time. "L2": one page of 128 lanes x 128 depth again and again; "memory": pages scattered over 1 GB.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <numeric>
#include <vector>

#include "kv/int8_row.hpp"
#include "kv/packed.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

constexpr int kLanesOfPage = 128;
constexpr int kDepth = 128;

double now() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Memory {
  explicit Memory(std::size_t n)
      : bytes(n), data(static_cast<std::byte*>(std::aligned_alloc(std::size_t{2} << 20, n)), std::free) {
    ::madvise(data.get(), n, MADV_HUGEPAGE);  // as tensor::Buffer does
    for (std::size_t i = 0; i < n; ++i) data.get()[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  }
  std::size_t bytes;
  std::unique_ptr<std::byte, void (*)(void*)> data;
};

volatile std::int32_t sink;

template <int B, class Map, int G>
__attribute__((noinline)) void page_dots(const std::byte* page, const std::byte* next, const Map& map,
                                         const std::int8_t* x, int part, std::int32_t* out) {
  constexpr std::ptrdiff_t kPanel = static_cast<std::ptrdiff_t>(packed_panel_bytes(B, kDepth));
  for (int p = 0; p < kLanesOfPage / 16; ++p) {
    for (int k = 0; k < kDepth; k += part) {
      I32 acc[G];
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) acc[g] = dots_start<B, Map>(0);
      panel_dots<B, Map, G>(page + p * kPanel, k, k + part, map, x, kDepth, next + p * kPanel, acc);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) store_i32(out + 16 * g, acc[g]);
    }
  }
}

template <int B, class Map, int G>
double seconds_per_page(const Memory& memory, const Map& map, int part, std::size_t pages) {
  constexpr std::size_t kPage = packed_bytes(B, kLanesOfPage, kDepth);
  alignas(64) std::int8_t x[8 * kDepth];
  for (int i = 0; i < 8 * kDepth; ++i) x[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
  alignas(64) std::int32_t out[8 * 16];
  std::vector<std::size_t> order(pages);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t seed = 1;
  for (std::size_t i = pages; i > 1; --i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(seed >> 33) % i]);
  }
  double best = 1e9;
  for (int run = 0; run < 7; ++run) {
    const std::size_t count = std::max<std::size_t>(pages, 2000);
    const double start = now();
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* page = memory.data.get() + order[i % pages] * kPage;
      const std::byte* next = memory.data.get() + order[(i + 1) % pages] * kPage;
      page_dots<B, Map, G>(page, next, map, x, part, out);
    }
    best = std::min(best, (now() - start) / static_cast<double>(count));
    sink = out[0];
  }
  return best;
}

template <int B, class Map, int G>
void bench(const char* name, const Map& map, int part, const Memory& memory, double peak, double bandwidth) {
  constexpr double kBytes = packed_bytes(B, kLanesOfPage, kDepth);
  constexpr double kOps = 2.0 * G * kLanesOfPage * kDepth;
  const double hot = seconds_per_page<B, Map, G>(memory, map, part, 1);
  const double cold =
      seconds_per_page<B, Map, G>(memory, map, part, memory.bytes / static_cast<std::size_t>(kBytes) - 1);
  std::printf(
      "%d bits %-8s G %d part %3d: cache %6.1f GB/s %6.1f GOP/s = %5.1f%% of peak | memory %5.1f GB/s = %5.1f%%, %6.1f "
      "GOP/s\n",
      B, name, G, part, kBytes / hot * 1e-9, kOps / hot * 1e-9, 1e-7 * kOps / hot / peak, kBytes / cold * 1e-9,
      1e-7 * kBytes / cold / bandwidth, kOps / cold * 1e-9);
  std::fflush(stdout);
}

template <int B, class Map>
void bench_rows(const char* name, const Map& map, int part, const Memory& memory, double peak, double bandwidth) {
  bench<B, Map, 1>(name, map, part, memory, peak, bandwidth);
  bench<B, Map, 4>(name, map, part, memory, peak, bandwidth);
}

// GOP/s of widened byte products (vpmaddubsw + vpmaddwd + vpaddd, or vpdpbusd) on registers.
double byte_peak() {
  double best = 0;
  for (int run = 0; run < 7; ++run) {
    I32 acc[6];
    for (I32& a : acc) a = zero_i32();
    alignas(64) std::uint8_t bytes[64] = {1, 2, 3};
    const double start = now();
    constexpr int kRounds = 1000000;
    for (int i = 0; i < kRounds; ++i) {
      KVASIR_UNROLL(6)
      for (int j = 0; j < 6; ++j) {
        asm volatile("" : : "r"(bytes) : "memory");  // six loads, six products
        const Bytes u = load_bytes(bytes);
        acc[j] = dot_us(acc[j], u, u);
      }
    }
    best = std::max(best, 128.0 * 6 * kRounds / (now() - start));
    for (const I32& a : acc) sink = reduce_add(a);
  }
  return best * 1e-9;
}

double read_peak(const Memory& memory) {
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    Bytes acc[4] = {zero_bytes(), zero_bytes(), zero_bytes(), zero_bytes()};
    const double start = now();
    const std::size_t part = memory.bytes / 4;
    for (std::size_t i = 0; i < part; i += 64)
      for (std::size_t s = 0; s < 4; ++s) {
        __builtin_prefetch(memory.data.get() + s * part + i + 1024);
        acc[s] = xor_(acc[s], load_bytes(memory.data.get() + s * part + i));
      }
    best = std::max(best, static_cast<double>(memory.bytes) / (now() - start));
    alignas(64) std::uint8_t bytes[64];
    store_bytes(bytes, xor_(xor_(acc[0], acc[1]), xor_(acc[2], acc[3])));
    sink = bytes[5];
  }
  return best * 1e-9;
}

template <int B>
void bench_others(const Memory& memory) {
  std::vector<std::uint8_t> codes(kLanesOfPage * kDepth);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(memory.data.get()[i]) & ((1 << B) - 1);
  std::vector<std::byte> page(packed_bytes(B, kLanesOfPage, kDepth));
  alignas(64) static float tile[kLanesOfPage * kDepth];
  double best[3] = {1e9, 1e9, 1e9};
  for (int run = 0; run < 7; ++run) {
    constexpr int kRounds = 300;
    double t[4];
    t[0] = now();
    for (int i = 0; i < kRounds; ++i) pack_matrix<B>(codes.data(), kLanesOfPage, kDepth, page.data());
    t[1] = now();
    for (int i = 0; i < kRounds; ++i) pack_matrix_transposed<B>(codes.data(), kLanesOfPage, kDepth, page.data());
    t[2] = now();
    for (int i = 0; i < kRounds; ++i)
      for (int p = 0; p < kLanesOfPage / 16; ++p)
        panel_floats<B>(
            page.data() + static_cast<std::size_t>(p) * packed_panel_bytes(B, kDepth), 0, kDepth,
            Codes{}, [&](int k, F32 row) __attribute__((always_inline)) {
              store(tile + k * 64 + p % 4 * 16 + p / 4 * 64 * kDepth, fma(row, set1(0.5f), set1(0.25f)));
            });
    t[3] = now();
    sink = static_cast<int>(tile[77]);
    for (int i = 0; i < 3; ++i) best[i] = std::min(best[i], (t[i + 1] - t[i]) / kRounds / (kLanesOfPage * kDepth));
  }
  std::printf("%d bits: pack %.3f, transposed %.3f, to floats %.3f ns per element\n", B, best[0] * 1e9, best[1] * 1e9,
              best[2] * 1e9);
}

int run() {
  const Memory memory(std::size_t{1} << 30);
  const double peak = byte_peak();
  const double bandwidth = read_peak(memory);
  std::printf("byte products %.1f GOP/s, reading %.1f GB/s\n", peak, bandwidth);
  std::uint8_t values[32];
  for (int i = 0; i < 32; ++i) values[i] = static_cast<std::uint8_t>(i);
  bench_rows<1>("codes", Codes{}, kDepth, memory, peak, bandwidth);
  bench_rows<2>("codes", Codes{}, kDepth, memory, peak, bandwidth);
  bench_rows<3>("codes", Codes{}, kDepth, memory, peak, bandwidth);
  bench_rows<4>("codes", Codes{}, kDepth, memory, peak, bandwidth);
  bench_rows<5>("codes", Codes{}, kDepth, memory, peak, bandwidth);
  bench_rows<8>("codes", Codes{}, kDepth, memory, peak, bandwidth);
  bench_rows<4>("codes", Codes{}, 32, memory, peak, bandwidth);
  bench_rows<2>("codes", Codes{}, 32, memory, peak, bandwidth);
  bench_rows<2>("table31", Table<2, 31>::load(values), kDepth, memory, peak, bandwidth);
  bench_rows<3>("table31", Table<3, 31>::load(values), kDepth, memory, peak, bandwidth);
  bench_rows<4>("table31", Table<4, 31>::load(values), kDepth, memory, peak, bandwidth);
  bench_rows<4>("table63", Table<4, 63>::load(values), kDepth, memory, peak, bandwidth);
  bench_rows<4>("table127", Table<4, 127>::load(values), kDepth, memory, peak, bandwidth);
  bench_rows<5>("table63", Table<5, 63>::load(values), kDepth, memory, peak, bandwidth);
  bench_rows<5>("table127", Table<5, 127>::load(values), kDepth, memory, peak, bandwidth);
  bench_others<1>(memory);
  bench_others<2>(memory);
  bench_others<3>(memory);
  bench_others<4>(memory);
  bench_others<5>(memory);
  bench_others<8>(memory);
  alignas(64) float row[128];
  alignas(64) std::int8_t ints[128];
  for (int i = 0; i < 128; ++i) row[i] = static_cast<float>(i % 17) - 8.0f;
  const double start = now();
  for (int i = 0; i < 1000000; ++i) {
    asm volatile("" : : "r"(row) : "memory");
    sink = quantize_row(row, 128, ints).sum;
  }
  std::printf("quantize_row of 128: %.1f ns\n", (now() - start) * 1e3);
  return 0;
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET

int main() { return kvasir::kv::entries::codecs::KVASIR_TARGET::run(); }
