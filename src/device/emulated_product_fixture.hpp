// One instance of the matrix units' text of products. Before: EMULATED (a namespace) and the constants of a type.
// Included by emulated_product_test.cpp alone, once per type.
namespace EMULATED {
using namespace kvasir::device::emulated;
#include "device_kernels_common.inc"
#include "device_kernels_product_parts.inc"
// behind its parts
#include "device_kernels_product_mma.inc"
static void run(int groups, const uchar* w, const uchar* x, float* out, uint k, uint rows, uint panel_bytes,
                uint columns) {
  launch(groups, 128, [&] { product(w, x, out, 0, k, rows, panel_bytes, columns); });
}
}  // namespace EMULATED
#undef EMULATED
#undef BITS
#undef ZERO
#undef SUBS
#undef HALVES
#undef HEAD_BYTES
#undef CHUNK
#undef MINIMUM
#undef FACTOR
#undef LEVELS0
#undef LEVELS1
#undef LEVELS2
#undef LEVELS3
#undef FOLD
#undef SCALED
