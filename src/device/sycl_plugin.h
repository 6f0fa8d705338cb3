/* What the optional SYCL plug-in (sycl/plugin.cpp, built by `./dev sycl`) exports, and device/sycl.cpp looks up.
 * Functions that can fail return NULL, or what is wrong: good until the thread's next call. One call at a time for a
 * handle. Sizes have been checked by the caller, and none is zero. */
#ifndef KVASIR_SYCL_PLUGIN_H
#define KVASIR_SYCL_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kKvasirSyclVersion = 1 }; /* of these declarations */

/* kv::KiviArrays (kv/kivi_arrays.hpp) as numbers, in host memory. */
typedef struct kvasir_sycl_arrays {
  int32_t values, wide, bits;
  int64_t group, heads, tokens, head_dim;
  unsigned char *codes, *scales, *minima;
} kvasir_sycl_arrays;

int kvasir_sycl_version(void);
/* device: "" (the first GPU, else the first device), N, "cpu", "gpu" or a part of the device's name. */
const char* kvasir_sycl_open(const char* device, void** handle);
void kvasir_sycl_close(void* handle);
const char* kvasir_sycl_name(void* handle); /* good until it is closed */
/* What kv::KiviMaker's do. The first call with a number of bits compiles. */
const char* kvasir_sycl_quantize(void* handle, const float* x, const kvasir_sycl_arrays* to);
const char* kvasir_sycl_dequantize(void* handle, const kvasir_sycl_arrays* from, float* x);
const char* kvasir_sycl_multiply(void* handle, const float* a, int64_t rows, const kvasir_sycl_arrays* by, float* out);

#ifdef __cplusplus
}
#endif
#endif
