// Contract of an entry in kv/codecs: how a page of keys or values is stored, and what attention asks of it.
//
// A page holds kPageTokens = 128 tokens of one layer, one KV head and K or V. Each file in kv/codecs is compiled once
// per instruction set and defines
//   extern const Codec kvasir::kv::entries::codecs::KVASIR_TARGET::<stem>;
//
// Raw blocks. Tokens that are not sealed yet stand in blocks of one of three element types T, the raw type of the
// codec:
//   K: T[d][capacity]   channel-major, so that 16 tokens of a channel are one vector
//   V: T[capacity][d]   token-major
// capacity is 128 for pages (the sinks use a smaller multiple of 16). The entries f32, f16 and bf16 have this layout
// when sealed too, and serve the raw blocks of all other codecs. Readers may touch up to 64 bytes behind a block.
//
// Tiles (prefill): float32, split into panels of 64 so that a panel stays in the first-level cache:
//   K: float[2][d][64]              panel p, channel k: tokens 64p .. 64p + 63
//   V: float[ceil(d/64)][128][64]   panel p, token t: channels 64p .. ; channels at and above d are 0 up to a multiple
//   of 16
//
// Every function accumulates each output in one order that depends on nothing but the page. dots of f32, f16, bf16 are
// fma over channels 0 .. d-1; accumulate is fma over tokens in increasing order, from 0, plus a final + 0.0 (so that a
// sum is never -0). Prefill does the same on tiles, so with these codecs decode and prefill have equal bits. Other
// codecs may compute dots and accumulate in integers. Those with packed_prompts do so for prompts as well, and have
// equal bits too. With the others prompts go through tiles of floats whatever their chunks (Slice::decode).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/registry.hpp"
#include "kv/page.hpp"

namespace kvasir::kv {

// Tokens [begin, end) of one block. Only these are valid; the others may hold anything.
struct PageRef {
  const std::byte* block;
  int begin;
  int end;
  int capacity;
  const std::byte* next = nullptr;  // a hint: a block that will be read soon after this one
};

enum class RawType { kF32, kF16, kBf16 };
enum class Side { kKeys, kValues };

// What a codec's name may carry besides: `int4_token:64` is group = 64, `rq3:unbiased` is unbiased = true.
struct CodecParams {
  int group = 0;          // elements that share one scale; 0 until resolved, then never 0 in codecs that have groups
  bool unbiased = false;  // scale that makes <q, k^> unbiased instead of the one of least squares
};

// One KV head as a codec sees it: keys or values.
struct Head {
  int d;
  CodecParams params;
  const void* state;  // what init_state wrote; null when there is none
  // Of keys: what kv/feedback.hpp makes of a metric in the codec's basis. Only seal reads it; null: errors are not fed
  // back.
  const float* feedback = nullptr;
};

// Floats of scratch that seal may use.
constexpr std::size_t seal_floats(int d) {
  return 2 * static_cast<std::size_t>(kPageTokens) * static_cast<std::size_t>((d + 15) / 16 * 16);
}

// What a codec does with keys, or with values.
struct CodecSide {
  // Size of a sealed page of 128 tokens, every scale and header included. Null: the codec does not store this side.
  std::size_t (*bytes)(int d, const CodecParams& params) = nullptr;
  // raw: a block of `raw_type`, capacity 128. Rows below `skip` are left out (they are sinks): whatever is stored for
  // them depends on nothing in the block and unseals to finite numbers. Raw numbers that are not finite are stored as
  // some finite ones. scratch: seal_floats(d), aligned to 64 bytes.
  void (*seal)(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) = nullptr;
  // Fills a tile from rows [0, page.end) rounded up to whole panels of K, to page.end for V. The tile is in the codec's
  // basis (below).
  void (*unseal)(const Head& head, const PageRef& page, float* tile) = nullptr;

  // The basis. A codec may store R x instead of x, R orthogonal: then queries are rotated by R before dots, and outputs
  // by R^T after accumulate, once for many pages. Both work in place on `rows` rows of d floats, `stride` floats apart.
  // Null in codecs that store x.
  void (*to_basis)(const Head& head, int rows, float* x, std::ptrdiff_t stride) = nullptr;
  void (*from_basis)(const Head& head, int rows, float* x, std::ptrdiff_t stride) = nullptr;
};

struct Codec {
  const char* summary;
  RawType raw_type;
  bool lossless;  // a sealed page is its raw block, bit for bit (skipped rows: zero)

  // Fills in params.group when it is 0. Null when this head size, side and these parameters are fine, else why not.
  const char* (*refuse)(int d, Side side, CodecParams* params);

  // State per (layer, KV head, side): seeds, rotations, tables. 0 bytes: none, init_state is null.
  std::size_t (*state_bytes)(int d) = nullptr;
  void (*init_state)(void* state, int d, Side side, int layer, int kv_head) = nullptr;

  // Factors of a head's channels, (d), each positive: the state of keys rotates x into R x; from now on keys are stored
  // as R (x / factor) and queries rotated to R (factor q), so that scores stay what they are. from_basis takes rows
  // back to x. Null in codecs that know no factors.
  void (*set_factors)(void* state, int d, const float* factors) = nullptr;

  CodecSide k;
  CodecSide v;

  // Scores of g query rows (g, d), scaled, in the codec's basis, contiguous: scores[r * stride + i * 128 + t] for page
  // i, token t. Tokens outside [begin, end) get anything. Any g >= 1.
  void (*dots)(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
               int stride) = nullptr;
  // out[(i * g + r) * pitch + c] = sum over tokens of page i of weights[r * stride + i * 128 + t] * row t in the
  // codec's basis, for channels c < d; pitch is d rounded up to 16, the rest is scratch. Weights outside [begin, end)
  // are 0 in sealed pages, and are not read in others.
  void (*accumulate)(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                     float* out, int pitch) = nullptr;

  // Sealing keys reads Head::feedback.
  bool feeds_back = false;

  // Prompts attend to sealed pages through dots and accumulate, as generated tokens do. REQUIRES: the bits of a row do
  // not depend on the rows beside it.
  bool packed_prompts = false;

  // Policies. `auto` may choose the codec by what relative_distortion finds (kv/auto_policy.hpp).
  bool automatic = false;
  // Shares of bytes are given out to it (kv/share_policy.hpp): which share of the energy of Gaussian rows it loses by
  // theory when it is called with `share_params`, such as ":unbiased". Null: they are not.
  double (*share_distortion)() = nullptr;
  const char* share_params = "";

  // Only f32, f16, bf16 (null in others): writes n rows of float32, `stride` floats apart, as tokens [row, row + n).
  // To nearest even; f16 saturates at +-65504.
  void (*write_k)(std::byte* block, int capacity, int row, int n, const float* x, std::ptrdiff_t stride,
                  int d) = nullptr;
  void (*write_v)(std::byte* block, int capacity, int row, int n, const float* x, std::ptrdiff_t stride,
                  int d) = nullptr;
};

std::span<const Entry<Codec>> codecs();

}  // namespace kvasir::kv
