R"cl(
// out[c][r] = sum over k of W[r][k] x[c][k]: an item is a row and a quarter of a tile of columns. 32 elements at a time the codes
// of a row are unpacked once for all of its columns.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void product(__global const uchar* w, __global const uchar* x, __global float* out, ulong out_at, uint k, uint rows, uint panel_bytes, uint columns) {
  const uint groups = (rows + 31) / 32, row = GID % groups * 32 + (LID & 31), first = GID / groups * 64;
  const int n = columns - first < 64 ? (int)(columns - first) : 64, from = LID / 32 * 16, lane = row & 15;
  if (row >= rows || from >= n) return;
  TILE(n);
  __global const uchar* head = w + (ulong)(row / 16) * panel_bytes;
  const int blocks = k / 32 / SUBS;
  float acc[16];
  UNROLL
  for (int c = 0; c < 16; ++c) acc[c] = 0.0f;
  int i = 0;
  for (int begin = 0; begin < blocks; begin += CHUNK) {
    const int count = blocks - begin < CHUNK ? blocks - begin : CHUNK;
    __global const uchar* planes = head + HEADS(count);
    for (int s = 0; s < count * SUBS; ++s, i += n, planes += 64 * BITS) {
      uint u[8];
      float d[2] = {0.0f, 0.0f}, m[2] = {0.0f, 0.0f};
      UNROLL
      for (int g = 0; g < 8; ++g) u[g] = codes(planes, lane, g);
      scales(head + s / SUBS * HEAD_BYTES, s % SUBS, lane, d, m);
      UNROLL
      for (int c = 0; c < 16; ++c) {
        const int at = i + (from + c < n ? from + c : n - 1);  // columns that are not there are computed, not stored
        __global const uint* const a = q + 8 * at;
        int t[2] = {0, 0};
        UNROLL
        for (int g = 0; g < 8; ++g) t[HALVES == 2 ? g / 4 : 0] = DP4A(u[g], a[g], t[HALVES == 2 ? g / 4 : 0]);
        acc[c] = FOLD(acc[c], t, d, m, at);
      }
    }
    head = planes;
  }
#ifdef FACTOR
  const float factor = ASF(WORD(head));
#endif
  UNROLL
  for (int c = 0; c < 16; ++c) {
#ifdef FACTOR
    acc[c] = acc[c] * factor;
#endif
    if (from + c < n) out[out_at + (ulong)(first + from + c) * rows + row] = acc[c];
  }
}
)cl"
