R"cl(
// Panels of weights: src/kernel/int_planes.hpp. Activations: src/kernel/matmul.hpp (kInt8).
#define WORD(p) (*(__global const uint*)(p))
#define HALF(p) H2F(*(__global const ushort*)(p))
#define HEADS(n) (((n) * HEAD_BYTES + 63) / 64 * 64)

// Group g (0..7) of a row: four elements, as the signed bytes that are multiplied.
static uint codes(__global const uchar* planes, int row, int g) {
  planes += 4 * row;
#if BITS == 8
  uint u = WORD(planes + 64 * g);
#elif BITS >= 4
  uint u = WORD(planes + 64 * (g & 3)) >> (g < 4 ? 0 : 4) & 0x0f0f0f0fu;
#if BITS == 5
  u |= (WORD(planes + 256) >> g & 0x01010101u) << 4;
#elif BITS == 6
  u |= (WORD(planes + 256 + 64 * (g & 1)) >> (g & 6) & 0x03030303u) << 4;
#endif
#elif BITS == 3
  uint u;
  if (g < 6) {
    u = WORD(planes + 64 * (g % 3)) >> (g < 3 ? 0 : 4) & 0x07070707u;
  } else {
    const int bit = g == 6 ? 3 : 7;
    u = (WORD(planes) >> bit & 0x01010101u) | (WORD(planes + 64) >> bit & 0x01010101u) << 1 |
        (WORD(planes + 128) >> bit & 0x01010101u) << 2;
  }
#else
  uint u = WORD(planes + 64 * (g & 1)) >> (g & 6) & 0x03030303u;
#endif
#ifdef LEVELS0
  uint levels = 0;
  UNROLL
  for (int j = 0; j < 4; ++j) {
    const uint c = u >> 8 * j & 15u;
    const uint four = c < 8 ? (c < 4 ? LEVELS0 : LEVELS1) : (c < 12 ? LEVELS2 : LEVELS3);
    levels |= (four >> 8 * (c & 3) & 255u) << 8 * j;
  }
  return levels;
#elif BITS == 8
  return u ^ 0x80808080u;
#elif ZERO > 0
  return ((u | 0x80808080u) - ZERO * 0x01010101u) ^ 0x80808080u;
#else
  return u;
#endif
}

// Scales and minima of a row for the 32 elements `sub` of a block.
static void scales(__global const uchar* head, int sub, int row, float* d, float* m) {
#if defined(HEAD_HALF)
  d[0] = HALF(head + 2 * row);
#ifdef MINIMUM
  m[0] = HALF(head + 32 + 2 * row);
#endif
#elif defined(HEAD_K)
  d[0] = HALF(head + 2 * row) * (float)head[64 + 16 * sub + row];
  m[0] = -(HALF(head + 32 + 2 * row) * (float)head[192 + 16 * sub + row]);
#elif defined(HEAD_SIGNED)
  const float both = HALF(head + 2 * row);
  for (int i = 0; i < 2; ++i) {
    const int s = head[32 + 32 * sub + 16 * i + row];
    d[i] = both * (float)(s < 128 ? s : s - 256);
  }
#elif defined(HEAD_Q2_K)
  const float scale = HALF(head + 2 * row), minimum = HALF(head + 32 + 2 * row);
  for (int i = 0; i < 2; ++i) {
    const uint b = head[64 + 16 * (2 * sub + i) + row];
    d[i] = scale * (float)(b & 15u);
    m[i] = -(minimum * (float)(b >> 4));
  }
#elif defined(HEAD_IQ4_XS)
  const int s = head[32 + 16 * sub + row];
  d[0] = HALF(head + 2 * row) * (float)(s < 128 ? s : s - 256);
#elif defined(HEAD_E8M0)
  const uint e = head[row];
  const float x = ASF(e << 23);
  d[0] = e == 0 ? ASF(0x00200000u) : FMA(x, 0.0f, x * 0.5f);
#elif defined(HEAD_E4M3)
  for (int i = 0; i < 2; ++i) {
    const float x = ASF(((uint)head[32 * sub + 16 * i + row] << 20) + (119u << 23)), y = FMA(x, 2.0f, -0.0078125f);
    d[i] = y < x ? y : x;
  }
#elif defined(HEAD_AFFINE)
  d[0] = ASF(WORD(head + 4 * row));
  m[0] = ASF(WORD(head + 64 + 4 * row));
#elif defined(HEAD_ZERO_POINT)
  d[0] = HALF(head + 2 * row);
  m[0] = 0.0f - d[0] * HALF(head + 32 + 2 * row);
#endif
}

// What 32 elements add to a product: sums t (of each half) and the minima. i: the column's place in x.
#if HALVES == 2
#define SCALED(t, d) (FMA((float)(t)[0], (d)[0], 0.0f) + FMA((float)(t)[1], (d)[1], 0.0f))
#else
#define SCALED(t, d) FMA((float)(t)[0], (d)[0], 0.0f)
#endif
#if defined(MINIMUM) && HALVES == 2
#define FOLD(acc, t, d, m, i) FMA((m)[1], half_dsum[2 * (i) + 1], FMA((m)[0], half_dsum[2 * (i)], FMA(SCALED(t, d), xd[i], acc)))
#elif defined(MINIMUM)
#define FOLD(acc, t, d, m, i) FMA((m)[0], dsum[i], FMA(SCALED(t, d), xd[i], acc))
#else
#define FOLD(acc, t, d, m, i) FMA(SCALED(t, d), xd[i], acc)
#endif

// Where a tile of n columns has its parts: bytes, scales, scales times sums, sums of halves (not read), their products.
#define TILE(n) \
  __global const uchar* const tile = x + (ulong)first * (k + k / 32 * 28); \
  __global const uint* const q = (__global const uint*)tile; \
  __global const float* const xd = (__global const float*)(tile + (ulong)k * (n)); \
  __global const float* const dsum = xd + k / 32 * (n); \
  __global const float* const half_dsum = dsum + 3 * (k / 32) * (n); \
  (void)dsum, (void)half_dsum
)cl"
