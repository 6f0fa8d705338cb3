// How fast attention is: prefill against the f32 FMA peak of the active instruction set, which codecs with
// packed_prompts may pass since they multiply integers, decode against read bandwidth.
//   attend_bench [depth [sequences [layers [threads [codecs [steps]]]]]], codecs as in --kv, steps of decode: 15
// Rates are per thread and CPU second, so that other work on the machine counts little.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "kernel/attention.hpp"
#include "kv/cache_fixture.hpp"
#include "kv/spec.hpp"
#include "simd/isa.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {
namespace {

// CPU seconds of all threads: on a shared machine wall time measures the neighbours.
double now() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// GFLOP/s of the score kernel on one tile that stays in the first-level cache, d long: what the multipliers can do.
double peak_gflops(Team& team) {
  constexpr int kRows = 96;
  constexpr int kDim = 2048;  // long sums: nothing but multiply-adds counts
  std::vector<double> seconds;
  std::vector<std::vector<float>> q(static_cast<std::size_t>(team.size())), k(q.size()), s(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i].assign(kRows * kDim, 0.5f);
    k[i].assign(128 * kDim, 0.5f);
    s[i].assign(kRows * 128, 0.0f);
  }
  int ends[kRows];
  std::fill_n(ends, kRows, 128);
  constexpr int kRounds = 4;
  for (int run = 0; run < 9; ++run) {
    const double start = now();
    team.run([&](int w) {
      const auto i = static_cast<std::size_t>(w);
      for (int r = 0; r < kRounds; ++r)
        for (int c = 0; c < kDim; c += 64)  // a tile of 64 channels
          kernel::attention().scores(q[i].data(), kRows, 64, k[i].data(), ends, s[i].data());
    });
    seconds.push_back(now() - start);
  }
  return team.size() * 2.0 * kRounds * kRows * 128.0 * kDim / median(seconds) * 1e-9;
}

double read_gbps(Team& team, const tensor::Buffer& memory) {
  std::vector<double> rates;
  const std::size_t words = memory.size() / 64;
  for (int run = 0; run < 5; ++run) {
    const double start = now();
    team.run([&](int w) {
      typedef std::uint64_t V __attribute__((vector_size(64)));
      const V* p = memory.as<V>() + words * static_cast<std::size_t>(w) / static_cast<std::size_t>(team.size());
      const V* end = memory.as<V>() + words * (static_cast<std::size_t>(w) + 1) / static_cast<std::size_t>(team.size());
      V a{}, b{}, c{}, d{};
      for (; p + 4 <= end; p += 4) {
        a ^= p[0];
        b ^= p[1];
        c ^= p[2];
        d ^= p[3];
      }
      a ^= b ^ c ^ d;
      volatile std::uint64_t sink = a[0] ^ a[7];
      (void)sink;
    });
    rates.push_back(static_cast<double>(memory.size()) / (now() - start) * 1e-9);
  }
  return median(rates);
}

// `sequences` of `depth` tokens; prefill of one, decode of all together. Rates are per thread and CPU second.
void bench(int threads, const CacheShape& s, const char* codec, int depth, int sequences, int steps) {
  Team team(threads);
  CacheOptions o;
  const CodecPair pair = parse_pair(codec, "");
  o.k_codec = pair.k;
  o.v_codec = pair.v;
  o.max_tokens = static_cast<std::int64_t>(sequences) * (depth + steps + 1024);
  o.max_sequences = sequences;
  Cache cache(team, s, o);
  constexpr int n = 512;
  const fixture::Tokens t = fixture::random_tokens(s, n, 1);
  std::vector<float> out(static_cast<std::size_t>(n * s.at(0).query_heads * s.at(0).head_dim_v));
  const auto step = [&](const std::vector<Slice>& slices) {
    cache.begin(slices);
    const double start = now();
    for (int l = 0; l < s.count(); ++l) {
      const auto i = static_cast<std::size_t>(l);
      cache.attend(l, t.q[i].data(), t.k[i].data(), t.v[i].data(), out.data(), {fixture::default_scale(s)});
    }
    const double seconds = now() - start;
    cache.commit();
    return seconds;
  };
  std::vector<Slice> ones;
  std::vector<double> prefill;  // GFLOP/s of the last steps
  std::vector<double> peaks;
  for (int i = 0; i < sequences; ++i) {
    ones.push_back({cache.create(), i, 1, true});
    while (Cache::length(*ones.back().sequence) < depth) {
      const auto at = static_cast<double>(Cache::length(*ones.back().sequence));
      const double seconds = step({{ones.back().sequence, 0, n}});
      if (i > 0 || at < depth - 5 * n) continue;
      peaks.push_back(peak_gflops(team));
      const double pairs = (at + n / 2.0) * n * s.at(0).query_heads * s.count();
      prefill.push_back(pairs * 2.0 * (s.at(0).head_dim + s.at(0).head_dim_v) / seconds * 1e-9);
    }
  }
  std::vector<double> decode;
  std::vector<double> reads;
  const tensor::Buffer memory(tensor::Tag::kScratch, std::size_t{512} << 20);
  std::memset(memory.data(), 1, memory.size());
  for (int run = 0; run < steps; ++run) {
    if (run < 15 && run % 3 == 0) reads.push_back(read_gbps(team, memory));
    decode.push_back(step(ones));
  }
  std::size_t bytes = 0;
  for (const Slice& one : ones) bytes += cache.stats(*one.sequence).kv_bytes_read;
  const double gflops = median(prefill);
  const double gbps = static_cast<double>(bytes) / median(decode) * 1e-9;
  std::printf(
      "%s %s d %d g %d depth %d x %d threads %d: prefill %.1f GFLOP/s = %.1f%% of %.1f, decode %.2f GB/s = %.1f%% of "
      "%.2f (%.0f MB), %.2f ms\n",
      std::string(simd::name(simd::active())).c_str(), codec, s.at(0).head_dim, s.at(0).query_heads / s.at(0).kv_heads,
      depth, sequences, threads, gflops, 100 * gflops / median(peaks), median(peaks), gbps, 100 * gbps / median(reads),
      median(reads), static_cast<double>(bytes) * 1e-6, 1e3 * median(decode) / threads);
  std::fflush(stdout);
}

}  // namespace
}  // namespace kvasir::kv

int main(int argc, char** argv) {
  using kvasir::kv::bench;
  const int depth = argc > 1 ? std::atoi(argv[1]) : 16384;
  const int sequences = argc > 2 ? std::atoi(argv[2]) : 1;
  const int layers = argc > 3 ? std::atoi(argv[3]) : 16;
  const char* codec = argc > 5 ? argv[5] : "f16";
  const int steps = argc > 6 ? std::max(1, std::atoi(argv[6])) : 15;
  for (const int threads : {1, 2}) {
    if (argc > 4 && std::atoi(argv[4]) != threads) continue;
    bench(threads, kvasir::kv::CacheShape::uniform(layers, {8, 32, 64, 64}), codec, depth, sequences, steps);
    bench(threads, kvasir::kv::CacheShape::uniform(layers, {4, 16, 128, 128}), codec, depth, sequences, steps);
    bench(threads, kvasir::kv::CacheShape::uniform(layers, {3, 9, 64, 64}), codec, depth, sequences, steps);
  }
}
