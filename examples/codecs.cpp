// What every codec of the KV cache costs and loses, measured through include/kvasir/codecs.hpp alone.
//
// usage: example_codecs [TOKENS]    default 4096; --quick: 600, for tests
//
// The numbers are made up, but like those of a model: keys have channels with offsets and scales of their own and
// resemble their predecessors, values have some outlying channels. For figures of a real model use its own keys.
#include "kvasir/codecs.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using kvasir::KvCodec;
using kvasir::KvSide;
using kvasir::PackedKv;

constexpr int kHeads = 4;   // of keys and values
constexpr int kGroup = 4;   // query heads that share one of them
constexpr int kSize = 128;  // of a head

using Floats = std::vector<float>;

Floats gaussian(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x(n);
  for (float& v : x) v = normal(random);
  return x;
}

// [heads][tokens][size]: an offset and a scale per channel, and noise that keeps a part of what it was one token
// before.
Floats make(int tokens, float offset, float keep, unsigned seed) {
  Floats x;
  for (int h = 0; h < kHeads; ++h) {
    const auto head_seed = seed + static_cast<unsigned>(10 * h);
    const Floats mean = gaussian(kSize, head_seed), spread = gaussian(kSize, head_seed + 1);
    const Floats noise = gaussian(static_cast<std::size_t>(tokens) * kSize, head_seed + 2);
    Floats state(kSize, 0.0f);
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t)
      for (std::size_t c = 0; c < kSize; ++c) {
        state[c] = keep * state[c] + std::sqrt(1 - keep * keep) * noise[t * kSize + c];
        x.push_back(offset * mean[c] + std::exp(0.4f * spread[c]) * state[c]);
      }
  }
  return x;
}

// Energy of x over the energy of the difference, in dB.
double decibel(const Floats& x, const Floats& y) {
  double energy = 0, error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    energy += static_cast<double>(x[i]) * x[i];
    error += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
  }
  return 10 * std::log10(energy / error);
}

// Attention in double precision over the arrays as they were.
Floats exact(const Floats& q, const Floats& k, const Floats& v, int tokens) {
  Floats out;
  std::vector<double> p(static_cast<std::size_t>(tokens));
  for (std::size_t r = 0; r < kHeads * kGroup; ++r) {
    const std::size_t head = r / kGroup * static_cast<std::size_t>(tokens) * kSize;
    double sum = 0;
    for (std::size_t t = 0; t < p.size(); ++t) {
      double score = 0;
      for (std::size_t c = 0; c < kSize; ++c) score += static_cast<double>(q[r * kSize + c]) * k[head + t * kSize + c];
      sum += p[t] = std::exp(score / std::sqrt(kSize));  // scores are small here: no maximum to take off
    }
    for (std::size_t c = 0; c < kSize; ++c) {
      double x = 0;
      for (std::size_t t = 0; t < p.size(); ++t) x += p[t] * v[head + t * kSize + c];
      out.push_back(static_cast<float>(x / sum));
    }
  }
  return out;
}

template <class F>
double milliseconds(int times, F f) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

std::optional<KvCodec> open(const std::string& spec, KvSide side) {
  try {
    return KvCodec(spec, kSize, side);
  } catch (const std::invalid_argument&) {
    return std::nullopt;  // made for the other side only
  }
}

// One line of the table: the codec on the sides it stores, f16 on the other.
void measure(const std::string& spec, int tokens, const Floats& q, const Floats& k, const Floats& v,
             const Floats& want) {
  const auto keys = open(spec, KvSide::kKeys), values = open(spec, KvSide::kValues);
  const KvCodec kc = keys.value_or(KvCodec("f16", kSize, KvSide::kKeys));
  const KvCodec vc = values.value_or(KvCodec("f16", kSize, KvSide::kValues));
  std::optional<PackedKv> pk, pv;
  const double pack = milliseconds(1, [&] {
    pk.emplace(kc, k.data(), 1, kHeads, tokens);
    pv.emplace(vc, v.data(), 1, kHeads, tokens);
  });
  Floats back_k(k.size()), back_v(v.size()), out(q.size());
  pk->dequantize(back_k.data());
  pv->dequantize(back_v.data());
  const double attend = milliseconds(10, [&] { kvasir::attend(q.data(), kHeads * kGroup, *pk, *pv, out.data()); });
  const double numbers = 2.0 * static_cast<double>(k.size());
  const double bits = 8.0 * static_cast<double>(pk->bytes() + pv->bytes()) / numbers;
  const auto column = [](bool stores, const char* format, double x) {
    if (stores) {
      std::printf(format, x);
    } else {
      std::printf("%8s", "-");
    }
  };
  std::printf("%-12s", spec.c_str());
  column(keys.has_value(), "%8.3f", kc.bits_per_element());
  column(values.has_value(), "%8.3f", vc.bits_per_element());
  std::printf("%8.3f", bits);
  column(keys.has_value(), "%8.1f", decibel(k, back_k));
  column(values.has_value(), "%8.1f", decibel(v, back_v));
  std::printf("%11.1f%8.1f%9.3f\n", decibel(want, out), pack, attend);
}

}  // namespace

int main(int argc, char** argv) try {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const int tokens = quick ? 600 : argc > 1 ? std::atoi(argv[1]) : 4096;
  if (tokens < 1) {
    std::fprintf(stderr, "usage: %s [TOKENS]\n", argv[0]);
    return 2;
  }
  const Floats k = make(tokens, 1.0f, 0.7f, 1), v = make(tokens, 0.3f, 0.3f, 1000);
  const Floats q = gaussian(kHeads * kGroup * kSize, 2000);
  const Floats want = exact(q, k, v, tokens);
  std::printf("%d tokens, %d KV heads of %d, %d query heads, one thread\n\n", tokens, kHeads, kSize, kHeads * kGroup);
  std::printf("              bits per number stored       K       V  attention    pack   attend\n");
  std::printf("codec              K       V    held      dB      dB         dB      ms       ms\n");
  for (const auto& info : kvasir::kv_codecs()) measure(info.name, tokens, q, k, v, want);
  std::printf(
      "\nK, V: what reading back loses. attention: what the output loses against double precision on the numbers as\n"
      "they were. held: everything, the raw tokens behind the last whole page included. A codec for one side only has\n"
      "f16 on the other.\n");
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
