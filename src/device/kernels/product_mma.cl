R"cl(
// The same by NVIDIA's matrix units (m16n8k32): a warp is two panels of 16 rows and a tile of columns. A panel's groups
// t and t + 4 of rows g and g + 8 are what lane 4 g + t gives to a product, as they lie there.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void product(__global const uchar* w, __global const uchar* x, __global float* out, ulong out_at, uint k, uint rows, uint panel_bytes, uint columns) {
  const uint panels = (rows + 15) / 16, groups = (panels + 7) / 8, first = GID / groups * 64;
  const int n = columns - first < 64 ? (int)(columns - first) : 64, g = (LID & 31) >> 2, t = LID & 3;
  const uint panel = GID % groups * 8 + (LID >> 5) * 2;
  TILE(n);
  const uint last = panels - 1;
  __global const uchar* head[2];
  for (int p = 0; p < 2; ++p) head[p] = w + (ulong)(panel + p < last ? panel + p : last) * panel_bytes;
  const int blocks = k / 32 / SUBS;
  float acc[2][8][4];
  UNROLL
  for (int p = 0; p < 2; ++p) UNROLL
  for (int o = 0; o < 8; ++o) UNROLL
  for (int j = 0; j < 4; ++j) acc[p][o][j] = 0.0f;
  int i = 0;
  for (int begin = 0; begin < blocks; begin += CHUNK) {
    const int count = blocks - begin < CHUNK ? blocks - begin : CHUNK;
    __global const uchar* planes[2];
    for (int p = 0; p < 2; ++p) planes[p] = head[p] + HEADS(count);
    for (int s = 0; s < count * SUBS; ++s, i += n) {
      uint u[2][4];
      float d[2][2][2], m[2][2][2];
      UNROLL
      for (int p = 0; p < 2; ++p) {
        UNROLL
        for (int j = 0; j < 4; ++j) u[p][j] = codes(planes[p], g + (j & 1) * 8, t + (j >> 1) * 4);
        UNROLL
        for (int j = 0; j < 2; ++j) scales(head[p] + s / SUBS * HEAD_BYTES, s % SUBS, g + 8 * j, d[p][j], m[p][j]);
        planes[p] += 64 * BITS;
      }
      UNROLL
      for (int o = 0; o < 8; ++o) {
        const int mine = 8 * o + g, left = 8 * o + 2 * t;
        __global const uint* const a = q + 8 * (i + (mine < n ? mine : n - 1));
        const uint b0 = a[t], b1 = a[t + 4];
        UNROLL
        for (int p = 0; p < 2; ++p) {
          int sum[4] = {0, 0, 0, 0};
#if HALVES == 2
          int high[4] = {0, 0, 0, 0};
          MMA(sum, u[p][0], u[p][1], 0u, 0u, b0, b1);
          MMA(high, 0u, 0u, u[p][2], u[p][3], b0, b1);
#else
          MMA(sum, u[p][0], u[p][1], u[p][2], u[p][3], b0, b1);
#endif
          UNROLL
          for (int j = 0; j < 4; ++j) {
            const int at = i + (left + (j & 1) < n ? left + (j & 1) : n - 1);
#if HALVES == 2
            const int both[2] = {sum[j], high[j]};
#else
            const int both[1] = {sum[j]};
#endif
            acc[p][o][j] = FOLD(acc[p][o][j], both, d[p][j >> 1], m[p][j >> 1], at);
          }
        }
      }
    }
    for (int p = 0; p < 2; ++p) head[p] = planes[p];
  }
  UNROLL
  for (int p = 0; p < 2; ++p) {
#ifdef FACTOR
    const float factor = ASF(WORD(head[p]));
#endif
    UNROLL
    for (int o = 0; o < 8; ++o) UNROLL
    for (int j = 0; j < 4; ++j) {
#ifdef FACTOR
      acc[p][o][j] = acc[p][o][j] * factor;
#endif
      const uint row = (panel + p) * 16 + g + (j >> 1) * 8;
      const int c = 8 * o + 2 * t + (j & 1);
      if (row < rows && c < n) out[out_at + (ulong)(first + c) * rows + row] = acc[p][o][j];
    }
  }
}
)cl"
