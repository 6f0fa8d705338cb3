// How fast codecs answer attention's two products on one thread, against this machine's read bandwidth and 8-bit
// product peak; and what sealing and unsealing cost.
//   codec_bench [d [g [MiB [name ...]]]]
// CPU time of the thread, so that other work on the machine counts little. Pages lie in extents that are scattered over
// MiB of memory, as those of the cache do.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>

#include "kernel/attention.hpp"
#include "kernel/peak.hpp"
#include "kv/codec_fixture.hpp"
#include "simd/isa.hpp"

namespace kvasir::kv {
namespace {

using namespace codec_fixture;

double now() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Least seconds of one call.
template <class F>
double fastest(int runs, F f) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

double read_gbps(const tensor::Buffer& memory) {
  volatile std::uint64_t sink = 0;
  double seconds = 1e9;
  for (const auto read : kernel::peak().read)
    seconds = std::min(seconds, fastest(5, [&] { sink = sink + read(memory.data(), memory.size()); }));
  return static_cast<double>(memory.size()) / seconds * 1e-9;
}

double peak_gops() {
  float sink = 0;
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const double start = now();
    const auto operations = static_cast<double>(kernel::peak().int8_dot(200000, &sink));
    best = std::max(best, operations / (now() - start) * 1e-9);
  }
  return best;
}

struct Machine {
  const tensor::Buffer& memory;
  double gbps;
  double gops;
};

// Both products on extents of pages in random order, kGroupPages at a time as attention asks for them.
void bench_product(const Subject& s, int g, const Machine& machine) {
  const std::size_t bytes = s.page->size();
  const auto extent = static_cast<std::size_t>(std::max(extent_pages(bytes), kGroupPages));
  const std::size_t pages = machine.memory.size() / bytes / extent * extent;
  std::byte* base = machine.memory.data();
  for (std::size_t i = 0; i < pages; ++i) std::memcpy(base + i * bytes, s.page->data(), bytes);
  std::vector<std::size_t> extents(pages / extent);
  std::iota(extents.begin(), extents.end(), std::size_t{0});
  std::shuffle(extents.begin(), extents.end(), std::mt19937(5));
  constexpr int kStride = kGroupPages * kPageTokens;
  const int pitch = kernel::out_pitch(s.d);
  const auto q = gaussian(static_cast<std::size_t>(g * s.d), 6);
  auto w = gaussian(static_cast<std::size_t>(g * kStride), 7);
  for (float& x : w) x = std::exp(x);
  std::vector<float> out(static_cast<std::size_t>(g * std::max(kStride, kGroupPages * pitch)));
  const auto pass = [&](std::size_t count, bool cold) {
    for (std::size_t i = 0; i < count; i += kGroupPages) {
      PageRef refs[kGroupPages];
      for (std::size_t j = 0; j < kGroupPages; ++j) {
        const auto at = [&](std::size_t k) {
          return base + (cold ? extents[k / extent % extents.size()] * extent + k % extent : k % 2) * bytes;
        };
        refs[j] = {at(i + j), 0, kPageTokens, kPageTokens, at(i + j + kFetchAhead)};
      }
      if (s.side == Side::kKeys)
        s.codec->dots(s.head(), refs, kGroupPages, q.data(), g, out.data(), kStride);
      else
        s.codec->accumulate(s.head(), refs, kGroupPages, w.data(), kStride, g, out.data(), pitch);
    }
  };
  const double cold = fastest(5, [&] { pass(pages, true); }) / static_cast<double>(pages);
  const double hot = fastest(7, [&] { pass(1600, false); }) / 1600;
  const double operations = 2.0 * g * kPageTokens * s.d;
  std::printf(
      "  %-10s %6.2f GB/s = %5.1f%% of %.1f, %6.1f GOP/s = %5.1f%% of %.1f; from cache %6.2f GB/s, %6.1f GOP/s = "
      "%5.1f%%\n",
      s.side == Side::kKeys ? "dots" : "accumulate", static_cast<double>(bytes) / cold * 1e-9,
      static_cast<double>(bytes) / cold * 1e-7 / machine.gbps, machine.gbps, operations / cold * 1e-9,
      operations / cold * 1e-7 / machine.gops, machine.gops, static_cast<double>(bytes) / hot * 1e-9,
      operations / hot * 1e-9, operations / hot * 1e-7 / machine.gops);
}

void bench_side(const std::string& name, int d, Side side, int g, const Machine& machine) {
  std::unique_ptr<Subject> subject;
  try {
    subject = std::make_unique<Subject>(name, d, side);
  } catch (const Error&) {
    return;
  }
  Subject& s = *subject;
  const double elements = static_cast<double>(kPageTokens * d);
  s.seal(make_rows(d, 3), 0);

  tensor::Buffer raw(tensor::Tag::kCache, static_cast<std::size_t>(kPageTokens * d) * 4 + kReadSlack);
  const char* raw_name = s.codec->raw_type == RawType::kF32   ? "f32"
                         : s.codec->raw_type == RawType::kF16 ? "f16"
                                                              : "bf16";
  const Codec& writer = *find(codecs(), raw_name);
  const auto rows = make_rows(d, 3);
  (side == Side::kKeys ? writer.write_k : writer.write_v)(raw.data(), kPageTokens, 0, kPageTokens, rows.data(), d, d);
  tensor::Buffer scratch(tensor::Tag::kScratch, seal_floats(d) * sizeof(float));
  const double seal = fastest(9, [&] {
    for (int i = 0; i < 20; ++i) s.of_side().seal(s.head(), raw.data(), 0, scratch.as<float>(), s.page->data());
  });
  tensor::Buffer tile(tensor::Tag::kScratch, static_cast<std::size_t>(kPageTokens * ((d + 63) / 64 * 64)) * 4);
  const double unseal = fastest(9, [&] {
    for (int i = 0; i < 50; ++i) s.of_side().unseal(s.head(), s.ref(0, kPageTokens), tile.as<float>());
  });
  std::printf("%s %s d %d g %d: %.3f bits; seal %.2f, unseal %.2f ns per element\n", name.c_str(),
              side == Side::kKeys ? "keys" : "values", d, g, 8.0 * static_cast<double>(s.page->size()) / elements,
              seal / 20 / elements * 1e9, unseal / 50 / elements * 1e9);
  bench_product(s, g, machine);
  std::fflush(stdout);
}

}  // namespace
}  // namespace kvasir::kv

int main(int argc, char** argv) {
  using namespace kvasir;
  using namespace kvasir::kv;
  const int d = argc > 1 ? std::atoi(argv[1]) : 128;
  const int g = argc > 2 ? std::atoi(argv[2]) : 4;
  const int mib = argc > 3 ? std::atoi(argv[3]) : 512;
  const tensor::Buffer memory(tensor::Tag::kCache, static_cast<std::size_t>(mib) << 20);
  std::memset(memory.data(), 1, memory.size());
  const Machine machine{memory, read_gbps(memory), peak_gops()};
  std::vector<std::string> names(argv + std::min(argc, 4), argv + argc);
  if (names.empty())
    for (const auto& e : codecs()) names.emplace_back(e.name);
  for (const std::string& name : names)
    for (const Side side : {Side::kKeys, Side::kValues}) bench_side(name, d, side, g, machine);
}
