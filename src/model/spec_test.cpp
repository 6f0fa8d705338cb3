// The walk over a specification, its text, and what loading says of files that do not fit it.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "model/model.hpp"
#include "model/reference_fixture.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

using testing::RandomFile;

// One layer with fused, biased q, k, v and everything else that has a tensor.
ModelSpec sample() {
  const auto cut = [](std::int64_t first, std::int64_t rows) {
    return Linear{"blk.0.attn_qkv.weight", rows, 32, {first, 64}, {"blk.0.attn_qkv.bias", rows, {first, 64}}};
  };
  Attention a{.heads = 4, .kv_heads = 2, .d = 8, .dv = 8, .q = cut(0, 32), .k = cut(32, 16), .v = cut(48, 16)};
  a.scale = 0.25f;
  a.slopes = {0.5f, 0.25f, 0.5f, 0.25f};
  a.sinks = {"blk.0.attn_sinks.weight", 4};
  a.gate = {"blk.0.attn_gate.weight", 4, 32};
  a.o = {"blk.0.attn_output.weight", 32, 32};
  const auto norm = [](const char* name) { return Norm{NormKind::kRms, 32, 0.01f, {name, 32}}; };
  ModelSpec m{.arch = "sample", .dim = 32, .vocab = 40, .context = 64};
  m.embedding.tokens = {"token_embd.weight", 40, 32};
  m.ropes = {{kernel::RopePairs::kAdjacent, {1.0, 0.1, 0.01, 0.001}, 1.0f, {{"rope_freqs.weight", 4}}}};
  m.ropes[0].axes = {0, 1, 2, 0};
  m.deep = 1;
  m.layers.push_back({.norm = norm("blk.0.attn_norm.weight"),
                      .mixer = a,
                      .feed_norm = norm("blk.0.ffn_norm.weight"),
                      .feed = Dense{.up = {"blk.0.ffn_up.weight", 64, 32}, .down = {"blk.0.ffn_down.weight", 32, 64}}});
  m.head = {.norm = norm("output_norm.weight"), .output = {"token_embd.weight", 40, 32}};
  return m;
}

// The same with experts.
ModelSpec expert_sample() {
  ModelSpec m = sample();
  const auto stack = [](const char* name, std::int64_t rows, std::int64_t columns) {
    return Stack{.name = std::string(name) + ".weight",
                 .count = 3,
                 .rows = rows,
                 .columns = columns,
                 .bias = {.name = std::string(name) + ".bias", .columns = rows, .rows = 3}};
  };
  m.layers[0].feed =
      Experts{.routing = {.count = 3, .used = 2},
              .router = {.name = "blk.0.ffn_gate_inp.weight", .rows = 3, .columns = 32, .in_floats = true},
              .choice_bias = {"blk.0.exp_probs_b.bias", 3},
              .gate = stack("blk.0.ffn_gate_exps", 64, 32),
              .up = stack("blk.0.ffn_up_exps", 64, 32),
              .down = stack("blk.0.ffn_down_exps", 32, 64)};
  return m;
}

TEST(Spec, TensorsAreMetOnceAndInOrder) {
  std::vector<std::string> names;
  for (const TensorSpec& t : tensors_of(sample()))
    names.push_back(t.name + " " + std::to_string(t.rows) + "x" + std::to_string(t.columns) + " " +
                    "mtv"[static_cast<int>(t.use)]);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "token_embd.weight 40x32 m", "rope_freqs.weight 1x4 v", "blk.0.attn_norm.weight 1x32 v",
                "blk.0.attn_qkv.weight 64x32 m", "blk.0.attn_qkv.bias 1x64 v", "blk.0.attn_sinks.weight 1x4 v",
                "blk.0.attn_gate.weight 4x32 m", "blk.0.attn_output.weight 32x32 m", "blk.0.ffn_norm.weight 1x32 v",
                "blk.0.ffn_up.weight 64x32 m", "blk.0.ffn_down.weight 32x64 m", "output_norm.weight 1x32 v"}));
}

TEST(Spec, TensorsOfExpertsHaveThreeDimensions) {
  using Shape = std::vector<std::int64_t>;
  int found = 0;
  for (const TensorSpec& t : tensors_of(expert_sample())) {
    if (t.name == "blk.0.ffn_down_exps.weight") {
      ++found;
      EXPECT_EQ(t.shape(), (Shape{64, 32, 3}));
    }
    if (t.name == "blk.0.ffn_up_exps.bias") {
      ++found;
      EXPECT_EQ(t.shape(), (Shape{64, 3}));
    }
    if (t.name == "blk.0.exp_probs_b.bias") {
      ++found;
      EXPECT_EQ(t.shape(), (Shape{3}));
    }
  }
  EXPECT_EQ(found, 3);
}

