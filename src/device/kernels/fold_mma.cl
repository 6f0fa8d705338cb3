R"cl(
// Fold of pages of rotated codecs on the matrix units (NV; EMU): a work group folds the pages of one group, a warp of 32
// items each. Products are mma m16n8k32: rows are lanes of the packed matrix, columns the 8 rows of queries or weights.
// In a warp, item = 4 g + t: g is a row of queries, or four lanes of a block of 32; t one of four units of 16 depth.
// mma leaves the order of the depth free: both sides have that in which bits lie in the page.
#define MAGIC 12582912.0f  // integer sums that start from its bits are floats that much too large
#define SUM(x) (ASF((uint)(x)) - MAGIC)
#define LOW16(z) PRMT((z) | ((z) >> 4), 0, 0x4420)  // the low nibbles of four bytes

// Tables of levels: T0 .. T7, four of them each.
#define LOOK4(T, s) PRMT(T##0, 0, s)
#define LOOK8(T, s) PRMT(T##0, T##1, s)
static uint look32(uint w, uint t0, uint t1, uint t2, uint t3, uint t4, uint t5, uint t6, uint t7) {
  const uint s = LOW16(w & 0x07070707u), a = LOW16((w >> 1) & 0x04040404u) | 0x3210u,
             b = LOW16((w >> 2) & 0x04040404u) | 0x3210u;
  return PRMT(PRMT(PRMT(t0, t1, s), PRMT(t2, t3, s), a), PRMT(PRMT(t4, t5, s), PRMT(t6, t7, s), a), b);
}
#define LOOK32(T, w) look32(w, T##0, T##1, T##2, T##3, T##4, T##5, T##6, T##7)

// CODES_B(T, unit, g): A, B are four lanes' bits; PICK_B(T, c, w0 .. w3): of lane c, depth as X_B orders that of rows.
#define CODES_2(u, g) const uint4 A = (u)[(g) & 3];
#define PICK_2(T, c, w0, w1, w2, w3) do { const uint x_ = A.c & 0x33333333u, y_ = (A.c >> 2) & 0x33333333u; \
  w0 = LOOK4(T, x_); w1 = LOOK4(T, x_ >> 16); w2 = LOOK4(T, y_); w3 = LOOK4(T, y_ >> 16); } while (0)
#define CODES_3(u, g) const uint4 A = (u)[(g) & 3], L = (u)[4 + ((g) & 1)]; const int sh = (g) & 2;
#define PICK_3(T, c, w0, w1, w2, w3) do { const uint x_ = A.c & 0x77777777u, \
  y_ = ((L.c >> sh) & 0x33333333u) | ((A.c >> 1) & 0x44444444u); \
  w0 = LOOK8(T, x_); w1 = LOOK8(T, x_ >> 16); w2 = LOOK8(T, y_); w3 = LOOK8(T, y_ >> 16); } while (0)
