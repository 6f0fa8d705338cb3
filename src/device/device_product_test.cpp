// Products of weights on every OpenCL device at hand against the processor: results are compared as bytes.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"
#include "device/multiply.hpp"
#include "device/opencl.hpp"
#include "device/opened_fixture.hpp"
#include "device/pays.hpp"
#include "device/products.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::device {
namespace {

void expect_products(std::span<const ProductTrial> trials) {
  std::string why;
  const Context* const context = opened(&why);
  if (!context) GTEST_SKIP() << "SKIPPED: " << why;
  static Programs programs("");
  static auto* const multiplier = new Multiplier(*context, programs, context->device().limits.in_line_ptx);
  for (const WeightForm& form : weight_forms())
    for (const ProductTrial& trial : trials) EXPECT_EQ("", check(*context, *multiplier, form, trial)) << form.name;
}

// Whole and cut panels and tiles, chunks of blocks that end early, fewer columns than the processor's tiles begin with.
TEST(DeviceProducts, HaveTheProcessorsBits) {
  const ProductTrial trials[] = {{.rows = 1, .blocks = 1, .columns = 1, .seed = 1},
                                 {.rows = 16, .blocks = 2, .columns = 5, .seed = 2},
                                 {.rows = 100, .blocks = 11, .columns = 33, .seed = 3},
                                 {.rows = 130, .blocks = 16, .columns = 64, .seed = 4},
                                 {.rows = 257, .blocks = 5, .columns = 131, .seed = 5}};
  expect_products(trials);
}

TEST(DeviceProducts, ALittleOfEachType) {
  const ProductTrial trials[] = {{.rows = 19, .blocks = 3, .columns = 19, .seed = 6}};
  expect_products(trials);
}

// Types without a kernel are the processor's: every other entry of the registry.
TEST(DeviceProducts, TypesAreThoseOfTheRegistry) {
  std::size_t found = 0;
  for (const auto& [name, quant] : weights::quants()) {
    const WeightForm* const form = form_of(quant->format());
    if (!form) continue;
    ++found;
    EXPECT_EQ(form->name, std::string(name));
    EXPECT_EQ(form->block, quant->block);
    EXPECT_EQ(quant->format().activation, kernel::ActivationKind::kInt8);
    EXPECT_EQ(form->factor, quant->format().set_factor != nullptr);
  }
  EXPECT_EQ(found, weight_forms().size());
}

// What is not the type's must be seen: codes of Q4_0 with another zero.
TEST(DeviceProducts, OtherBitsAreNamed) {
  std::string why;
  const Context* const context = opened(&why);
  if (!context) GTEST_SKIP() << "SKIPPED: " << why;
  Programs programs("");
  Multiplier multiplier(*context, programs, context->device().limits.in_line_ptx);
  WeightForm wrong = weight_forms()[1];
  ASSERT_EQ(std::string("q4_0"), wrong.name);
  wrong.zero = 7;
  try {
    require(*context, multiplier, wrong);
    FAIL() << "another zero passed the check";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("q4_0, 37 columns of 9 blocks: row 0 of column 0"), std::string::npos)
        << e.what();
  }
}

// What a driver reports is tried: PoCL does not build the extension's function, gets one that gives something else, and
// one that is right.
TEST(IntegerDots, AreUsedWhereTheyAreRight) {
  std::string why;
  if (!opened(&why)) GTEST_SKIP() << "SKIPPED: " << why;
  Found found = choose(survey(), "opencl");
  if (found.limits.in_line_ptx || found.limits.integer_dots) GTEST_SKIP() << "SKIPPED: the device has its own";
  EXPECT_FALSE(with_checked_dots(found).limits.integer_dots);
  found.limits.integer_dots = true;
  EXPECT_FALSE(with_checked_dots(found).limits.integer_dots);
  EXPECT_FALSE(with_checked_dots(found, "-Ddot_4x8packed_ss_int=max").limits.integer_dots);
  EXPECT_TRUE(with_checked_dots(found, "-Ddot_4x8packed_ss_int=PLAIN_DOT").limits.integer_dots);
  const Context context(found);
  Programs programs("");
  Multiplier by_dots(context, programs, false, std::string(kOptions) + " -Ddot_4x8packed_ss_int=PLAIN_DOT");
  EXPECT_NO_THROW(require(context, by_dots, weight_forms()[0]));
}

TEST(WhereItPays, IsTheFirstWholeStepThatIsSooner) {
  EXPECT_EQ(64, where_it_pays(2.0, 64.0, 1.0, 32));
  EXPECT_EQ(96, where_it_pays(2.0, 65.0, 1.0, 32));
  EXPECT_EQ(32, where_it_pays(2.0, 0.0, 1.0, 32));
  EXPECT_EQ(0, where_it_pays(1.0, 1.0, 1.0, 32));
  EXPECT_EQ(0, where_it_pays(1.0, 0.0, 2.0, 32));
  EXPECT_EQ(0, where_it_pays(1.0, 1.0, 1.0 - 1e-12, 32));  // further than there are rows
}