TEST(Spec, WalksPassOverWhatIsAbsent) {
  const ModelSpec m = sample();
  int linears = 0, norms = 0, attentions = 0;
  for_each<Linear>(m, [&](const Linear&) { ++linears; });
  for_each<Norm>(m, [&](const Norm&) { ++norms; });
  for_each<Attention>(m, [&](const Attention&) { ++attentions; });
  EXPECT_EQ(linears, 8);  // q k v gate o up down, output
  EXPECT_EQ(norms, 3);
  EXPECT_EQ(attentions, 1);
}

// Changes every number, name and choice of `part` in turn and calls f after each.
template <class S, class F>
void change_each(S& part, const F& f) {
  if constexpr (kIsVector<S>) {
    for (auto& x : part) change_each(x, f);
    auto last = part.back();
    part.pop_back();
    f();
    part.push_back(last);
  } else if constexpr (kIsVariant<S>) {
    std::visit([&](auto& x) { change_each(x, f); }, part);
  } else if constexpr (std::is_same_v<S, std::string>) {
    part += "x";
    f();
    part.pop_back();
  } else if constexpr (std::is_class_v<S>) {
    each_field(part, [&](Unnamed, auto& x) { change_each(x, f); });
  } else if constexpr (std::is_enum_v<S>) {
    const S before = part;
    part = static_cast<S>(part == S{} ? 1 : 0);
    f();
    part = before;
  } else if constexpr (std::is_same_v<S, bool>) {
    part = !part;
    f();
    part = !part;
  } else {
    const S before = part;
    part += static_cast<S>(1);
    f();
    part = before;
  }
}

void expect_every_member(ModelSpec m, int least) {
  const std::string text = to_text(m);
  std::set<std::string> texts{text};
  int changes = 0;
  change_each(m, [&] {
    ++changes;
    texts.insert(to_text(m));
  });
  EXPECT_GT(changes, least);
  EXPECT_EQ(static_cast<int>(texts.size()), changes + 1);
  EXPECT_EQ(to_text(m), text);
}

TEST(Spec, EveryMemberIsInTheText) {
  expect_every_member(sample(), 200);
  ModelSpec passes = sample();
  passes.embedding.second = {"second", 32};
  passes.layers[0].second = Second::kSwapped;
  passes.layers[0].end_norm = {NormKind::kRms, 32, 0.01f, {"end.weight", 32}};
  passes.layers[0].weights_of = 0;
  expect_every_member(passes, 210);
  expect_every_member(expert_sample(), 250);
}

