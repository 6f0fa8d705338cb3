// Codecs of affine groups. For sources compiled per instruction set.
//
//   ChannelCodec   keys and values, scales per channel and group of tokens
//   TokenCodec     keys and values, scales per token and group of channels
//
// Page layouts: docs/formats/affine.md.
#pragma once

#include "kv/families/affine/encode.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

static inline const char* refuse_head(int d, const CodecParams& params) {
  if (params.unbiased) return "its only parameter is the group size";
  if (d <= 0 || d % kPackedLanes != 0 || d > kMaxDepth) return "the head size must be a multiple of 16, at most 1024";
  return nullptr;
}

// The raw block as floats (depth, lanes), without the tokens below skip.
static inline void read_keys(const std::byte* raw, int d, int skip, float* x) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(raw);
  for (int c = 0; c < d; ++c, from += kPageTokens, x += kPageTokens) {
    for (int t = 0; t < kPageTokens; t += kLanes) store(x + t, load_finite(from + t));
    for (int t = 0; t < skip; ++t) x[t] = 0.0f;
  }
}
static inline void read_values(const std::byte* raw, int d, int skip, float* x) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(raw);
  const std::ptrdiff_t skipped = static_cast<std::ptrdiff_t>(skip) * d;
  for (std::ptrdiff_t i = 0; i < skipped; i += kLanes) store(x + i, zero());
  for (std::ptrdiff_t i = skipped; i < static_cast<std::ptrdiff_t>(kPageTokens) * d; i += kLanes)
    store(x + i, load_finite(from + i));
}

// Behind the floats of a page in the scratch of seal.
static inline std::uint8_t* code_scratch(float* scratch, int d) {
  return reinterpret_cast<std::uint8_t*>(scratch + static_cast<std::ptrdiff_t>(kPageTokens) * d);
}

// A page of a grid with keys or values.
template <class Grid>
KVASIR_INLINE PageShape page_shape(int d, int group, Side side) {
  return side == Side::kKeys ? PageShape{kPageTokens, d, group, Grid::kShift}
                             : PageShape{d, kPageTokens, group, Grid::kShift};
}

template <class Grid>
struct ChannelCodec {
  using Keys = RowScaled<Grid>;
  using Values = ColumnScaled<Grid>;

  static const char* refuse(int d, Side, CodecParams* params) {
    if (const char* why = refuse_head(d, *params)) return why;
    if (params->group == 0) params->group = 32;
    const int group = params->group;
    return is_group(group) ? nullptr : "a group must have 4, 8, 16, 32, 64 or 128 tokens";
  }
  static PageShape shape(const Head& head, Side side) { return page_shape<Grid>(head.d, head.params.group, side); }

  static std::size_t bytes_k(int d, const CodecParams& params) {
    return Keys::bytes(page_shape<Grid>(d, params.group, Side::kKeys));
  }
  static std::size_t bytes_v(int d, const CodecParams& params) {
    return Values::bytes(page_shape<Grid>(d, params.group, Side::kValues));
  }

