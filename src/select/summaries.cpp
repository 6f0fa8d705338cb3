#include "select/summaries.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/half.hpp"

namespace kvasir::select {
namespace {

constexpr float kMostHalf = 65504;

// The nearest f16, or the nearest that is not below (towards > 0) or not above (towards < 0).
std::uint16_t to_half(float x, int towards) {
  std::uint16_t h = simd::f32_to_f16(std::clamp(x, -kMostHalf, kMostHalf));
  const float back = simd::f16_to_f32(h);
  if ((towards > 0 && back < x) || (towards < 0 && back > x)) {
    const bool away = (towards > 0) == ((h & 0x8000) == 0);  // from 0
    if ((h & 0x7fff) == 0)
      h = towards > 0 ? 0x0001 : 0x8001;
    else
      h = static_cast<std::uint16_t>(away ? h + 1 : h - 1);
    if ((h & 0x7fff) > 0x7bff) h = static_cast<std::uint16_t>((h & 0x8000) | 0x7bff);
  }
  return h;
}

}  // namespace

void summarise(const SelectSpec& spec, int d, const float* keys, int skip, const float* importance, float* scratch,
               std::byte* to) {
  const Selector& s = *spec.selector;
  const int width = s.width(d);
  const int pitch = summary_pitch(s, d);
  auto* half = reinterpret_cast<std::uint16_t*>(to);
  for (int first = 0; first < kv::kPageTokens; first += spec.block, half += pitch) {
    std::fill_n(half, pitch, std::uint16_t{0});
    const BlockKeys block{d, keys, std::max(first, skip), first + spec.block, importance, spec.anchors};
    if (block.begin >= block.end) continue;
    s.represent(block, scratch);
    for (int i = 0; i < width; ++i) half[i] = to_half(scratch[i], !s.bounds ? 0 : i < width / 2 ? 1 : -1);
  }
}

void average(const SelectSpec& spec, const float* x, int channels, std::ptrdiff_t token, std::ptrdiff_t channel,
             int skip, std::uint16_t* to, std::ptrdiff_t pitch) {
  for (int first = 0; first < kv::kPageTokens; first += spec.block, to += pitch) {
    const int begin = std::max(first, skip);
    const int end = first + spec.block;
    for (int c = 0; c < channels; ++c) {
      float sum = 0;
      for (int t = begin; t < end; ++t) sum += x[t * token + c * channel];
      to[c] = to_half(begin < end ? sum / static_cast<float>(end - begin) : 0.0f, 0);
    }
  }
}

void weigh_tokens(int d, const float* keys, int skip, const float* q, int rows, float* importance) {
  std::fill_n(importance, kv::kPageTokens, 0.0f);
  float scores[kv::kPageTokens];
  for (int r = 0; r < rows; ++r) {
    std::fill_n(scores, kv::kPageTokens, 0.0f);
    for (int c = 0; c < d; ++c)
      for (int t = 0; t < kv::kPageTokens; ++t)
        scores[t] +=
            q[static_cast<std::ptrdiff_t>(r) * d + c] * keys[static_cast<std::ptrdiff_t>(c) * kv::kPageTokens + t];
    float most = -std::numeric_limits<float>::infinity();
    for (int t = skip; t < kv::kPageTokens; ++t) most = std::max(most, scores[t]);
    for (int t = skip; t < kv::kPageTokens; ++t) importance[t] += std::exp2(scores[t] - most);
  }
}

}  // namespace kvasir::select
