// Summaries of sealed pages: the representatives of a page's blocks, (blocks, pitch) in f16, pitch the entry's width
// rounded up to 16 with zeros behind it; then, where the spec estimates what is not read, the means of the blocks'
// values, (blocks, d of values) in f16. They lie beside the page and go with it into stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "select/spec.hpp"
#include "simd/isa.hpp"

namespace kvasir::select {

inline int summary_pitch(const Selector& s, int d) { return s.width ? (s.width(d) + 15) / 16 * 16 : 0; }
inline std::size_t summary_bytes(const SelectSpec& s, int d) {
  return 2 * static_cast<std::size_t>(summary_pitch(*s.selector, d)) * static_cast<std::size_t>(s.blocks_per_page());
}
// Floats of scratch that summarise uses, and the frame of an outline.
inline std::size_t summary_floats(const SelectSpec& s, int d) {
  return 2 * static_cast<std::size_t>(summary_pitch(*s.selector, d));
}

// Of a page's keys (d, 128), channel-major; tokens below `skip` are sinks, and a block of sinks alone gets zeros.
// importance: (128) or null.
void summarise(const SelectSpec& spec, int d, const float* keys, int skip, const float* importance, float* scratch,
               std::byte* to);

inline std::size_t mean_bytes(const SelectSpec& s, int d) {
  return s.unread ? 2 * static_cast<std::size_t>(d) * static_cast<std::size_t>(s.blocks_per_page()) : 0;
}
// Means of `channels` channels of a page's rows by block: element c of token t at x[t * token + c * channel]. Tokens
// below `skip` are left out; a block of these alone gets zeros. to[b * pitch + c], b < blocks of a page.
void average(const SelectSpec& spec, const float* x, int channels, std::ptrdiff_t token, std::ptrdiff_t channel,
             int skip, std::uint16_t* to, std::ptrdiff_t pitch);

// How much every token of a page of keys (d, 128) weighs for query rows (rows, d): the sum of 2^(score - the row's
// largest). To importance (128), 0 below skip.
void weigh_tokens(int d, const float* keys, int skip, const float* q, int rows, float* importance);

struct SummaryKernels {
  // scores[r * stride + b] = <q_r, representative b>, blocks page by page, `blocks` of each of `pages` pages. q: (rows,
  // pitch). Every sum has one order, whatever the rows and blocks beside it.
  void (*scores)(const std::byte* const* summaries, std::int64_t pages, int blocks, int pitch, const float* q, int rows,
                 float* scores, std::ptrdiff_t stride);
};

KVASIR_DECLARE_KERNELS(SummaryKernels, summaries)

}  // namespace kvasir::select
