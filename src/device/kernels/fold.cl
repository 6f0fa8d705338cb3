R"cl(
// Fold of sealed pages of any codec that is known here, in plain C: a work group folds the pages of one group, one after
// the other. Items are tokens for keys and channels for values.
#define ROWS for (int r = 0; r < 8; ++r)

// Words of four codes of a lane's 16 depth: src/kv/families/packed/layout.hpp. p: the unit, i: lane of the panel
static void words_8(__global const uchar* p, int i, uint* w) {
  for (int j = 0; j < 4; ++j) w[j] = ((__global const uint*)p)[16 * j + i];
}
static void words_4(__global const uchar* p, int i, uint* w) {
  const uint a = ((__global const uint*)p)[i], b = ((__global const uint*)p)[16 + i];
  w[0] = a & 0x0f0f0f0fu;
  w[1] = (a >> 4) & 0x0f0f0f0fu;
  w[2] = b & 0x0f0f0f0fu;
  w[3] = (b >> 4) & 0x0f0f0f0fu;
}
static void words_2(__global const uchar* p, int i, uint* w) {
  const uint a = ((__global const uint*)p)[i];
  for (int j = 0; j < 4; ++j) w[j] = (a >> (2 * j)) & 0x03030303u;
}
static void words_3(__global const uchar* p, int i, uint* w) {
  const uint a = ((__global const uint*)p)[i], l = ((__global const uint*)p)[16 + (i & 7)] >> (i >> 3) * 2;
  const uint y = (l & 0x33333333u) | ((a >> 1) & 0x44444444u);
  w[0] = a & 0x07070707u;
  w[1] = (a >> 4) & 0x07070707u;
  w[2] = y & 0x07070707u;
  w[3] = (y >> 4) & 0x07070707u;
}
static void words_5(__global const uchar* p, int i, uint* w) {
  const uint a = ((__global const uint*)p)[i], b = ((__global const uint*)p)[16 + i];
  const uint l = ((__global const uint*)p)[32 + (i & 7)] >> (i >> 3) * 4;
  w[0] = a & 0x1f1f1f1fu;
  w[1] = b & 0x1f1f1f1fu;
  w[2] = ((a >> 3) & 0x1c1c1c1cu) | (l & 0x03030303u);
  w[3] = ((b >> 3) & 0x1c1c1c1cu) | ((l >> 2) & 0x03030303u);
}
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

static uint look(__constant const uchar* table, uint w) {
  return (uint)table[w & 255] | (uint)table[w >> 8 & 255] << 8 | (uint)table[w >> 16 & 255] << 16 |
         (uint)table[w >> 24] << 24;
}
#ifdef KLEVELS
__constant uchar k_levels[32] = {KLEVELS};
#define KMAP(w) look(k_levels, w)
#else
#define KMAP(w) (w)
#endif
#ifdef VLEVELS
__constant uchar v_levels[32] = {VLEVELS};
#define VMAP(w) look(v_levels, w)
#else
#define VMAP(w) (w)
#endif

// acc[r] += sum over depth [from, to) of x[r][depth] * code[depth][lane], x as words of `pitch`
#define DOTS(B, MAP, codes, depth, from, to, lane, x, pitch, acc) do { \
  __global const uchar* p_ = (codes) + ((lane) >> 4) * (32 * B * ((depth) / 16)); \
  for (int u_ = (from) / 16; u_ < (to) / 16; ++u_) { \
    uint w_[4]; \
    JOIN(words_, B)(p_ + u_ * 32 * B, (lane) & 15, w_); \
    for (int j_ = 0; j_ < 4; ++j_) { \
      const uint m_ = MAP(w_[j_]); \
      ROWS acc[r] = DP4A(m_, (x)[r * (pitch) + 4 * u_ + j_], acc[r]); \
    } } } while (0)

