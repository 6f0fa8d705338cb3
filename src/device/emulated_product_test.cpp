// The matrix units' text of products (kernels/product_mma.cl, NVIDIA's assembler) as C++ with items as fibers against
// the processor.
#include <gtest/gtest.h>

#include "device/emulated_lanes_fixture.hpp"
#include "device/multiply.hpp"

namespace kvasir::device {
namespace emulated_product_test {

using emulated::uchar;
using emulated::uint;

// What a text calls is its type's choice, and its macros nest.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "device/emulated_words_fixture.hpp"

#define EMULATED q8_0
#define BITS 8
#define ZERO 128
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 32
#define CHUNK 8
#define HEAD_HALF
#include "device/emulated_product_fixture.hpp"
#undef HEAD_HALF

#define EMULATED q4_0
#define BITS 4
#define ZERO 8
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 32
#define CHUNK 8
#define HEAD_HALF
#include "device/emulated_product_fixture.hpp"
#undef HEAD_HALF

#define EMULATED q5_0
#define BITS 5
#define ZERO 16
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 32
#define CHUNK 8
#define HEAD_HALF
#include "device/emulated_product_fixture.hpp"
#undef HEAD_HALF

#define EMULATED iq4_nl
#define BITS 4
#define ZERO 0
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 32
#define CHUNK 8
#define HEAD_HALF
#define LEVELS0 0xbfad9881u
#define LEVELS1 0xf6eaddcfu
#define LEVELS2 0x26190d01u
#define LEVELS3 0x71594535u
#include "device/emulated_product_fixture.hpp"
#undef HEAD_HALF

#define EMULATED q4_k
#define BITS 4
#define ZERO 0
#define SUBS 8
#define HALVES 1
#define HEAD_BYTES 320
#define CHUNK 1
#define HEAD_K
#define MINIMUM
#include "device/emulated_product_fixture.hpp"
#undef HEAD_K

#define EMULATED q6_k
#define BITS 6
#define ZERO 32
#define SUBS 8
#define HALVES 2
#define HEAD_BYTES 288
#define CHUNK 2
#define HEAD_SIGNED
#include "device/emulated_product_fixture.hpp"
#undef HEAD_SIGNED

#define EMULATED q3_k
#define BITS 3
#define ZERO 4
#define SUBS 8
#define HALVES 2
#define HEAD_BYTES 288
#define CHUNK 2
#define HEAD_SIGNED
#include "device/emulated_product_fixture.hpp"
#undef HEAD_SIGNED

#define EMULATED q2_k
#define BITS 2
#define ZERO 0
#define SUBS 8
#define HALVES 2
#define HEAD_BYTES 320
#define CHUNK 1
#define HEAD_Q2_K
#define MINIMUM
#include "device/emulated_product_fixture.hpp"
#undef HEAD_Q2_K

#define EMULATED q5_1
#define BITS 5
#define ZERO 0
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 64
#define CHUNK 8
#define HEAD_HALF
#define MINIMUM
#include "device/emulated_product_fixture.hpp"
#undef HEAD_HALF

#define EMULATED iq4_xs
#define BITS 4
#define ZERO 0
#define SUBS 8
#define HALVES 1
#define HEAD_BYTES 160
#define CHUNK 2
#define HEAD_IQ4_XS
#define LEVELS0 0xbfad9881u
#define LEVELS1 0xf6eaddcfu
#define LEVELS2 0x26190d01u
#define LEVELS3 0x71594535u
#include "device/emulated_product_fixture.hpp"
#undef HEAD_IQ4_XS

#define EMULATED mxfp4
#define BITS 4
#define ZERO 0
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 16
#define CHUNK 8
#define HEAD_E8M0
#define LEVELS0 0x03020100u
#define LEVELS1 0x0c080604u
#define LEVELS2 0xfdfeff00u
#define LEVELS3 0xf4f8fafcu
#include "device/emulated_product_fixture.hpp"
#undef HEAD_E8M0

#define EMULATED nvfp4
#define BITS 4
#define ZERO 0
#define SUBS 2
#define HALVES 2
#define HEAD_BYTES 64
#define CHUNK 4
#define HEAD_E4M3
#define FACTOR
#define LEVELS0 0x03020100u
#define LEVELS1 0x0c080604u
#define LEVELS2 0xfdfeff00u
#define LEVELS3 0xf4f8fafcu
#include "device/emulated_product_fixture.hpp"
#undef HEAD_E4M3

#define EMULATED affine8
#define BITS 8
#define ZERO 128
#define SUBS 2
#define HALVES 1
#define HEAD_BYTES 128
#define CHUNK 4
#define HEAD_AFFINE
#define MINIMUM
#include "device/emulated_product_fixture.hpp"
#undef HEAD_AFFINE

#define EMULATED int4_zero
#define BITS 4
#define ZERO 0
#define SUBS 1
#define HALVES 1
#define HEAD_BYTES 64
#define CHUNK 8
#define HEAD_ZERO_POINT
#define MINIMUM
#include "device/emulated_product_fixture.hpp"
#undef HEAD_ZERO_POINT

#undef half

struct Instance {
  const char* name;
  decltype(&q8_0::run) run;
};
constexpr Instance kInstances[] = {{"q8_0", q8_0::run},       {"q4_0", q4_0::run},          {"q5_0", q5_0::run},
                                   {"iq4_nl", iq4_nl::run},   {"q4_k", q4_k::run},          {"q6_k", q6_k::run},
                                   {"q3_k", q3_k::run},       {"q2_k", q2_k::run},          {"q5_1", q5_1::run},
                                   {"iq4_xs", iq4_xs::run},   {"mxfp4", mxfp4::run},        {"nvfp4", nvfp4::run},
                                   {"affine8", affine8::run}, {"int4_zero", int4_zero::run}};

// Cut panels and tiles, and warps whose second panel is not there.
TEST(EmulatedProducts, HaveTheProcessorsBits) {
  for (const Instance& instance : kInstances)
    for (const WeightForm& form : weight_forms()) {
      if (std::string(form.name) != instance.name) continue;
      for (const ProductTrial& trial : {ProductTrial{.rows = 150, .blocks = 9, .columns = 37, .seed = 1},
                                        ProductTrial{.rows = 33, .blocks = 2, .columns = 66, .seed = 2}}) {
        const ProductCase c = make_case(form, trial);
        std::vector<float> got(c.expected.size(), 7.0f);
        const std::int64_t groups = (trial.rows + 127) / 128 * ((trial.columns + 63) / 64);
        instance.run(static_cast<int>(groups), reinterpret_cast<const uchar*>(c.panels.data()),
                     reinterpret_cast<const uchar*>(c.x.data()), got.data(), static_cast<uint>(c.k),
                     static_cast<uint>(trial.rows), static_cast<uint>(c.panel_bytes), static_cast<uint>(trial.columns));
        EXPECT_EQ("", compare(form, trial, c.expected, got));
      }
    }
}

TEST(EmulatedProducts, EveryInstanceIsAType) {
  std::size_t found = 0;
  for (const Instance& instance : kInstances)
    for (const WeightForm& form : weight_forms()) found += std::string(form.name) == instance.name;
  EXPECT_EQ(std::size(kInstances), found);
}

}  // namespace emulated_product_test
}  // namespace kvasir::device
