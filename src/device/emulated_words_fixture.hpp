// For tests: words of OpenCL C that texts as C++ need (emulated_lanes_fixture.hpp has what they stand for). To be
// included once, behind all other headers: some are words of these, too.
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wshadow"
// Names of types in OpenCL C: NVIDIA's compiler refuses a variable called so, C++ must, too.
#define half 0
#define EMU
#define NV
#define LID item
#define GID group
#define BAR() pass()
#define WARP() pass()
#define FMA(a, b, c) fmaf(a, b, c)
#define FMAX fmaxf
#define ABS fabsf
#define ASU as_uint
#define ASF as_float
#define MMA(c, a0, a1, a2, a3, b0, b1) mma(c, a0, a1, a2, a3, b0, b1)
#define __kernel static
#define __global
#define __local static
#define reqd_work_group_size(a, b, c) unused