// Matrices as a model has them, and what the processor makes of rows.
struct Packed {
  ProductTrial trial;
  ProductCase made;
  tensor::Buffer panels;
  tensor::Buffer x;
  cpu::Matrix matrix;
  kernel::Activations input;

  Packed(const char* type, const ProductTrial& t) : trial(t) {
    const WeightForm* form = nullptr;
    for (const WeightForm& f : weight_forms())
      if (std::string(type) == f.name) form = &f;
    made = make_case(*form, t);
    panels = tensor::Buffer(tensor::Tag::kScratch, made.panels.size());
    std::memcpy(panels.data(), made.panels.data(), made.panels.size());
    x = tensor::Buffer(tensor::Tag::kScratch, made.x.size());
    std::memcpy(x.data(), made.x.data(), made.x.size());
    const kernel::PanelFormat& format = quant_of(*form).format();
    matrix = {&format, panels.data(), t.rows, made.k, made.panel_bytes};
    input = {format.activation, x.data(), t.columns, made.k};
  }
};

// Products of all of them in one call, and whether they are the processor's.
bool multiply_all(WeightProducts& there, std::span<const Packed> all, bool* right) {
  std::vector<const cpu::Matrix*> matrices;
  std::vector<const kernel::Activations*> x;
  std::vector<std::vector<float>> results;
  std::vector<float*> outs;
  for (const Packed& p : all) {
    if (!there.takes(p.matrix)) continue;
    matrices.push_back(&p.matrix), x.push_back(&p.input);
    outs.push_back(results.emplace_back(p.made.expected.size()).data());
  }
  if (!there.multiply(matrices, x, outs, false)) return false;
  *right = true;
  for (std::size_t i = 0, at = 0; i < all.size(); ++i) {
    if (!there.takes(all[i].matrix)) continue;
    const auto& wanted = all[i].made.expected;
    *right = *right && std::memcmp(results[at++].data(), wanted.data(), wanted.size() * sizeof(float)) == 0;
  }
  return true;
}

std::vector<Packed> some_matrices() {
  std::vector<Packed> all;
  all.reserve(4);
  for (const std::int64_t rows : {100, 96, 112, 33})
    all.emplace_back("q4_0", ProductTrial{.rows = rows, .blocks = 8, .columns = 70, .seed = 11});
  all[2].input = all[0].input;  // the same rows of activations, as the seed is
  return all;
}

// All of them stay, some do, none does; in every case twice, because places are used again.
TEST(DeviceWeights, StayOrComeAnewWithTheSameBits) {
  std::string why;
  if (!opened(&why)) GTEST_SKIP() << "SKIPPED: " << why;
  const std::vector<Packed> all = some_matrices();
  std::vector<const cpu::Matrix*> matrices;
  std::int64_t bytes = 0, most = 0;
  for (const Packed& p : all) {
    matrices.push_back(&p.matrix);
    bytes += p.matrix.bytes();
    most = std::max(most, p.matrix.bytes());
  }
  Team team(2);
  for (const std::int64_t memory : {bytes, bytes - 1, 2 * most}) {
    WeightProducts there(choose(survey(), "opencl"));
    there.open(matrices, {.memory = memory, .from_rows = 32}, team);
    for (int time = 0; time < 2; ++time) {
      bool right = false;
      ASSERT_TRUE(multiply_all(there, all, &right)) << there.stats().lost;
      EXPECT_TRUE(right) << memory << " of " << bytes;
    }
    const cpu::ProductDeviceStats s = there.stats();
    EXPECT_EQ(8u, s.products);
    EXPECT_EQ(memory == bytes ? bytes : s.held_weights, s.held_weights);
    EXPECT_LE(s.held_weights, memory);
    EXPECT_EQ(memory == 2 * most ? 0 : 1, s.held_weights > 0);
    EXPECT_EQ(memory == bytes, s.ahead_bytes == 0);
  }
  WeightProducts none(choose(survey(), "opencl"));
  try {
    none.open(matrices, {.memory = 1000, .from_rows = 32}, team);
    FAIL() << "weights fit into 1000 bytes";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("--device-weights: weights have 1000 bytes there"), std::string::npos)
        << e.what();
  }
}