// The sum of 16 lanes by halves.
static float tree(__local const float* a) {
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = a[i] + a[i + 8];
  for (int i = 0; i < 4; ++i) s[i] = s[i] + s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

#if KFORM == 1 || VFORM == 1
#define ROW_FORMS
// Rows x times the scales of each group of lanes as integers in two planes: src/kv/families/affine/rows.hpp. header: per
// group half s[depth], half m[depth]. An item makes row r of group j, i = 8 j + r, alone: PoCL 3.1
// crashes where barriers stand in loops of loops.
static float sum_of(float16 x) {
  const float8 a = x.lo + x.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.z) + (b.y + b.w);
}
static int total_of(int16 x) {
  const int8 a = x.lo + x.hi;
  const int4 b = a.lo + a.hi;
  return (b.x + b.z) + (b.y + b.w);
}
static void fold_scales(int i, __global const ushort* header, int depth, float middle, float whole,
                        __local const float* x, int pitch, __local char* high, __local char* low, __local float* scale,
                        __local float* base, __local float* fine) {
  __global const half* s = (__global const half*)header + (i >> 3) * 2 * depth;
  __local const float* row = x + (i & 7) * pitch;
  float16 most = 0.0f, b = 0.0f, c = 0.0f;
  for (int k = 0; k < depth / 16; ++k) {
    const float16 f = vload_half16(k, s), v = vload16(k, row), p = v * f;
    most = fmax(most, fabs(p));
    b = fma(v, fma((float16)whole, f, vload_half16(k, s + depth)), b);
    c = fma(p, p, c);
  }
  const float8 m8 = fmax(most.lo, most.hi);
  const float4 m4 = fmax(m8.lo, m8.hi);
  const float top = fmax(fmax(m4.x, m4.z), fmax(m4.y, m4.w)), sum = sum_of(b);
  const int usable = top >= 1.5e-36f && top <= 3e38f && sum * 0.0f == 0.0f;
  const float size = usable ? top / 127.0f : 0.0f, inverse = usable ? 127.0f / top : 0.0f;
  const float excess = fmax((341.33334350585938f * (float)depth) * size * size - sum_of(c), 0.0f);
  int16 n = 0, rest = 0;
  for (int k = 0; k < depth / 16; ++k) {
    const float16 y = vload16(k, row) * vload_half16(k, s) * inverse, near = (y + 12582912.0f) - 12582912.0f;
    const int16 h = convert_int16_rte(y);
    vstore16(convert_char16(h), k, high + i * depth);
    n += h;
    if (excess > 0.0f) {
      const int16 g = convert_int16_rte((y - near) * 254.0f);
      vstore16(convert_char16(g), k, low + i * depth);
      rest += g;
    }
  }
  float all = (float)total_of(n);
  if (excess > 0.0f) all = fma((float)total_of(rest), 1.0f / 254.0f, all);
  scale[i] = size;
  fine[i] = excess;
  base[i] = sum - size * (middle * all);
}
#endif

#define HALVES(codec, b) (codec == 16 ? H2F(b) : ASF((uint)(b) << 16))
#if KB == 32
#define KLOAD(i) ((__global const float*)k)[i]
#else
#define KLOAD(i) HALVES(KB, ((__global const ushort*)k)[i])
#endif
#if VB == 32
#define VLOAD(i) ((__global const float*)v)[i]
#else
#define VLOAD(i) HALVES(VB, ((__global const ushort*)v)[i])
#endif

