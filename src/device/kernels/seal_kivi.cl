R"cl(
// Pages of KIVI and its relatives (docs/formats/affine.md) from raw blocks of halves: a matrix (depth, lanes), a scale
// and a minimum per row of depth and group of lanes. Keys: lanes are 128 tokens, depth D channels; values: lanes D
// channels, depth 128 tokens. B: bits, 2 or 4. The first `skip` tokens are sinks and are left out.
#if KEYS
#define LANES 128
#define DEPTH D
#else
#define LANES D
#define DEPTH 128
#endif
#define GROUPS ((LANES + G - 1) / G)
#define PAGE (GROUPS * DEPTH * 4 + LANES * DEPTH * B / 8)
static float finite(float r) { return isnan(r) ? -65504.0f : fmin(fmax(r, -65504.0f), 65504.0f); }

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void seal(__global const ushort* raw, __global uchar* pages, int skip) {
  __local uchar code[DEPTH * LANES];
  __global uchar* page = pages + (ulong)GID * PAGE;
  __global half* head = (__global half*)page;
  for (int k = LID; k < DEPTH; k += 128) {
    __global const half* x = (__global const half*)raw + ((ulong)GID * DEPTH + k) * LANES;
    for (int from = 0; from < LANES; from += G) {
      const int to = from + G < LANES ? from + G : LANES;
#if KEYS
      const int out = to <= skip;         // no token of the group counts
      const int begin = skip > from && !out ? skip : from;  // others stand in as the first that counts
#else
      const int out = k < skip;
      const int begin = from;
#endif
      float low = out ? 0.0f : finite(vload_half(begin, x)), high = low;
      for (int l = begin + 1; l < to && !out; ++l) {
        const float v = finite(vload_half(l, x));
        low = fmin(low, v);
        high = fmax(high, v);
      }
      const int at = from / G * 2 * DEPTH + k;
      vstore_half_rte((high - low) / (float)((1 << B) - 1), at, head);
      vstore_half_rte(low + 0.0f, at + DEPTH, head);
      const float s = vload_half(at, head), m = vload_half(at + DEPTH, head);
      const float inverse = s < 0x1p-25f ? 0.0f : 1.0f / s;
      for (int l = from; l < to; ++l) {
        const int none = out || (KEYS && l < skip);
        const float v = none ? 0.0f : finite(vload_half(l, x));
        code[k * LANES + l] =
            none ? 0 : (uchar)convert_int_rte(fmin((float)((1 << B) - 1), fmax(0.0f, (v - m) * inverse)));
      }
    }
  }
  BAR();
  __global uchar* to = page + GROUPS * DEPTH * 4;
  for (int i = LID; i < LANES * DEPTH * B / 8; i += 128) {
    const int unit = i / (32 * B), b = i % (32 * B), j = b & 63, lane = unit / (DEPTH / 16) * 16 + (j >> 2);
    const int d = unit % (DEPTH / 16) * 16 + (j & 3);
    uchar v = 0;
#if B == 4
    v = code[(d + 8 * (b >> 6)) * LANES + lane] | (uchar)(code[(d + 8 * (b >> 6) + 4) * LANES + lane] << 4);
#else
    for (int c = 0; c < 4; ++c) v |= (uchar)(code[(d + 4 * c) * LANES + lane] << 2 * c);
#endif
    to[i] = v;
  }
}
)cl"