// Those that come next are copied while others are multiplied, in the order that was last seen: of a layer's parts, and
// where the same two are asked for with other rows. What is streamed is read when it is multiplied.
TEST(DeviceWeights, AreCopiedAhead) {
  std::string why;
  if (!opened(&why)) GTEST_SKIP() << "SKIPPED: " << why;
  std::vector<Packed> all = some_matrices();
  std::vector<const cpu::Matrix*> matrices;
  std::uint64_t bytes = 0, most = 0;
  for (const Packed& p : all) {
    matrices.push_back(&p.matrix);
    bytes += static_cast<std::uint64_t>(p.matrix.bytes());
    most = std::max(most, static_cast<std::uint64_t>(p.matrix.bytes()));
  }
  Team team(2);
  for (const bool streamed : {false, true}) {
    WeightProducts there(choose(survey(), "opencl"));
    there.open(matrices, {.memory = static_cast<std::int64_t>(2 * most), .from_rows = 32, .streamed = streamed}, team);
    const auto multiply = [&](std::initializer_list<std::size_t> which, bool again) {
      std::vector<const cpu::Matrix*> some;
      std::vector<const kernel::Activations*> x;
      std::vector<std::vector<float>> results;
      std::vector<float*> outs;
      for (const std::size_t i : which) {
        some.push_back(&all[i].matrix), x.push_back(&all[i].input);
        outs.push_back(results.emplace_back(all[i].made.expected.size()).data());
      }
      ASSERT_TRUE(there.multiply(some, x, outs, again)) << there.stats().lost;
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_EQ("", compare(*form_of(*some[i]->format), all[which.begin()[i]].trial,
                              all[which.begin()[i]].made.expected, results[i]));
    };
    std::uint64_t uploaded = 0, ahead = 0;
    const auto pass = [&] {  // against the order of their addresses
      const cpu::ProductDeviceStats before = there.stats();
      multiply({3}, false);
      for (const bool again : {true, true, false}) multiply({2, 0}, again);
      multiply({1}, false);
      uploaded = there.stats().uploaded_bytes - before.uploaded_bytes;
      ahead = there.stats().ahead_bytes - before.ahead_bytes;
    };
    pass(), pass(), pass();
    std::uint64_t rows = 0;
    for (const std::size_t i : {3, 2, 0, 2, 0, 2, 0, 1}) rows += all[i].made.x.size();
    EXPECT_EQ(bytes + rows, uploaded) << "each once";
    // The second of two is asked for before it could be guessed, and copied while the first is multiplied.
    EXPECT_EQ(streamed ? 0 : bytes - static_cast<std::uint64_t>(all[0].matrix.bytes()), ahead);
  }
}

TEST(DeviceWeights, FromWhichRowsOnIsMeasured) {
  std::string why;
  if (!opened(&why)) GTEST_SKIP() << "SKIPPED: " << why;
  const std::vector<Packed> all = some_matrices();
  const cpu::Matrix* const matrices[] = {&all[0].matrix};
  Team team(2);
  WeightProducts there(choose(survey(), "opencl"));
  there.open(matrices, {.memory = 1 << 20, .from_rows = 0}, team);
  EXPECT_EQ(0, there.from_rows() % 32);  // 0: never
  EXPECT_NE(there.stats().note.find("measured: 256 rows of 100 by 256 take"), std::string::npos) << there.stats().note;
}

// A driver that stops answering: from the so manyth question about an event on it says that it is queued.
int questions_left = 0;
cl_int (*real_question)(void*, cl_uint, std::size_t, void*, std::size_t*) = nullptr;

Found device_that_hangs(int after) {
  Found found = choose(survey(), "opencl");
  auto api = std::make_shared<Api>(*found.api);
  real_question = api->GetEventInfo;
  questions_left = after;
  api->GetEventInfo = [](void* event, cl_uint what, std::size_t size, void* to, std::size_t* needed) {
    if (--questions_left >= 0) return real_question(event, what, size, to, needed);
    const cl_int queued = 3;
    std::memcpy(to, &queued, sizeof queued);
    return 0;
  };
  found.api = api;
  found.limits.deadline = 0.2;
  return found;
}

TEST(DeviceWeights, ADeviceThatNeverAnswersIsLost) {
  std::string why;
  if (!opened(&why)) GTEST_SKIP() << "SKIPPED: " << why;
  const std::vector<Packed> all = some_matrices();
  const cpu::Matrix* const matrices[] = {&all[0].matrix};
  Team team(2);
  WeightProducts there(device_that_hangs(1 << 30));
  there.open(matrices, {.memory = 1 << 20, .from_rows = 32}, team);
  questions_left = 0;
  bool right = false;
  EXPECT_FALSE(multiply_all(there, std::span(all).first(1), &right));
  EXPECT_NE(there.stats().lost.find("no answer within 0.2 s"), std::string::npos) << there.stats().lost;
  EXPECT_FALSE(there.takes(all[0].matrix));
  EXPECT_EQ(1u, there.stats().refused);
}

}  // namespace
}  // namespace kvasir::device
