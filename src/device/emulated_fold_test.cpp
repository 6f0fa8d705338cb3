// The matrix units' text (kernels/fold_mma.cl, NVIDIA's assembler) as C++ with items as fibers against the processor.
#include <gtest/gtest.h>

#include "device/check.hpp"
#include "device/emulated_lanes_fixture.hpp"
#include "kv/families/rotated/integer_levels.hpp"
#include "kv/spec.hpp"

namespace kvasir::device {
namespace {

using emulated::uchar;
using emulated::uint;
using emulated::uint2;

struct Call {
  int groups;
  const uchar* arena;
  const uint2* pages;
  const uint* jobs;
  const uchar* queries;
  const float* turns;
  float* states;
  const float* starts;
  float* totals;
  const uint* sums;
};
struct Instance {
  int d, k_bits, v_bits, pitch, block;
  uint* k_words;
  uint* v_words;
  float* offset;
  void (*run)(const Call&);
};

// What a text calls is its shape's choice, and its macros nest.
#include "device/emulated_words_fixture.hpp"
#define VTURN
#define NQ 1
#define VOFFSET offset_of_values
#define KT0 k_words[0]
#define KT1 k_words[1]
#define KT2 k_words[2]
#define KT3 k_words[3]
#define KT4 k_words[4]
#define KT5 k_words[5]
#define KT6 k_words[6]
#define KT7 k_words[7]
#define VT0 v_words[0]
#define VT1 v_words[1]
#define VT2 v_words[2]
#define VT3 v_words[3]
#define VT4 v_words[4]
#define VT5 v_words[5]
#define VT6 v_words[6]
#define VT7 v_words[7]

#define EMULATED rq4_rq4_128
#define D 128
#define DV 128
#define KB 4
#define VB 4
#define TURN_N 128
#define TURN_M 1
#define TURN_FLOATS 128
#include "device/emulated_fold_fixture.hpp"

#define EMULATED rq5_rq4_64
#define D 64
#define DV 64
#define KB 5
#define VB 4
#define TURN_N 64
#define TURN_M 1
#define TURN_FLOATS 64
#include "device/emulated_fold_fixture.hpp"

#define EMULATED rq3_rq2_96
#define D 96
#define DV 96
#define KB 3
#define VB 2
#define TURN_N 32
#define TURN_M 3
#define TURN_FLOATS 105
#include "device/emulated_fold_fixture.hpp"

#define EMULATED rq8_rq8_80
#define D 80
#define DV 80
#define KB 8
#define VB 8
#define TURN_N 16
#define TURN_M 5
#define TURN_FLOATS 105
#include "device/emulated_fold_fixture.hpp"

#define EMULATED rq2_rq5_256
#define D 256
#define DV 256
#define KB 2
#define VB 5
#define TURN_N 256
#define TURN_M 1
#define TURN_FLOATS 256
#include "device/emulated_fold_fixture.hpp"

#define EMULATED rq4_rq3_128
#define D 128
#define DV 128
#define KB 4
#define VB 3
#define TURN_N 128
#define TURN_M 1
#define TURN_FLOATS 128
#include "device/emulated_fold_fixture.hpp"

void set_levels(int bits, uint* words) {
  if (bits == 8) return;
  for (int i = 0; i < 1 << bits; ++i)
    words[i / 4] = (i % 4 ? words[i / 4] : 0) | static_cast<uint>(kv::integer_levels(bits).values[i]) << 8 * (i % 4);
}

std::string difference(const Instance& x, const Trial& trial) {
  const auto spec = [&](int bits, kv::Side side) {
    return kv::parse_codec("rq" + std::to_string(bits), x.d, side, "test").codec;
  };
  const Shape shape{spec(x.k_bits, kv::Side::kKeys), spec(x.v_bits, kv::Side::kValues), {}, {}, x.d, x.d};
  const Constants constants = device::constants(shape, true);
  EXPECT_TRUE(constants.matrix_units);
  set_levels(x.k_bits, x.k_words);
  set_levels(x.v_bits, x.v_words);
  *x.offset = x.v_bits == 8 ? 0.0f : kv::integer_levels(x.v_bits).offset;
  const Case c = make_case(shape, constants.turn_floats, trial);
  EXPECT_EQ(block_bytes(constants, x.d), static_cast<std::size_t>(x.block));
  std::vector<emulated::uint4> block(block_bytes(constants, x.d) / 16);
  pack_rows(constants, x.d, c.queries.data(), trial.rows, reinterpret_cast<std::byte*>(block.data()));
  std::vector<uint2> pages;
  for (const PlacedPage& p : c.pages) pages.push_back({p.at, p.where});
  const int groups = (trial.pages + 7) / 8;
  std::vector<uint> jobs;
  for (int g = 0; g < groups; ++g)
    for (const int word : {8 * g, std::min(8, trial.pages - 8 * g), 0, g, 0, static_cast<int>(c.v_at), 0, trial.rows})
      jobs.push_back(static_cast<uint>(word));
  const std::vector<uint> sums = {0, static_cast<uint>(groups), 0, 0, static_cast<uint>(trial.rows), 0, 0, 0};
  const auto row_floats = static_cast<std::size_t>(x.pitch);
  std::vector<float> start(8 * row_floats);
  for (int r = 0; r < trial.rows; ++r) {
    float* const to = start.data() + r * x.pitch;
    std::copy_n(c.start.states.out + r * kernel::out_pitch(x.d), x.d, to);
    to[x.d] = c.start.states.max[r];
    to[x.d + 1] = c.start.states.sum[r];
  }
  const auto lines = [](std::size_t floats) {
    return std::vector<emulated::float4>(floats / 4 + 1, {NAN, NAN, NAN, NAN});
  };
  auto states = lines(static_cast<std::size_t>(groups) * 8 * row_floats), totals = lines(8 * row_floats),
       turns = lines(c.turns.size());
  std::memcpy(turns.data(), c.turns.data(), c.turns.size() * sizeof(float));
  std::vector<emulated::uint4> arena(c.arena.size() / 16);
  std::memcpy(arena.data(), c.arena.data(), c.arena.size());
  float* const total = &totals[0].x;
  x.run({groups, reinterpret_cast<const uchar*>(arena.data()), pages.data(), jobs.data(),
         reinterpret_cast<const uchar*>(block.data()), &turns[0].x, &states[0].x, start.data(), total, sums.data()});
  const Case::Held got(trial.rows, x.d);
  for (int r = 0; r < trial.rows; ++r) {
    std::copy_n(total + r * x.pitch, x.d, got.states.out + r * kernel::out_pitch(x.d));
    got.states.max[r] = total[r * x.pitch + x.d];
    got.states.sum[r] = total[r * x.pitch + x.d + 1];
  }
  return compare(c.total.states, got.states, trial.rows, x.d);
}

TEST(EmulatedFold, HasTheProcessorsBits) {
  for (const Instance& x : {rq4_rq4_128::instance(), rq5_rq4_64::instance(), rq3_rq2_96::instance(),
                            rq8_rq8_80::instance(), rq2_rq5_256::instance(), rq4_rq3_128::instance()})
    for (const Trial& t :
         {Trial{8, 8}, Trial{1, 1, 4, 128, 2, true}, Trial{9, 5, 17, 65, 3, true}, Trial{19, 7, 0, 128, 4}})
      EXPECT_EQ("", difference(x, t)) << "rq" << x.k_bits << "/rq" << x.v_bits << " d " << x.d << ", " << t.pages
                                      << " pages";
}

}  // namespace
}  // namespace kvasir::device