std::string fault_of(const ModelSpec& spec, const RandomFile& file, bool exact = true) {
  try {
    check_tensors(spec, file, exact);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(LoadFaults, AreReportedTogether) {
  const ModelSpec spec = sample();
  RandomFile file(spec);
  EXPECT_EQ(fault_of(spec, file), "");
  file.remove("blk.0.attn_qkv.bias");
  file.remove("blk.0.attn_qkv.weight");
  file.add("blk.0.attn_qkv.weight", "f32", 48, 32, std::vector<float>(48 * 32));
  file.remove("blk.0.ffn_down.weight");
  file.remove("output_norm.weight");
  file.add("output_norm.weight", "f32", 1, 16, std::vector<float>(16));
  file.add("blk.0.ffn_gate.weight", "f32", 64, 32, std::vector<float>(64 * 32));
  const std::string fault = fault_of(spec, file);
  for (const char* part : {"blk.0.attn_qkv.bias is missing", "blk.0.attn_qkv.weight is 48x32, expected 64x32",
                           "blk.0.ffn_down.weight is missing", "output_norm.weight is 16, expected 32",
                           "blk.0.ffn_gate.weight is not a tensor of sample", "random.gguf"})
    EXPECT_NE(fault.find(part), std::string::npos) << part << ": " << fault;
  EXPECT_THROW(Model::planned_bytes(spec, file, true), Error);
}

TEST(LoadFaults, ExpertsOfAnotherShape) {
  const ModelSpec spec = expert_sample();
  RandomFile file(spec);
  EXPECT_EQ(fault_of(spec, file), "");
  // As many elements, but of other experts.
  file.remove("blk.0.ffn_up_exps.weight");
  file.add("blk.0.ffn_up_exps.weight", "f32", {32, 96, 2}, std::vector<float>(2 * 96 * 32));
  file.remove("blk.0.ffn_down_exps.bias");
  file.add("blk.0.ffn_down_exps.bias", "f32", {96}, std::vector<float>(96));
  const std::string fault = fault_of(spec, file);
  for (const char* part :
       {"blk.0.ffn_up_exps.weight is 2x96x32, expected 3x64x32", "blk.0.ffn_down_exps.bias is 96, expected 3x32"})
    EXPECT_NE(fault.find(part), std::string::npos) << part << ": " << fault;
}

// Floats of all vectors, in lines of 64 bytes, and of ones for norms without weights.
std::int64_t vector_bytes(const ModelSpec& spec) {
  const auto lines = [](std::int64_t floats) { return (4 * floats + 63) / 64 * 64; };
  std::int64_t bytes = 0, ones = 0;
  for (const TensorSpec& t : tensors_of(spec))
    if (t.use == TensorSpec::Use::kVector) bytes += lines(t.rows * t.columns);
  for_each<Norm>(spec, [&](const Norm& n) {
    if (!n.weight) ones = std::max(ones, n.width);
  });
  return bytes + lines(ones);
}

TEST(LoadFaults, APlanOfExpertsIsWhatLoadingTakes) {
  const ModelSpec spec = expert_sample();
  Team team(2);
  for (const bool exact : {true, false}) {
    const std::int64_t planned = Model::planned_bytes(spec, RandomFile(spec, "q8_0"), exact);
    const auto model = Model::load(spec, std::make_unique<RandomFile>(spec, "q8_0"), team, {.exact = exact});
    std::int64_t packed = 0, used = 0;
    for_each<Linear>(model->spec(), [&](const Linear& l) {
      packed += (l.bound.bytes() + 63) / 64 * 64;
      used += l.bound.bytes();
    });
    EXPECT_EQ(used, model->shared_bytes());
    for_each<Stack>(model->spec(), [&](const Stack& s) {
      packed += 3 * ((s.bound.first.bytes() + 63) / 64 * 64);
      used += 2 * s.bound.first.bytes();
    });
    EXPECT_EQ(planned, packed + vector_bytes(spec));
    EXPECT_EQ(planned, model->weight_bytes());
    EXPECT_EQ(used, model->bytes_per_token());
    // The router is multiplied in floats whatever it is in the file.
    EXPECT_TRUE(std::get<Experts>(model->spec().layers[0].feed).router.bound.in_floats());
  }
}

TEST(LoadFaults, APlanIsWhatLoadingTakes) {
  const ModelSpec spec = sample();
  Team team(2);
  for (const bool exact : {true, false}) {
    const std::int64_t planned = Model::planned_bytes(spec, RandomFile(spec, "q8_0"), exact);
    const auto model = Model::load(spec, std::make_unique<RandomFile>(spec, "q8_0"), team, {.exact = exact});
    std::int64_t packed = 0;
    for_each<Linear>(model->spec(), [&](const Linear& l) { packed += (l.bound.bytes() + 63) / 64 * 64; });
    EXPECT_EQ(planned, packed + vector_bytes(spec));
    EXPECT_EQ(planned, model->weight_bytes());
    EXPECT_EQ(model->parameters(), 40 * 32 + 4 + 64 * 32 + 64 + 4 + 4 * 32 + 32 * 32 + 2 * 64 * 32 + 3 * 32);
  }
}

// Every matrix of an NVFP4 tensor has a factor of its own, in a tensor beside it.
TEST(Load, FactorsOfWholeMatrices) {
  Team team(1);
  for (const bool experts : {false, true}) {
    const ModelSpec spec = experts ? expert_sample() : sample();
    const std::string name = experts ? "blk.0.ffn_down_exps" : "blk.0.ffn_down";
    const std::vector<float> factors = experts ? std::vector<float>{0.3f, 1.7f, -2.0f} : std::vector<float>{0.3f};
    const auto count = static_cast<std::int64_t>(factors.size());
    const auto file = [&](const std::vector<float>& of) {
      auto made = std::make_unique<RandomFile>(spec, "q8_0");
      std::vector<float> values(static_cast<std::size_t>(count * 32 * 64));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
      made->remove(name + ".weight");
      made->add(name + ".weight", "nvfp4", {64, 32, count}, values);
      if (!of.empty()) made->add(name + ".scale", "f32", {static_cast<std::int64_t>(of.size())}, of);
      made->add(name + ".input_scale", "f32", {1}, {3.0f});
      return made;
    };
    for (const bool exact : {false, true}) {
      const auto row = [&](const Model& model, std::int64_t matrix, std::int64_t r) {
        std::vector<float> values(64);
        const Feed& feed = model.spec().layers[0].feed;
        const cpu::Matrix m = experts ? std::get<Experts>(feed).down.bound[matrix] : std::get<Dense>(feed).down.bound;
        m.unpack_row(r, values.data());
        return values;
      };
      const auto plain = Model::load(spec, file(std::vector<float>(factors.size(), 1.0f)), team, {.exact = exact});
      const auto model = Model::load(spec, file(factors), team, {.exact = exact});
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t r = 0; r < 32; ++r) {
          auto want = row(*plain, i, r);
          for (float& v : want) v *= factors[static_cast<std::size_t>(i)];
          ASSERT_EQ(row(*model, i, r), want) << "matrix " << i << " row " << r;
        }
    }
    EXPECT_THROW(Model::load(spec, file({1.0f, 2.0f}), team, {}), Error);
    EXPECT_THROW(Model::load(spec, file(std::vector<float>(factors.size(), NAN)), team, {}), Error);
  }
}

}  // namespace
}  // namespace kvasir::model
