R"cl(
// What all kernels share. One text for OpenCL C 1.2 in plain C, with NVIDIA's assembler (NV), and for C++ with lanes as
// fibers (EMU, a test). Its arithmetic is that of the processor's kernels to the bit: every sum in their order, no
// built-in function but / fma fmax fabs and conversions, and nothing is contracted.
#ifdef EMU
#define UNROLL
#define AT_LOCAL
#else
#define UNROLL _Pragma("unroll")
#define AT_LOCAL __local  // of pointers
#pragma OPENCL FP_CONTRACT OFF
#define LID ((int)get_local_id(0))
#define GID ((int)get_group_id(0))
#define BAR() barrier(CLK_LOCAL_MEM_FENCE)
#define FMA(a, b, c) fma(a, b, c)
#define FMAX fmax
#define ABS fabs
#define ASU as_uint
#define ASF as_float
static float H2F(uint h) { ushort s = (ushort)h; return vload_half(0, (const half*)&s); }
#ifdef NV
static uint PRMT(uint a, uint b, uint s) { uint r; __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(s)); return r; }
static int DP4A(uint a, uint b, int c) { int r; __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
static float XOR(float v, int o) { float u; __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(u) : "f"(v), "r"(o)); return u; }
static int XORI(int v, int o) { int u; __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(u) : "r"(v), "r"(o)); return u; }
static float FROM(float v, int l) { float u; __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(u) : "f"(v), "r"(l)); return u; }
#define WARP() __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory")
#define MMA(c, a0, a1, a2, a3, b0, b1) __asm__ volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#else
static int PLAIN_DOT(uint a, uint b) {
  return (int)(char)a * (int)(char)b + (int)(char)(a >> 8) * (int)(char)(b >> 8) +
         (int)(char)(a >> 16) * (int)(char)(b >> 16) + (int)(char)(a >> 24) * (int)(char)(b >> 24);
}
#ifdef IDOT  // cl_khr_integer_dot_product
#ifdef cl_khr_integer_dot_product
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#endif
static int DP4A(uint a, uint b, int c) { return c + (int)dot_4x8packed_ss_int(a, b); }
#else
static int DP4A(uint a, uint b, int c) { return c + PLAIN_DOT(a, b); }
#endif
#endif
#endif
#define INF ASF(0x7f800000u)
#define LOWEST (-3.40282347e38f)

// 2^x, x <= 0: src/kernel/power_of_two.hpp
static float W(float x) {
  const float b = FMAX(x, -126.0f), t = b + (12582912.0f + 127.0f), f = b - (t - (12582912.0f + 127.0f));
  float p = 1.32647273e-3f;
  p = FMA(p, f, 9.67151299e-3f);
  p = FMA(p, f, 5.55073358e-2f);
  p = FMA(p, f, 2.40222424e-1f);
  p = FMA(p, f, 6.93147004e-1f);
  p = FMA(p, f, 1.0f);
  const float r = p * ASF(ASU(t) << 23);
  return x < -126.0f ? 0.0f : r;
}
// Byte j of a word of means: src/kv/families/rotated/page_mean.hpp
static float MEAN(uint word, int j) {
  const int v = (int)(word << (24 - 8 * j)) >> 24;
  const uint a = (uint)(v < 0 ? -v : v);
  const float m = (ASF((a << 20) + 0x3f800000u) - 1.0f) * 0.00390625f;
  return ASF(ASU(m) + ((uint)v & 0x80000000u));
}

// Memory of pages lies in up to eight buffers. A page: x: where its slot begins in its buffer, in 16 bytes;
// y: buffer | first token << 8 | end token << 16.
#define ARENAS __global const uchar* A0, __global const uchar* A1, __global const uchar* A2, __global const uchar* A3, \
    __global const uchar* A4, __global const uchar* A5, __global const uchar* A6, __global const uchar* A7
#define ARENA(y) (((y) & 7) == 0 ? A0 : ((y) & 7) == 1 ? A1 : ((y) & 7) == 2 ? A2 : ((y) & 7) == 3 ? A3 : \
    ((y) & 7) == 4 ? A4 : ((y) & 7) == 5 ? A5 : ((y) & 7) == 6 ? A6 : A7)
#define FIRST(y) ((int)((y) >> 8 & 255))
#define END(y) ((int)((y) >> 16 & 255))

// Queries of up to 8 rows, QBLOCK bytes: float q[8][D], char x[8][D], then per group of channels (NQ) 8 scales, 8
// shifts, 8 totals.
#define QWORDS (8 * D)                  // where x begins, in words
#define QSCALE (8 * D + 2 * D)          // where scales begin, in words
#define QBLOCK (40 * D + NQ * 96)
// A state: per row DV sums, maximum, sum of weights.
#define PITCH (DV + 4)

// A job is 8 words: first page, pages, block of queries, state, keys and values from the layer's place in a slot (in 16
// bytes), rotation of the head, rows.
#define JOB 8

#ifdef VTURN
// Rows of the state from the basis of the values: src/kernel/rotate.simd.cpp. o: 8 rows, `pitch` apart; r: signs, then
// the Hartley matrix.
static void turn(AT_LOCAL float* o, int pitch, __global const float* r, int items) {
  for (int h = 1; h < TURN_N; h += h) {
    for (int i = LID; i < 4 * DV; i += items) {
      const int row = i / (DV / 2), p = i % (DV / 2);
      AT_LOCAL float* a = o + row * pitch + p / h * 2 * h + p % h;
      const float x = a[0], y = a[h];
      a[0] = x + y;
      a[h] = x - y;
    }
    BAR();
  }
#if TURN_M > 1
  for (int i = LID; i < 8 * TURN_N; i += items) {
    AT_LOCAL float* a = o + i / TURN_N * pitch + i % TURN_N;
    float x[TURN_M];
    for (int j = 0; j < TURN_M; ++j) x[j] = a[j * TURN_N];
    for (int k = 0; k < TURN_M; ++k) {
      float s = r[DV + k * TURN_M] * x[0];
      for (int j = 1; j < TURN_M; ++j) s = FMA(r[DV + k * TURN_M + j], x[j], s);
      a[k * TURN_N] = s;
    }
  }
  BAR();
#endif
  for (int i = LID; i < 8 * DV; i += items) {
    AT_LOCAL float* a = o + i / DV * pitch + i % DV;
    *a = *a * r[i % DV];
  }
  BAR();
}
#endif
)cl"