#define NC ((DV + 127) / 128)  // channels of an item
#define KGROUPS ((128 + KG - 1) / KG)
#define VGROUPS ((DV + VG - 1) / VG)
// Bytes of rows as integers. Keys and values have arrays of their own, which lets no compiler move what is written for
// values before what is read for keys, as PoCL 3.1 does.
#define KX (KFORM == 1 ? KGROUPS * D : D)
#define VX (VFORM == 1 ? VGROUPS * 128 : 128)

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void fold(ARENAS, __global const uint2* pages, __global const uint* jobs, __global const uchar* queries,
          __global const float* turns, __global float* state, uint layer, uint turn_at, uint first_job) {
  __local float w[8 * 128];
  __local float o[8 * (DV > D ? DV : D)];   // queries, at the end the state
  __local uint x[2 * KX];
  __local uint vx[2 * VX];
  __local float red[128];
  __local float top[8];
  __local float mass[8];
  __local float fa[8];
  __local float fb[8];
  __local float all_top[8];
  __local float all_mass[8];
  __local float base[64];
  __local float scale[64];
  __local float vbase[64];
  __local float vscale[64];
#ifdef ROW_FORMS
  __local uint y[2 * KX];
  __local uint vy[2 * VX];
  __local float fine[64];
  __local float vfine[64];
#endif
  __global const uint* job = jobs + (first_job + GID) * JOB;
  const int t = LID, count = (int)job[1];
  __global const float* q = (__global const float*)(queries + (ulong)job[2] * QBLOCK);
  float a[NC][8];
  for (int c = 0; c < NC; ++c) ROWS a[c][r] = 0.0f;
  if (t < 8) {
    all_top[t] = -INF;
    all_mass[t] = 0.0f;
  }
  for (int p = 0; p < count; ++p) {
    const uint2 page = pages[job[0] + p];
    const int first = FIRST(page.y), end = END(page.y);
    __global const uchar* k = ARENA(page.y) + ((ulong)page.x + layer + job[4]) * 16;
    __global const uchar* v = ARENA(page.y) + ((ulong)page.x + layer + job[5]) * 16;
    // ---- scores
    float score[8];
    ROWS score[r] = 0.0f;
#if KFORM == 0
    {
      for (int i = t; i < 2 * D; i += 128) x[i] = ((__global const uint*)q)[QWORDS + i];
      const int r = t >> 4, l = t & 15;
      float s = 0.0f;
      for (int i = l; i < D; i += 16)
        s = FMA(q[r * D + i], MEAN(((__global const uint*)(k + 256))[i >> 2], i & 3), s);
      red[t] = s;
      BAR();
      if (t < 8) base[t] = tree(red + 16 * t);
      BAR();
      int acc[8];
      ROWS acc[r] = 0;
      DOTS(KB, KMAP, k + 256 + D, D, 0, D, t, x, D / 4, acc);
      const float g = H2F(((__global const ushort*)k)[t]);
      ROWS score[r] = FMA(g, FMA((float)acc[r], q[QSCALE + r], q[QSCALE + 8 + r]), base[r]);
    }
#elif KFORM == 1
    {
      for (int i = t; i < 8 * D; i += 128) o[i] = q[i];
      BAR();
      if (t < 8 * KGROUPS)
        fold_scales(t, (__global const ushort*)k, D, KMIDDLE, KWHOLE, o, D, (__local char*)x, (__local char*)y, scale,
                  base, fine);
      BAR();
      const int j = t / KG;
      int acc[8], rest[8];
      ROWS acc[r] = rest[r] = 0;
      DOTS(KB, KMAP, k + KGROUPS * D * 4, D, 0, D, t, x + j * 2 * D, D / 4, acc);
      DOTS(KB, KMAP, k + KGROUPS * D * 4, D, 0, D, t, y + j * 2 * D, D / 4, rest);
      ROWS {
        const int i = 8 * j + r;
        score[r] = FMA((float)acc[r], scale[i], base[i]);
        if (fine[i] > 0.0f) score[r] = FMA((float)rest[r], scale[i] * (1.0f / 254.0f), score[r]);
      }
    }
#elif KFORM == 2
    {
      for (int i = t; i < 2 * D; i += 128) x[i] = ((__global const uint*)q)[QWORDS + i];
      BAR();
      for (int j = 0; j < NQ; ++j) {
        const int from = j * KG, to = from + KG < D ? from + KG : D;
        int acc[8];
        ROWS acc[r] = 0;
        DOTS(KB, KMAP, k + NQ * 128 * 4, D, from, to, t, x, D / 4, acc);
        __global const ushort* h = (__global const ushort*)k + j * 256 + t;
        const float s = H2F(h[0]), middle = FMA(KWHOLE, s, H2F(h[128]));
        __global const float* f = q + QSCALE + j * 24;
        ROWS {
          score[r] = FMA(middle, f[16 + r], score[r]);
          score[r] = FMA(s, FMA((float)acc[r], f[r], f[8 + r]), score[r]);
        }
      }
    }
#else
    for (int c = 0; c < D; ++c) {
      const float y_ = KLOAD(c * 128 + t);
      ROWS score[r] = FMA(q[r * D + c], y_, score[r]);
    }
#endif
    // ---- weights
    ROWS w[r * 128 + t] = t >= first && t < end ? score[r] : -INF;
    BAR();
    if (t < 8) {
      float m = -INF;
      for (int i = 0; i < 128; ++i) m = FMAX(m, w[t * 128 + i]);
      top[t] = m;
    }
    BAR();
    ROWS w[r * 128 + t] = W(w[r * 128 + t] - FMAX(top[r], LOWEST));
    BAR();
    {
      float s = 0.0f;
      for (int i = t & 15; i < 128; i += 16) s = s + w[(t >> 4) * 128 + i];
      red[t] = s;
    }
    BAR();
    if (t < 8) mass[t] = tree(red + 16 * t);
    // ---- sums
    float out[NC][8];
#if VFORM == 0
    {
      const int row = t >> 4, l = t & 15;
      float z = 0.0f;
      for (int i = l; i < 128; i += 16) z = FMAX(z, ABS(w[row * 128 + i] * H2F(((__global const ushort*)v)[i])));
      BAR();
      red[t] = z;
      BAR();
      if (t < 8) {
        float size = 0.0f;
        for (int i = 0; i < 16; ++i) size = FMAX(size, red[16 * t + i]);
        const bool usable = size >= 1.5e-36f && size <= 3e38f;
        vscale[t] = usable ? size / 127.0f : 0.0f;
        vscale[8 + t] = usable ? 127.0f / size : 0.0f;
      }
      BAR();
      ROWS ((__local char*)vx)[r * 128 + t] =
          (char)convert_int_rte(w[r * 128 + t] * H2F(((__global const ushort*)v)[t]) * vscale[8 + r]);
      BAR();
      if (t < 8) {
        int s = 0;
        for (int i = 0; i < 128; ++i) s += ((__local char*)vx)[t * 128 + i];
        vbase[t] = -vscale[t] * (VOFFSET * (float)s);
      }
      BAR();
      for (int n = 0; n < NC; ++n) {
        const int c = t + 128 * n;
        if (c >= DV) continue;
        int acc[8];
        ROWS acc[r] = 0;
        DOTS(VB, VMAP, v + 256 + DV, 128, 0, 128, c, vx, 32, acc);
        const float mean = MEAN(((__global const uint*)(v + 256))[c >> 2], c & 3);
        ROWS out[n][r] = FMA(mass[r], mean, FMA((float)acc[r], vscale[r], vbase[r]));
      }
    }
#elif VFORM == 1
    BAR();
    if (t < 8 * VGROUPS)
      fold_scales(t, (__global const ushort*)v, 128, VMIDDLE, VWHOLE, w, 128, (__local char*)vx, (__local char*)vy, vscale,
                vbase, vfine);
    BAR();
    for (int n = 0; n < NC; ++n) {
      const int c = t + 128 * n;
      if (c >= DV) continue;
      const int j = c / VG;
      int acc[8], rest[8];
      ROWS acc[r] = rest[r] = 0;
      DOTS(VB, VMAP, v + VGROUPS * 512, 128, 0, 128, c, vx + j * 256, 32, acc);
      DOTS(VB, VMAP, v + VGROUPS * 512, 128, 0, 128, c, vy + j * 256, 32, rest);
      ROWS {
        const int i = 8 * j + r;
        out[n][r] = FMA((float)acc[r], vscale[i], vbase[i]);
        if (vfine[i] > 0.0f) out[n][r] = FMA((float)rest[r], vscale[i] * (1.0f / 254.0f), out[n][r]);
      }
    }
#else
    BAR();
    for (int n = 0; n < NC; ++n) {
      const int c = t + 128 * n;
      if (c >= DV) continue;
      ROWS out[n][r] = 0.0f;
      for (int i = first; i < end; ++i) {
        const float y_ = VLOAD(i * DV + c);
        ROWS out[n][r] = FMA(w[r * 128 + i], y_, out[n][r]);
      }
      ROWS out[n][r] = out[n][r] + 0.0f;
    }
#endif
    // ---- merge
    if (t < 8) {
      const float was = all_top[t], now = FMAX(was, top[t]), low = FMAX(now, LOWEST);
      fa[t] = W(was - low);
      fb[t] = W(top[t] - low);
      all_top[t] = now;
      all_mass[t] = FMA(mass[t], fb[t], all_mass[t] * fa[t]);
    }
    BAR();
    for (int n = 0; n < NC; ++n) ROWS a[n][r] = FMA(out[n][r], fb[r], a[n][r] * fa[r]);
    BAR();
  }
  for (int n = 0; n < NC; ++n)
    if (t + 128 * n < DV) ROWS o[r * DV + t + 128 * n] = a[n][r];
  BAR();
#ifdef VTURN
  turn(o, DV, turns + turn_at + job[6] * TURN_FLOATS, 128);
#endif
  __global float* to = state + (ulong)job[3] * 8 * PITCH;
  for (int i = t; i < 8 * DV; i += 128) to[i / DV * PITCH + i % DV] = o[i];
  if (t < 8) {
    to[t * PITCH + DV] = all_top[t];
    to[t * PITCH + DV + 1] = all_mass[t];
  }
}
)cl"
