R"cl(
// KIVI's arrays (kv/kivi_arrays.hpp): per head a matrix (depth, lanes) of codes of B bits, a scale and a minimum for each
// `group` lanes of a row. Number (k, l) of a head of x is at k * by_k + l * by_l. wide: scales are floats, else halves.
#define TOP ((1 << B) - 1)
#define EACH (8 / B)
#define ITEM ((ulong)get_global_id(0))

static float scale_at(__global const uchar* s, ulong i, int wide) {
  return wide ? ((__global const float*)s)[i] : vload_half(i, (__global const half*)s);
}
static void put_scale(float f, __global uchar* s, ulong i, int wide) {
  if (wide)
    ((__global float*)s)[i] = f;
  else
    vstore_half_rte(f, i, (__global half*)s);
}

// An item makes a group. Items that follow each other read numbers that do: channels of keys, groups of values.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void kivi_quantize(__global const float* x, __global uchar* codes, __global uchar* scales, __global uchar* minima,
                   ulong items, ulong depth, ulong lanes, ulong group, ulong by_k, ulong by_l, int wide) {
  if (ITEM >= items) return;
  const ulong groups = lanes / group, head = ITEM / (depth * groups), i = ITEM % (depth * groups);
  const ulong k = by_k == 1 ? i % depth : i / groups, j = by_k == 1 ? i / depth : i % groups;
  __global const float* g = x + head * depth * lanes + k * by_k + j * group * by_l;
  float low = g[0], high = low;
  for (ulong l = 1; l < group; ++l) {
    low = fmin(low, g[l * by_l]);
    high = fmax(high, g[l * by_l]);
  }
  const ulong at = (head * depth + k) * groups + j;
  put_scale((high - low) / (float)TOP, scales, at, wide);
  put_scale(low + 0.0f, minima, at, wide);
  const float s = scale_at(scales, at, wide), m = scale_at(minima, at, wide);
  __global uchar* to = codes + ((head * depth + k) * lanes + j * group) / EACH;
  for (ulong l = 0; l < group; l += EACH) {
    uint byte = 0;
    for (int c = 0; c < EACH; ++c)
      if (s > 0.0f)
        byte |= (uint)convert_int_rte(fmin((float)TOP, fmax(0.0f, (g[(l + c) * by_l] - m) / s))) << (B * c);
    *to++ = (uchar)byte;
  }
}

// An item reads a byte.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void kivi_dequantize(__global const uchar* codes, __global const uchar* scales, __global const uchar* minima,
                     __global float* x, ulong items, ulong depth, ulong lanes, ulong group, ulong by_k, ulong by_l,
                     int wide) {
  if (ITEM >= items) return;
  const ulong first = ITEM * EACH, row = first / lanes, l = first % lanes;
  const ulong at = row * (lanes / group) + l / group;
  const float s = scale_at(scales, at, wide), m = scale_at(minima, at, wide);
  __global float* to = x + row / depth * depth * lanes + row % depth * by_k + l * by_l;
  const uint byte = codes[ITEM];
  for (int c = 0; c < EACH; ++c) to[c * by_l] = (float)(byte >> (B * c) & TOP) * s + m;
}

// A work group makes 128 lanes of up to 8 rows over one block of the depth. sums: (heads, rows, blocks, lanes).
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void kivi_multiply(__global const float* a, __global const uchar* codes, __global const uchar* scales,
                   __global const uchar* minima, __global float* sums, ulong depth, ulong lanes, ulong group, ulong rows,
                   int wide) {
  const ulong tiles = (lanes + 127) / 128, blocks = (depth + BLOCK - 1) / BLOCK, sets = (rows + 7) / 8;
  const ulong i = (ulong)get_group_id(0), l = i % tiles * 128 + get_local_id(0), block = i / tiles % blocks;
  const ulong set = i / tiles / blocks % sets, head = i / tiles / blocks / sets;
  if (l >= lanes) return;
  const ulong end = depth < (block + 1) * BLOCK ? depth : (block + 1) * BLOCK;
  const ulong n = rows - set * 8 < 8 ? rows - set * 8 : 8;
  __global const float* x = a + (head * rows + set * 8) * depth;
  const uint shift = (uint)(l % EACH) * B;
  float sum[8];
  for (int r = 0; r < 8; ++r) sum[r] = 0.0f;
  for (ulong k = block * BLOCK; k < end; ++k) {
    const ulong row = head * depth + k, at = row * (lanes / group) + l / group;
    const uint code = (uint)codes[(row * lanes + l) / EACH] >> shift & TOP;
    const float number = (float)code * scale_at(scales, at, wide) + scale_at(minima, at, wide);
    for (int r = 0; r < 8; ++r) sum[r] = sum[r] + x[((ulong)r < n ? r : 0) * depth + k] * number;
  }
  for (ulong r = 0; r < n; ++r) sums[((head * rows + set * 8 + r) * blocks + block) * lanes + l] = sum[r];
}

// An item adds the sums of the blocks.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void kivi_total(__global const float* sums, __global float* out, ulong items, ulong lanes, ulong blocks) {
  if (ITEM >= items) return;
  __global const float* s = sums + ITEM / lanes * blocks * lanes + ITEM % lanes;
  float sum = s[0];
  for (ulong b = 1; b < blocks; ++b) sum = sum + s[b * lanes];
  out[ITEM] = sum;
}
)cl"