  // Tokens that are left out must not widen the range of a group they share: they stand in as the first that counts.
  static void seal_k(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const PageShape s = shape(head, Side::kKeys);
    read_keys(raw, head.d, skip, scratch);
    if (skip < kPageTokens)
      for (int c = 0; c < head.d; ++c) {
        float* row = scratch + c * kPageTokens;
        for (int t = skip / s.group * s.group; t < skip; ++t) row[t] = row[skip];
      }
    std::uint8_t* codes = code_scratch(scratch, head.d);
    Keys::encode(s, scratch, codes, skip, page);
  }
  static void seal_v(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const PageShape s = shape(head, Side::kValues);
    read_values(raw, head.d, skip, scratch);
    if (skip < kPageTokens)
      for (int t = skip / s.group * s.group; t < skip; ++t)
        __builtin_memcpy(scratch + t * head.d, scratch + skip * head.d, static_cast<std::size_t>(head.d) * 4);
    Values::encode(s, scratch, code_scratch(scratch, head.d), page);
  }
  static void unseal_k(const Head& head, const PageRef& page, float* tile) {
    Products<Grid::kBits>::row_key_tile(shape(head, Side::kKeys), page, tile);
  }
  static void unseal_v(const Head& head, const PageRef& page, float* tile) {
    Products<Grid::kBits>::column_value_tile(shape(head, Side::kValues), page, tile);
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    Products<Grid::kBits>::row_products(shape(head, Side::kKeys), pages, count, {q, head.d, 0}, g,
                                        {scores, stride, kPageTokens});
  }
  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
    Products<Grid::kBits>::column_sums(shape(head, Side::kValues), pages, count, {weights, stride, kPageTokens}, g,
                                       {out, pitch, static_cast<std::ptrdiff_t>(g) * pitch});
  }

  static constexpr Codec codec(const char* summary) {
    return {.summary = summary,
            .raw_type = RawType::kF16,
            .lossless = false,
            .refuse = refuse,
            .k = {.bytes = bytes_k, .seal = seal_k, .unseal = unseal_k},
            .v = {.bytes = bytes_v, .seal = seal_v, .unseal = unseal_v},
            .dots = dots,
            .accumulate = accumulate,
            .packed_prompts = true};
  }
};

// kGroup: channels of a group unless the parameter says otherwise; kFixed: it may not.
template <class Grid, int kGroup, bool kFixed = false>
struct TokenCodec {
  using Keys = ColumnScaled<Grid>;
  using Values = RowScaled<Grid>;

  static const char* refuse(int d, Side, CodecParams* params) {
    if (const char* why = refuse_head(d, *params)) return why;
    const int group = params->group == 0 ? kGroup : params->group;
    if (kFixed && group != kGroup && group != smaller(kGroup, d)) return "it has no parameters";
    if (!is_group(group) && group != d) return "a group must have 4, 8, 16, 32, 64 or 128 channels or be the head";
    params->group = smaller(group, d);  // a longer group is the head
    return nullptr;
  }
  static PageShape shape(const Head& head, Side side) { return page_shape<Grid>(head.d, head.params.group, side); }

  static std::size_t bytes_k(int d, const CodecParams& params) {
    return Keys::bytes(page_shape<Grid>(d, params.group, Side::kKeys));
  }
  static std::size_t bytes_v(int d, const CodecParams& params) {
    return Values::bytes(page_shape<Grid>(d, params.group, Side::kValues));
  }

  static void seal_k(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    read_keys(raw, head.d, skip, scratch);
    Keys::encode(shape(head, Side::kKeys), scratch, code_scratch(scratch, head.d), page);
  }
  static void seal_v(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    read_values(raw, head.d, skip, scratch);
    Values::encode(shape(head, Side::kValues), scratch, code_scratch(scratch, head.d), 0, page);
  }
  static void unseal_k(const Head& head, const PageRef& page, float* tile) {
    Products<Grid::kBits>::column_key_tile(shape(head, Side::kKeys), page, tile);
  }
  static void unseal_v(const Head& head, const PageRef& page, float* tile) {
    Products<Grid::kBits>::row_value_tile(shape(head, Side::kValues), page, tile);
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    Products<Grid::kBits>::column_dots(shape(head, Side::kKeys), pages, count, q, g, {scores, stride, kPageTokens});
  }
  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
    Products<Grid::kBits>::row_products(shape(head, Side::kValues), pages, count, {weights, stride, kPageTokens}, g,
                                        {out, pitch, static_cast<std::ptrdiff_t>(g) * pitch});
  }

  static constexpr Codec codec(const char* summary) {
    return {.summary = summary,
            .raw_type = RawType::kF16,
            .lossless = false,
            .refuse = refuse,
            .k = {.bytes = bytes_k, .seal = seal_k, .unseal = unseal_k},
            .v = {.bytes = bytes_v, .seal = seal_v, .unseal = unseal_v},
            .dots = dots,
            .accumulate = accumulate,
            .packed_prompts = true};
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
