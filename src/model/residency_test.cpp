#include "model/residency.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "model/model.hpp"
#include "model/reference_fixture.hpp"
#include "model/spec_fields.hpp"
#include "model/synth.hpp"
#include "weights/packed_file.hpp"

namespace kvasir::model {
namespace {

// A model of `layers` layers whose matrices are 64 x 64 and 64 x 192 floats.
ModelSpec spec_of(int layers) {
  ModelSpec m{.arch = "test", .dim = 64, .vocab = 96, .context = 512};
  m.embedding.tokens = {"token_embd.weight", 96, 64};
  for (int l = 0; l < layers; ++l) {
    const std::string at = "blk." + std::to_string(l) + ".";
    Attention a{.heads = 4, .kv_heads = 4, .d = 16, .dv = 16, .scale = 0.3f};
    a.rope = -1;
    a.q = {at + "attn_q.weight", 64, 64};
    a.k = {at + "attn_k.weight", 64, 64};
    a.v = {at + "attn_v.weight", 64, 64};
    a.o = {at + "attn_output.weight", 64, 64};
    const Dense f{.up = {at + "ffn_up.weight", 192, 64}, .down = {at + "ffn_down.weight", 64, 192}};
    m.layers.push_back({.mixer = a, .feed = f});
  }
  m.head.output = {"output.weight", 96, 64};
  return m;
}

class Plans : public ::testing::Test {
 protected:
  Plans() : spec_(spec_of(10)), file_(spec_) {}
  Residency plan(const ResidencyOptions& o) const { return Model::plan(spec_, file_, true, o); }
  // Layers of which this kind is streamed.
  static std::vector<int> streamed(const Residency& r, bool feeds) {
    std::vector<int> layers;
    for (std::size_t i = 0; i + 1 < r.places.size(); ++i)
      if (r.places[i] == Place::kStreamed && (i % 2 == 1) == feeds) layers.push_back(static_cast<int>(i / 2));
    return layers;
  }
  const ModelSpec spec_;
  const testing::RandomFile file_;
};

TEST_F(Plans, ModesStreamTheirLayers) {
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, none;
  struct Case {
    ResidencyOptions options;
    std::vector<int> mixers, feeds;
  };
  const std::vector<int> inner{4, 5}, behind_two{2, 3, 4, 5, 6, 7, 8};
  const Case cases[] = {{{.mode = "auto"}, none, none},
                        {{.mode = "full_resident"}, none, none},
                        {{.mode = "full_stream"}, all, all},
                        {{.mode = "full_stream", .keep_first = 2, .keep_last = 1}, behind_two, behind_two},
                        {{.mode = "partial_resident"}, inner, inner},
                        {{.mode = "partial_resident", .keep_first = 2, .keep_last = 1}, behind_two, behind_two},
                        {{.mode = "ffn_only_stream"}, none, all},
                        {{.mode = "ffn_only_stream", .keep_first = 2, .keep_last = 1}, none, behind_two}};
  for (const Case& c : cases) {
    const Residency r = plan(c.options);
    EXPECT_EQ(streamed(r, false), c.mixers) << c.options.mode;
    EXPECT_EQ(streamed(r, true), c.feeds) << c.options.mode;
    EXPECT_EQ(r.places.back(), Place::kResident) << "what is of no layer";
    EXPECT_EQ(r.streams(), !c.feeds.empty());
  }
  EXPECT_EQ(plan({.mode = "mapped"}).memory(), plan({.mode = "mapped"}).vector_bytes);
  EXPECT_THROW(plan({.mode = "some"}), Error);
}

TEST_F(Plans, NoMoreMemoryThanAllowed) {
  const std::int64_t all = Model::planned_bytes(spec_, file_, true);
  EXPECT_EQ(plan({.memory = all}).memory(), all);
  EXPECT_FALSE(plan({.memory = all}).streams());
  std::int64_t last = 0;
  int refused = 0;
  for (std::int64_t memory = all / 20; memory < all; memory += all / 20) {
    try {
      const Residency r = plan({.memory = memory});
      EXPECT_LE(r.memory(), memory);
      EXPECT_TRUE(r.streams());
      EXPECT_GE(r.memory(), memory - 100000) << "what does not suffice for one more matrix";
      last = r.memory();
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(last, 0) << "refused with more than what sufficed";
      EXPECT_EQ(e.code(), Code::kMemory);
      EXPECT_EQ(e.context(), "--weights-memory");
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(last, all * 3 / 4);
  EXPECT_THROW(plan({.mode = "full_resident", .memory = all - 1}), Error);
  EXPECT_THROW(plan({.mode = "partial_resident", .memory = all / 4}), Error);
}

// So the disk goes on while they are computed.
TEST_F(Plans, WhatStaysIsSpreadOverThePass) {
  const std::int64_t all = Model::planned_bytes(spec_, file_, true);
  const Residency r = plan({.memory = all * 7 / 10});
  int run = 0, longest = 0, kept = 0;
  for (std::size_t i = 0; i + 1 < r.places.size(); ++i) {
    run = r.places[i] == Place::kStreamed ? run + 1 : 0;
    kept += r.places[i] == Place::kResident;
    longest = std::max(longest, run);
  }
  EXPECT_GT(kept, 2);
  EXPECT_LE(longest, 1 + static_cast<int>(r.places.size()) / kept);
}

// The same with further passes of all layers.
ModelSpec looped(int layers, int passes) {
  ModelSpec m = spec_of(layers);
  for (int l = layers; l < passes * layers; ++l) {
    m.layers.push_back(m.layers[static_cast<std::size_t>(l % layers)]);
    m.layers.back().weights_of = l % layers;
  }
  return m;
}

TEST(PlansOfPasses, KeepAndCountMatricesOnce) {
  const ModelSpec once = spec_of(4), spec = looped(4, 3);
  const testing::RandomFile file(spec);
  const std::int64_t all = Model::planned_bytes(once, testing::RandomFile(once), true);
  EXPECT_EQ(Model::planned_bytes(spec, file, true), all);
  EXPECT_EQ(Model::plan(spec, file, true, {.mode = "mapped"}).mapped_bytes,
            Model::plan(once, file, true, {.mode = "mapped"}).mapped_bytes);
  EXPECT_FALSE(Model::plan(spec, file, true, {.memory = all}).streams());
  Team team(2);
  const auto model = Model::load(spec, std::make_unique<testing::RandomFile>(spec), team, {.exact = true});
  EXPECT_EQ(model->weight_bytes(), all);
  const auto plain = Model::load(once, std::make_unique<testing::RandomFile>(once), team, {.exact = true});
  EXPECT_EQ(model->parameters(), plain->parameters());
  // What a token reads is read in every pass.
  const std::int64_t head = 4 * spec.vocab * spec.dim;
  EXPECT_EQ(model->bytes_per_token() - head, 3 * (plain->bytes_per_token() - head));
}

// A pass is where the first one is, and what is not in memory is read in each.
TEST(PlansOfPasses, StreamEveryPass) {
  const ModelSpec once = spec_of(10), spec = looped(10, 3);
  const testing::RandomFile file(spec);
  const Residency one = Model::plan(once, file, true, {.mode = "full_stream"});
  const Residency r = Model::plan(spec, file, true, {.mode = "full_stream"});
  EXPECT_EQ(r.streamed_bytes, 3 * one.streamed_bytes);
  EXPECT_EQ(r.resident_bytes, one.resident_bytes);
  const std::int64_t memory = Model::planned_bytes(spec, file, true) * 7 / 10;
  const Residency part = Model::plan(spec, file, true, {.memory = memory});
  EXPECT_LE(part.memory(), memory);
  EXPECT_EQ(part.resident_bytes, Model::plan(once, file, true, {.memory = memory}).resident_bytes);
  // The first layer, and the one whose last pass is the last.
  const Residency ends = Model::plan(spec, file, true, {.mode = "full_stream", .keep_first = 1, .keep_last = 1});
  for (const Residency& kept : {part, ends}) {
    ASSERT_EQ(kept.places.size(), 61u);
    int resident = 0;
    for (std::size_t i = 0; i < 60; ++i) {
      EXPECT_EQ(kept.places[i], kept.places[i % 20]) << i;
      resident += i < 20 && kept.places[i] == Place::kResident;
    }
    EXPECT_GE(resident, 4);
    EXPECT_LT(resident, 20);
  }
  EXPECT_EQ(ends.places[0], Place::kResident);
  EXPECT_EQ(ends.places[19], Place::kResident);
  EXPECT_EQ(ends.places[2], Place::kStreamed);
}

TEST(Bundles, EveryMatrixIsInOne) {
  ModelSpec spec = spec_of(3);
  std::size_t linears = 0, all = 0;
  for (const Bundle& b : bundles_of(spec)) linears += b.linears.size();
  for_each<Linear>(spec, [&](Linear&) { ++all; });
  EXPECT_EQ(linears, all);
}

}  // namespace
}  // namespace kvasir::model
