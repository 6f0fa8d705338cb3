// T is applied to an array of vectors of 16 floats: for columns these are 16 columns of one channel, for rows 16
// channels of one row, whose butterflies at distances 1, 2, 4, 8 have then been done inside the registers.
#include "kernel/rotate.hpp"

#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

constexpr int kMaxOdd = kMaxRotated / kLanes - 1;

struct Pair {
  F32 sum, difference;
};
KVASIR_INLINE Pair crossed(F32 a, F32 b) { return {a + b, a - b}; }

KVASIR_INLINE F32 at(const float* p, int vector) { return load(p + vector * kLanes); }
KVASIR_INLINE void put(float* p, int vector, F32 x) { store(p + vector * kLanes, x); }

// H over n vectors, n a power of two: two distances per pass, so that half the loads and stores remain.
KVASIR_INLINE void hadamard(float* p, int n) {
  int h = 1;
  for (; 2 * h < n; h *= 4)
    for (int i = 0; i < n; i += 4 * h)
      for (int j = i; j < i + h; ++j) {
        const Pair low = crossed(at(p, j), at(p, j + h));
        const Pair high = crossed(at(p, j + 2 * h), at(p, j + 3 * h));
        const Pair even = crossed(low.sum, high.sum);
        const Pair odd = crossed(low.difference, high.difference);
        put(p, j, even.sum);
        put(p, j + h, odd.sum);
        put(p, j + 2 * h, even.difference);
        put(p, j + 3 * h, odd.difference);
      }
  if (h == n) return;
  for (int j = 0; j < h; ++j) {
    const Pair x = crossed(at(p, j), at(p, j + h));
    put(p, j, x.sum);
    put(p, j + h, x.difference);
  }
}

// Rows [i, i + count) of C times x: (m) vectors -> out, `pitch` vectors apart.
template <int count>
KVASIR_INLINE void hartley_rows(const float* c, int m, int i, const float* x, float* out, int pitch) {
  F32 sum[count];
  KVASIR_UNROLL(4)
  for (int r = 0; r < count; ++r) sum[r] = set1(c[(i + r) * m]) * at(x, 0);
  KVASIR_UNROLL(1)
  for (int j = 1; j < m; ++j) {
    const F32 v = at(x, j);
    KVASIR_UNROLL(4)
    for (int r = 0; r < count; ++r) sum[r] = fma(set1(c[(i + r) * m + j]), v, sum[r]);
  }
  KVASIR_UNROLL(4)
  for (int r = 0; r < count; ++r) put(out, (i + r) * pitch, sum[r]);
}

// C across m blocks of n vectors.
KVASIR_INLINE void hartley(const float* c, float* p, int m, int n) {
  alignas(64) float x[kMaxOdd * kLanes];
  for (int k = 0; k < n; ++k) {
    for (int j = 0; j < m; ++j) put(x, j, at(p, j * n + k));
    int i = 0;
    for (; i + 4 <= m; i += 4) hartley_rows<4>(c, m, i, x, p + k * kLanes, n);
    if (m - i == 3) hartley_rows<3>(c, m, i, x, p + k * kLanes, n);
    if (m - i == 1) hartley_rows<1>(c, m, i, x, p + k * kLanes, n);
  }
}

struct Rotation {
  const float* signs;
  const float* c;
  int m, n;  // blocks, size of a block

  Rotation(const void* state, int d)
      : signs(static_cast<const float*>(state)), c(signs + d), m(d / (d & -d)), n(d & -d) {}

  // T, but for what was done inside the vectors: `inside` elements of a block stand in one.
  KVASIR_INLINE void apply(const Rotation& r, float* p, int inside) {
    const int vectors = r.n / inside;
    for (int i = 0; i < r.m; ++i) hadamard(p + i * vectors * kLanes, vectors);
    if (r.m > 1) hartley(r.c, p, r.m, vectors);
  }
};

KVASIR_INLINE F32 inside(F32 x) { return butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(x)))); }

void forward(const void* state, int d, int rows, float* x, std::ptrdiff_t stride) {
  const Rotation r(state, d);
  for (int i = 0; i < rows; ++i, x += stride) {
    for (int c = 0; c < d; c += kLanes) store(x + c, inside(load(x + c) * load(r.signs + c)));
    Rotation::apply(r, x, kLanes);
  }
}

void inverse(const void* state, int d, int rows, float* x, std::ptrdiff_t stride) {
  const Rotation r(state, d);
  for (int i = 0; i < rows; ++i, x += stride) {
    for (int c = 0; c < d; c += kLanes) store(x + c, inside(load(x + c)));
    Rotation::apply(r, x, kLanes);
    for (int c = 0; c < d; c += kLanes) store(x + c, load(x + c) * load(r.signs + c));
  }
}

// Columns go 16 at a time through a copy without gaps: rows a power of two apart would evict each other from the
// first-level cache.
void forward_columns(const void* state, int d, int columns, float* x, std::ptrdiff_t stride) {
  alignas(64) float strip[kMaxRotated * kLanes];
  const Rotation r(state, d);
  for (int t = 0; t < columns; t += kLanes) {
    for (int c = 0; c < d; ++c) put(strip, c, load(x + c * stride + t) * set1(r.signs[c]));
    Rotation::apply(r, strip, 1);
    for (int c = 0; c < d; ++c) store(x + c * stride + t, at(strip, c));
  }
}

void inverse_columns(const void* state, int d, int columns, float* x, std::ptrdiff_t stride) {
  alignas(64) float strip[kMaxRotated * kLanes];
  const Rotation r(state, d);
  for (int t = 0; t < columns; t += kLanes) {
    for (int c = 0; c < d; ++c) put(strip, c, load(x + c * stride + t));
    Rotation::apply(r, strip, 1);
    for (int c = 0; c < d; ++c) store(x + c * stride + t, at(strip, c) * set1(r.signs[c]));
  }
}

}  // namespace

extern const RotateKernels rotate_table;
const RotateKernels rotate_table = {forward, inverse, forward_columns, inverse_columns};

}  // namespace kvasir::kernel::KVASIR_TARGET
