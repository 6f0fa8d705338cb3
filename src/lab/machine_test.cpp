#include "lab/machine.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "simd/emulated_amx_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::lab {
namespace {

void expect_ordered(const Figure& f) {
  EXPECT_GT(f.low, 0);
  EXPECT_LE(f.low, f.median);
  EXPECT_LE(f.median, f.high);
  EXPECT_GT(f.cpu_share, 0);
  EXPECT_LE(f.cpu_share, 1.05);  // clocks differ a little
}

TEST(Machine, FiguresArePlausible) {
  for (int threads : {1, 2}) {
    Team team(threads);
    const Machine m = measure_machine(team, {.quick = true});
    EXPECT_EQ(m.threads, threads);
    EXPECT_EQ(m.isa, simd::active());
    EXPECT_EQ(m.buffer_bytes % (2u << 20), 0u);
    EXPECT_LE(m.buffer_bytes, 256u << 20);
    for (const Figure& f : {m.read_bytes, m.int8_ops, m.bf16_ops, m.f32_ops}) expect_ordered(f);
    EXPECT_GT(m.read_bytes.median, 5e8);   // no machine that this builds for is below
    EXPECT_LT(m.read_bytes.median, 1e13);  // and none above
    EXPECT_GT(m.f32_ops.median, 1e7);
    EXPECT_LT(m.int8_ops.median, 1e15);
    EXPECT_GT(m.meeting, threads > 1 ? 2e-8 : 0);  // light takes as long to cross a board and back
    EXPECT_LT(m.meeting, 0.1);
  }
}

#if defined(__linux__)
// What is large enough is read where it lies: pages that nobody has touched are there afterwards. Of smaller memory
// nothing is read.
TEST(Machine, ReadsMemoryThatIsThere) {
  constexpr std::size_t kBytes = std::size_t{300} << 20, kPage = 4096;
  for (const int threads : {2, 140}) {  // with many threads more than is read of a model otherwise
    Team team(threads);
    const std::size_t wanted = std::max(std::size_t{256} << 20, threads * (std::size_t{2} << 20));
    for (const std::size_t bytes : {kBytes, std::size_t{1} << 20}) {
      void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      expect_ordered(measure_reads(team, {static_cast<const std::byte*>(memory), bytes}));
      std::vector<unsigned char> there(bytes / kPage);
      ASSERT_EQ(mincore(memory, bytes, there.data()), 0);
      const auto pages = static_cast<std::size_t>(std::count(there.begin(), there.end(), 1));
      const std::size_t read = bytes == kBytes ? wanted / kPage : 0;
      EXPECT_GE(pages, read) << threads;
      EXPECT_LE(pages, read > 0 ? read + 512 : 0) << threads;  // a huge page may end behind it
      munmap(memory, bytes);
    }
  }
}
#endif

// Samples say what a measurement says, as far as a machine that does other work allows: that may hit one of them.
TEST(Machine, ProbeAgreesWithMeasurement) {
  constexpr int kSamples = 5;
  Team team(2);
  const Machine m = measure_machine(team, {.quick = true});
  Probe probe(team);
  std::vector<RatesOfRun> samples;
  for (int i = 0; i < kSamples; ++i) {
    samples.push_back(probe.sample());
    // A thread cannot have more processor time than passes; clocks differ a little.
    EXPECT_GT(samples.back().cpu.read_bytes, 0.9 * samples.back().clock.read_bytes);
    EXPECT_GT(samples.back().cpu.f32_ops, 0.9 * samples.back().clock.f32_ops);
    EXPECT_EQ(samples.back().cpu.int8_tiles > 0, samples.back().clock.int8_tiles > 0);
  }
  // Others on the machine make rates by the clock low, not high, and those by processor time neither.
  const auto agrees = [&](double Rates::*rate, const Figure& measured) {
    const auto median = [&](Rates RatesOfRun::*by) {
      std::vector<double> rates;
      for (const RatesOfRun& s : samples) rates.push_back(s.*by.*rate);
      std::sort(rates.begin(), rates.end());
      return rates[kSamples / 2];
    };
    EXPECT_GT(median(&RatesOfRun::cpu), measured.low / 8);
    EXPECT_LT(median(&RatesOfRun::clock), measured.high * 8);
  };
  agrees(&Rates::read_bytes, m.read_bytes);
  agrees(&Rates::int8_ops, m.int8_ops);
  agrees(&Rates::bf16_ops, m.bf16_ops);
  agrees(&Rates::f32_ops, m.f32_ops);
}

#if defined(__x86_64__) && defined(__linux__)
// They are measured where the set in use has them, and nowhere else.
TEST(Machine, TilesHavePeaksOfTheirOwn) {
  Team team(1);  // an emulated instruction is one of this thread
  EXPECT_EQ(measure_machine(team, {.quick = true}).int8_tiles.median > 0, simd::has_tiles(simd::active()));
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const simd::UsableTiles usable;
  const simd::KeepIsa keep;
  simd::force(simd::Isa::kAvx512Amx);
  const Machine m = measure_machine(team, {.quick = true});
  expect_ordered(m.int8_tiles);
  expect_ordered(m.bf16_tiles);
  Probe probe(team);
  const RatesOfRun s = probe.sample();
  EXPECT_GT(s.clock.int8_tiles, 0);
  EXPECT_GT(s.cpu.bf16_tiles, 0);
}
#endif

// What can be said of a processor without knowing it: 8-bit work is not slower than f32 once there are vectors.
TEST(Machine, WiderSetsAreNotSlower) {
  const simd::Isa before = simd::active();
  Team team(1);
  double scalar = 0;
  for (const simd::Isa isa : simd::kIsas) {
    if (!simd::supported(isa) || simd::emulated(isa)) continue;
    simd::force(isa);
    const Machine m = measure_machine(team, {.quick = true});
    EXPECT_EQ(m.isa, isa);
    if (isa == simd::Isa::kScalar) {
      scalar = m.int8_ops.high;
    } else {
      EXPECT_GT(m.int8_ops.high, 2 * scalar) << simd::name(isa);
      EXPECT_GT(m.int8_ops.high, m.f32_ops.low) << simd::name(isa);
    }
  }
  simd::force(before);
}

}  // namespace
}  // namespace kvasir::lab
