// QJL, 1 bit per element (sketch.hpp): keys as signs of an orthogonal projection, queries in 8 bits. The estimate of
// <q, k> is unbiased, its variance (pi / 2 - 1) |q|^2 |k|^2 / d; Gaussian projections, as published, have pi / 2.
//
// S is two rounds of signs and Hadamard-Hartley, in this codec's basis: after one round a key of one large channel has
// coordinates of equal size, for which the factor would be 1 and not sqrt(pi / 2).
//
// Page (keys): f16 h[128], the root mean square of every token, 0 for sinks; then the signs, a packed matrix of 1 bit,
// 128 lanes (tokens), d deep, 1 for z >= 0 (kv/families/packed/layout.hpp). docs/formats/qjl1.md
#include "kv/families/sketch/sketch.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

constexpr std::size_t kHead = kPageTokens * sizeof(std::uint16_t);

// float sign_scale, then the two rounds.
struct State {
  float scale;
  const std::byte* round[2];

  State(const void* state, int d) : scale(*static_cast<const float*>(state)) {
    round[0] = static_cast<const std::byte*>(state) + sizeof(float);
    round[1] = round[0] + kernel::rotation_bytes(d);
  }
};

std::size_t state_bytes(int d) { return sizeof(float) + 2 * kernel::rotation_bytes(d); }

void init_state(void* state, int d, Side side, int layer, int kv_head) {
  auto* p = static_cast<std::byte*>(state);
  const float scale = sign_scale(d);
  __builtin_memcpy(p, &scale, sizeof scale);
  for (int i = 0; i < 2; ++i)
    kernel::make_rotation(p + sizeof scale + static_cast<std::size_t>(i) * kernel::rotation_bytes(d), d,
                          strip_seed(side, layer, kv_head, i));
}

std::size_t bytes(int d, const CodecParams&) { return kHead + packed_bytes(1, kPageTokens, d); }

void to_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
  const State s(head.state, head.d);
  for (const std::byte* r : s.round) kRotate.forward(r, head.d, rows, x, stride);
}

void from_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
  const State s(head.state, head.d);
  kRotate.inverse(s.round[1], head.d, rows, x, stride);
  kRotate.inverse(s.round[0], head.d, rows, x, stride);
}

void seal(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
  const int d = head.d;
  const State s(head.state, d);
  auto* codes = reinterpret_cast<std::uint8_t*>(scratch + strip_floats(d));
  for (int t = 0; t < kPageTokens; t += kLanes) {
    load_strip<Side::kKeys>(raw, d, t, skip, nullptr, scratch);
    store_rounded(reinterpret_cast<std::uint16_t*>(page) + t, column_rms(scratch, d));
    for (const std::byte* r : s.round) kRotate.forward_columns(r, d, kLanes, scratch, kLanes);
    store_signs(scratch, d, codes + t);
  }
  pack_page<Side::kKeys, 1>(codes, d, page + kHead);
}

void unseal(const Head& head, const PageRef& page, float* tile) {
  const int d = head.d;
  const State s(head.state, d);
  for (int t = 0; t < page.end || t % kPanel != 0; t += kLanes) {
    const F32 h = mul(load_f16(reinterpret_cast<const std::uint16_t*>(page.block) + t), set1(s.scale));
    float* to = tile + static_cast<std::ptrdiff_t>(t / kPanel) * d * kPanel + t % kPanel;
    panel_floats<1>(page.block + kHead + packed_bytes(1, t, d), 0, d, Codes{},
                    [&](int c, F32 bit) { store(to + c * kPanel, mul(h, fma(bit, set1(2.0f), set1(-1.0f)))); });
  }
}

template <int G>
void page_dots(const PageRef& page, int d, float scale, const ByteRows& q, float* scores, int stride) {
  for (int t = page.begin / kLanes * kLanes; t < page.end; t += kLanes) {
    const std::byte* panel = page.block + kHead + packed_bytes(1, t, d);
    F32 sum[G];
    centred_dots<1, 1>(panel, 0, d, Codes{}, q, in_next(page, panel), sum);
    const F32 h = mul(load_f16(reinterpret_cast<const std::uint16_t*>(page.block) + t), set1(scale));
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) store(scores + g * stride + t, mul(h, mul(sum[g], set1(q.scale[g]))));
  }
}

void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores, int stride) {
  const int d = head.d;
  const State s(head.state, d);
  ByteRows rows;
  for (int r = 0, n = 0; r < g; r += n) {
    n = rows_from(r, g);
    for (int i = 0; i < n; ++i) rows.set(i, q + static_cast<std::ptrdiff_t>(r + i) * d, d);
    float* to = scores + static_cast<std::ptrdiff_t>(r) * stride;
    with_rows(n, [&]<int G>() {
      for (int i = 0; i < count; ++i) page_dots<G>(pages[i], d, s.scale, rows, to + i * kPageTokens, stride);
    });
  }
}

}  // namespace

extern const Codec qjl1;
const Codec qjl1{.summary = "QJL: signs of an orthogonal projection, 1 + 16/d bits; keys only, unbiased and coarse",
                 .raw_type = RawType::kF16,
                 .lossless = false,
                 .refuse = refuse_rotated,
                 .state_bytes = state_bytes,
                 .init_state = init_state,
                 .k = {bytes, seal, unseal, to_basis, from_basis},
                 .dots = dots};

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