#define CODES_4(u, g) const uint4 A = (u)[(g) & 3], B = (u)[4 + ((g) & 3)];
#define HALF4(T, x, lo, hi) do { const uint u_ = (x) & 0x77777777u, s_ = (((x) >> 1) & 0x44444444u) | 0x32103210u; \
  lo = PRMT(PRMT(T##0, T##1, u_), PRMT(T##2, T##3, u_), s_); \
  hi = PRMT(PRMT(T##0, T##1, u_ >> 16), PRMT(T##2, T##3, u_ >> 16), s_ >> 16); } while (0)
#define PICK_4(T, c, w0, w1, w2, w3) do { HALF4(T, A.c, w0, w1); HALF4(T, B.c, w2, w3); } while (0)
#define CODES_5(u, g) const uint4 A = (u)[(g) & 3], B = (u)[4 + ((g) & 3)], L = (u)[8 + ((g) & 1)]; const int sh = 2 * ((g) & 2);
#define PICK_5(T, c, w0, w1, w2, w3) do { const uint l_ = L.c >> sh; \
  w0 = LOOK32(T, A.c & 0x1f1f1f1fu); w1 = LOOK32(T, B.c & 0x1f1f1f1fu); \
  w2 = LOOK32(T, ((A.c >> 3) & 0x1c1c1c1cu) | (l_ & 0x03030303u)); \
  w3 = LOOK32(T, ((B.c >> 3) & 0x1c1c1c1cu) | ((l_ >> 2) & 0x03030303u)); } while (0)
#define CODES_8(u, g) const uint4 A = (u)[(g) & 3], B = (u)[4 + ((g) & 3)], C = (u)[8 + ((g) & 3)], E = (u)[12 + ((g) & 3)];
#define PICK_8(T, c, w0, w1, w2, w3) do { w0 = A.c; w1 = B.c; w2 = C.c; w3 = E.c; } while (0)
// Four words of a row, in order of depth, as the left factor: two of each of the two products of a step.
#define X_2(a, p, q) do { p[0] = PRMT(a.x, a.z, 0x5140); q[0] = PRMT(a.x, a.z, 0x7362); \
  p[1] = PRMT(a.y, a.w, 0x5140); q[1] = PRMT(a.y, a.w, 0x7362); } while (0)
#define X_3(a, p, q) do { p[0] = PRMT(a.x, a.y, 0x5140); q[0] = PRMT(a.x, a.y, 0x7362); \
  p[1] = PRMT(a.z, a.w, 0x5140); q[1] = PRMT(a.z, a.w, 0x7362); } while (0)
#define X_4 X_3
#define X_5(a, p, q) do { p[0] = a.x; q[0] = a.y; p[1] = a.z; q[1] = a.w; } while (0)
#define X_8 X_5
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define CODES(B) JOIN(CODES_, B)
#define PICK(B) JOIN(PICK_, B)
#define XORDER(B) JOIN(X_, B)

// A block of 32 lanes times 8 rows over `units` of 16 depth; item (g, t) gets lanes 4g .. 4g + 3: c[0..1] lane 4g, rows
// 2t and 2t + 1; c[2..3] 4g + 1; d likewise 4g + 2, 4g + 3. `panel`: that of its lanes.
#define PRODUCT(BITS, T, panel, units, q0, q1, c, d) do { UNROLL for (int s_ = 0; s_ < ((units) + 3) / 4; ++s_) { \
  const int unit_ = 4 * s_ + t < (units) ? 4 * s_ + t : 0; \
  CODES(BITS)((panel) + unit_ * 2 * BITS, g) \
  uint x0, x1, x2, x3, y0, y1, y2, y3; \
  PICK(BITS)(T, x, x0, x1, x2, x3); PICK(BITS)(T, y, y0, y1, y2, y3); \
  MMA(c, x0, y0, x1, y1, q0[2 * s_], q1[2 * s_]); MMA(c, x2, y2, x3, y3, q0[2 * s_ + 1], q1[2 * s_ + 1]); \
  PICK(BITS)(T, z, x0, x1, x2, x3); PICK(BITS)(T, w, y0, y1, y2, y3); \
  MMA(d, x0, y0, x1, y1, q0[2 * s_], q1[2 * s_]); MMA(d, x2, y2, x3, y3, q0[2 * s_ + 1], q1[2 * s_ + 1]); } } while (0)

