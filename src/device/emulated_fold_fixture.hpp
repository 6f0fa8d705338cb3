// One instance of the matrix units' text. Before: EMULATED (a namespace), D, DV, KB, VB. Included by
// emulated_fold_test.cpp alone, once per shape.
namespace EMULATED {
using namespace kvasir::device::emulated;
static uint k_words[8];
static uint v_words[8];
static float offset_of_values;
#include "device_kernels_common.inc"
#include "device_kernels_fold_mma.inc"
#include "device_kernels_total.inc"
static Instance instance() {
  return {D, KB, VB, PITCH, QBLOCK, k_words, v_words, &offset_of_values, [](const Call& c) {
            launch(c.groups, 256, [&] {
              fold(c.arena, c.arena, c.arena, c.arena, c.arena, c.arena, c.arena, c.arena, c.pages, c.jobs, c.queries,
                   c.turns, c.states, 0, 0, 0);
            });
            launch(8, 128, [&] { total(c.states, c.starts, c.totals, c.sums, 0, 0); });
          }};
}
}  // namespace EMULATED
#undef EMULATED
#undef D
#undef DV
#undef KB
#undef VB
#undef TURN_N
#undef TURN_M
#undef TURN_FLOATS