#define KSTEPS ((D + 63) / 64)
#define HALVES ((DV + 127) / 128)  // of values, 128 channels each
#define LINE 132                   // floats of a row of local sums
#define STAGE 36                   // words of a row of weights

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void fold(ARENAS, __global const uint2* pages, __global const uint* jobs, __global const uchar* queries,
          __global const float* turns, __global float* state, uint layer, uint turn_at, uint first_job) {
  __local float4 o[8 * 8 * (LINE / 4)];
  __local float top[64];
  __local float mass[64];
  __local float fa[64];
  __local float fb[64];
  __global const uint* job = jobs + (first_job + GID) * JOB;
  const int id = LID, lane = id & 31, warp = id >> 5, g = lane >> 2, t = lane & 3, count = (int)job[1];
  const uint2 page = pages[job[0] + (warp < count ? warp : 0)];
  __global const uchar* slot = ARENA(page.y) + ((ulong)page.x + layer) * 16;
  __global const uchar* k = slot + (ulong)job[4] * 16;
  __global const uchar* v = slot + (ulong)job[5] * 16;
  __global const float* q = (__global const float*)(queries + (ulong)job[2] * QBLOCK);
  uint q0[2 * KSTEPS], q1[2 * KSTEPS];
  UNROLL for (int s = 0; s < KSTEPS; ++s) {
    const int at = 16 * s + 4 * t;  // in words
    uint4 a;
    a.x = a.y = a.z = a.w = 0;
    if (at < D / 4) a = ((__global const uint4*)(q + QWORDS + g * (D / 4)))[at / 4];
    uint p[2], r[2];
    XORDER(KB)(a, p, r);
    q0[2 * s] = p[0];
    q0[2 * s + 1] = p[1];
    q1[2 * s] = r[0];
    q1[2 * s + 1] = r[1];
  }
  // <q, means of the keys>: 16 lanes of D / 16 fma each, then halves; row g, lanes 4t .. 4t + 3
  float base0, base1;
  {
    float s[4];
    UNROLL for (int j = 0; j < 4; ++j) s[j] = 0.0f;
    UNROLL for (int n = 0; n < D; n += 128) {
      const uint mw = n / 4 + lane < D / 4 ? ((__global const uint*)(k + 256))[n / 4 + lane] : 0;
      float me[4];
      UNROLL for (int j = 0; j < 4; ++j) me[j] = MEAN(mw, j);
      UNROLL for (int i = 0; i < (D - n < 128 ? (D - n) / 16 : 8); ++i) {
        const float4 y = ((__global const float4*)(q + g * D + n))[4 * i + t];
        s[0] = FMA(y.x, FROM(me[0], 4 * i + t), s[0]);
        s[1] = FMA(y.y, FROM(me[1], 4 * i + t), s[1]);
        s[2] = FMA(y.z, FROM(me[2], 4 * i + t), s[2]);
        s[3] = FMA(y.w, FROM(me[3], 4 * i + t), s[3]);
      }
    }
    UNROLL for (int j = 0; j < 4; ++j) {
      const float u = XOR(s[j], 2);
      s[j] = s[j] + u;
      const float x = XOR(s[j], 1);
      s[j] = s[j] + x;
    }
    const float b = (s[0] + s[2]) + (s[1] + s[3]);
    base0 = FROM(b, 8 * t);
    base1 = FROM(b, 8 * t + 4);
  }
  const float f0 = q[QSCALE + 2 * t], f1 = q[QSCALE + 2 * t + 1], h0 = q[QSCALE + 8 + 2 * t], h1 = q[QSCALE + 9 + 2 * t];
  const int first = FIRST(page.y), end = END(page.y);
  float w[4][4][2];
  float m0 = -INF, m1 = -INF;
  UNROLL for (int b = 0; b < 4; ++b) {
    int c[4], d[4];
    UNROLL for (int i = 0; i < 4; ++i) {
      c[i] = 0x4B400000;
      d[i] = 0x4B400000;
    }
    const uint2 sc = ((__global const uint2*)k)[8 * b + g];
    __global const uint4* panel = (__global const uint4*)(k + 256 + D) + (2 * b + (g >> 2)) * (D / 16) * 2 * KB;
    PRODUCT(KB, KT, panel, D / 16, q0, q1, c, d);
    const float s0 = H2F(sc.x), s1 = H2F(sc.x >> 16), s2 = H2F(sc.y), s3 = H2F(sc.y >> 16);
    w[b][0][0] = FMA(s0, FMA(SUM(c[0]), f0, h0), base0);
    w[b][0][1] = FMA(s0, FMA(SUM(c[1]), f1, h1), base1);
    w[b][1][0] = FMA(s1, FMA(SUM(c[2]), f0, h0), base0);
    w[b][1][1] = FMA(s1, FMA(SUM(c[3]), f1, h1), base1);
    w[b][2][0] = FMA(s2, FMA(SUM(d[0]), f0, h0), base0);
    w[b][2][1] = FMA(s2, FMA(SUM(d[1]), f1, h1), base1);
    w[b][3][0] = FMA(s3, FMA(SUM(d[2]), f0, h0), base0);
    w[b][3][1] = FMA(s3, FMA(SUM(d[3]), f1, h1), base1);
    UNROLL for (int j = 0; j < 4; ++j) {
      const int token = 32 * b + 4 * g + j;
      if (token < first || token >= end) w[b][j][0] = w[b][j][1] = -INF;
      m0 = FMAX(m0, w[b][j][0]);
      m1 = FMAX(m1, w[b][j][1]);
    }
  }
  UNROLL for (int x = 4; x < 32; x += x) {
    const float u = XOR(m0, x), y = XOR(m1, x);
    m0 = FMAX(m0, u);
    m1 = FMAX(m1, y);
  }
  float z0 = 0.0f, z1 = 0.0f;
  const float low0 = FMAX(m0, LOWEST), low1 = FMAX(m1, LOWEST);
  uint2 vs[4];
  UNROLL for (int b = 0; b < 4; ++b) {
    vs[b] = ((__global const uint2*)v)[8 * b + g];
    UNROLL for (int j = 0; j < 4; ++j) {
      const float s = H2F((j < 2 ? vs[b].x : vs[b].y) >> (j & 1) * 16);
      w[b][j][0] = W(w[b][j][0] - low0);
      w[b][j][1] = W(w[b][j][1] - low1);
      z0 = FMAX(z0, ABS(w[b][j][0] * s));
      z1 = FMAX(z1, ABS(w[b][j][1] * s));
    }
  }
  UNROLL for (int x = 4; x < 32; x += x) {
    const float u = XOR(z0, x), y = XOR(z1, x);
    z0 = FMAX(z0, u);
    z1 = FMAX(z1, y);
  }
  const bool u0 = z0 >= 1.5e-36f && z0 <= 3e38f, u1 = z1 >= 1.5e-36f && z1 <= 3e38f;
  const float i0 = u0 ? 127.0f / z0 : 0.0f, i1 = u1 ? 127.0f / z1 : 0.0f;
  const float p0 = u0 ? z0 / 127.0f : 0.0f, p1 = u1 ? z1 / 127.0f : 0.0f;
  // The sum of weights: 16 lanes (token mod 16) of 8 in order, then halves. Items g < 4 take row 2t, the others 2t + 1.
  float t0, t1;
  {
    float s[4];
    const int up = g >> 2;
    UNROLL for (int j = 0; j < 4; ++j) {
      s[j] = 0.0f;
      UNROLL for (int b = 0; b < 4; ++b) {
        const float mine = up ? w[b][j][1] : w[b][j][0], give = up ? w[b][j][0] : w[b][j][1], got = XOR(give, 16);
        s[j] = s[j] + (up ? got : mine);
        s[j] = s[j] + (up ? mine : got);
      }
    }
    UNROLL for (int j = 0; j < 4; ++j) {
      const float u = XOR(s[j], 8);
      s[j] = s[j] + u;
      const float x = XOR(s[j], 4);
      s[j] = s[j] + x;
    }
    const float b = (s[0] + s[2]) + (s[1] + s[3]);
    t0 = FROM(b, t);
    t1 = FROM(b, 16 + t);
  }
  // Weights times scales as bytes: rows 2t and 2t + 1, tokens 32b + 4g .. + 3; through local memory to rows g.
  int n0 = 0, n1 = 0;
  AT_LOCAL uint* stage = (AT_LOCAL uint*)o + warp * 8 * LINE;
  UNROLL for (int b = 0; b < 4; ++b) {
    uint a[4], c[4];
    UNROLL for (int j = 0; j < 4; ++j) {
      const float s = H2F((j < 2 ? vs[b].x : vs[b].y) >> (j & 1) * 16);
      a[j] = ASU(w[b][j][0] * s * i0 + MAGIC);
      c[j] = ASU(w[b][j][1] * s * i1 + MAGIC);
    }
    const uint x0 = PRMT(PRMT(a[0], a[1], 0x0040), PRMT(a[2], a[3], 0x0040), 0x5410);
    const uint x1 = PRMT(PRMT(c[0], c[1], 0x0040), PRMT(c[2], c[3], 0x0040), 0x5410);
    n0 = DP4A(x0, 0x01010101u, n0);
    n1 = DP4A(x1, 0x01010101u, n1);
    stage[2 * t * STAGE + 8 * b + g] = x0;
    stage[(2 * t + 1) * STAGE + 8 * b + g] = x1;
  }
  UNROLL for (int x = 4; x < 32; x += x) {
    const int u = XORI(n0, x), y = XORI(n1, x);
    n0 += u;
    n1 += y;
  }
  WARP();
  uint r0[4], r1[4];
  UNROLL for (int s = 0; s < 2; ++s) {
    const uint4 a = ((AT_LOCAL uint4*)(stage + g * STAGE))[4 * s + t];
    uint p[2], r[2];
    XORDER(VB)(a, p, r);
    r0[2 * s] = p[0];
    r0[2 * s + 1] = p[1];
    r1[2 * s] = r[0];
    r1[2 * s + 1] = r[1];
  }
  WARP();
  const float e0 = -p0 * (VOFFSET * (float)n0), e1 = -p1 * (VOFFSET * (float)n1);
  if (lane < 4) {
    top[warp * 8 + 2 * t] = m0;
    top[warp * 8 + 2 * t + 1] = m1;
    mass[warp * 8 + 2 * t] = t0;
    mass[warp * 8 + 2 * t + 1] = t1;
  }
  float4 out[HALVES];
  float all = 0.0f, most = -INF;
  UNROLL for (int part = 0; part < HALVES; ++part) {
    UNROLL for (int b = 0; b < (DV - 128 * part < 128 ? (DV - 128 * part + 31) / 32 : 4); ++b) {
      int c[4], d[4];
      UNROLL for (int i = 0; i < 4; ++i) {
        c[i] = 0x4B400000;
        d[i] = 0x4B400000;
      }
      const int at = 8 * part + 2 * b + (g >> 2), there = at < DV / 16;
      const uint mw = there ? ((__global const uint*)(v + 256))[32 * part + 8 * b + g] : 0;
      __global const uint4* panel = (__global const uint4*)(v + 256 + DV) + (there ? at : 0) * 16 * VB;
      PRODUCT(VB, VT, panel, 8, r0, r1, c, d);
      const float a0 = MEAN(mw, 0), a1 = MEAN(mw, 1), a2 = MEAN(mw, 2), a3 = MEAN(mw, 3);
      float4 x, y;
      x.x = FMA(t0, a0, FMA(SUM(c[0]), p0, e0));
      y.x = FMA(t1, a0, FMA(SUM(c[1]), p1, e1));
      x.y = FMA(t0, a1, FMA(SUM(c[2]), p0, e0));
      y.y = FMA(t1, a1, FMA(SUM(c[3]), p1, e1));
      x.z = FMA(t0, a2, FMA(SUM(d[0]), p0, e0));
      y.z = FMA(t1, a2, FMA(SUM(d[1]), p1, e1));
      x.w = FMA(t0, a3, FMA(SUM(d[2]), p0, e0));
      y.w = FMA(t1, a3, FMA(SUM(d[3]), p1, e1));
      o[(warp * 8 + 2 * t) * (LINE / 4) + 8 * b + g] = x;
      o[(warp * 8 + 2 * t + 1) * (LINE / 4) + 8 * b + g] = y;
    }
    BAR();
    if (part == 0) {
      if (id < 64) {
        const int p = id >> 3, r = id & 7;
        float was = -INF;
        for (int i = 0; i < p; ++i) was = FMAX(was, top[i * 8 + r]);
        const float now = FMAX(FMAX(was, top[id]), LOWEST);
        fa[id] = W(was - now);
        fb[id] = W(top[id] - now);
      }
      BAR();
    }
    float4 a;
    a.x = a.y = a.z = a.w = 0.0f;
    for (int p = 0; p < count; ++p) {
      const float x = fa[p * 8 + warp], y = fb[p * 8 + warp];
      const float4 u = o[(p * 8 + warp) * (LINE / 4) + lane];
      a.x = FMA(u.x, y, a.x * x);
      a.y = FMA(u.y, y, a.y * x);
      a.z = FMA(u.z, y, a.z * x);
      a.w = FMA(u.w, y, a.w * x);
      if (part == 0) {
        all = FMA(mass[p * 8 + warp], y, all * x);
        most = FMAX(most, top[p * 8 + warp]);
      }
    }
    out[part] = a;
    BAR();
  }
  // A warp has a row of the group's state.
  __global float* to = state + ((ulong)job[3] * 8 + warp) * PITCH;
#if defined(VTURN) && DV == 128
  {
    __global const float4* signs = (__global const float4*)(turns + turn_at + job[6] * TURN_FLOATS);
    float e[4], f[4];
    e[0] = out[0].x + out[0].y;
    e[1] = out[0].x - out[0].y;
    e[2] = out[0].z + out[0].w;
    e[3] = out[0].z - out[0].w;
    f[0] = e[0] + e[2];
    f[1] = e[1] + e[3];
    f[2] = e[0] - e[2];
    f[3] = e[1] - e[3];
    UNROLL for (int h = 1; h < 32; h += h) UNROLL for (int i = 0; i < 4; ++i) {
      const float u = XOR(f[i], h);
      f[i] = lane & h ? u - f[i] : f[i] + u;
    }
    const float4 s = signs[lane];
    out[0].x = f[0] * s.x;
    out[0].y = f[1] * s.y;
    out[0].z = f[2] * s.z;
    out[0].w = f[3] * s.w;
  }
#elif defined(VTURN)
  {
    AT_LOCAL float* row = (AT_LOCAL float*)o;
    UNROLL for (int part = 0; part < HALVES; ++part)
      if (128 * part + 4 * lane < DV) o[warp * (PITCH / 4) + 32 * part + lane] = out[part];
    BAR();
    turn(row, PITCH, turns + turn_at + job[6] * TURN_FLOATS, 256);
    UNROLL for (int part = 0; part < HALVES; ++part)
      if (128 * part + 4 * lane < DV) out[part] = o[warp * (PITCH / 4) + 32 * part + lane];
  }
#endif
  UNROLL for (int part = 0; part < HALVES; ++part)
    if (128 * part + 4 * lane < DV) ((__global float4*)to)[32 * part + lane] = out[part];
  if (lane == 0) {
    to[DV] = most;
    to[DV + 1] = all;
  }
}
)cl"
