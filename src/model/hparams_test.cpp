// Hyper-parameters as read from metadata; RoPE scaling against values computed apart from the published formulas.
#include "model/hparams.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"

namespace kvasir::model {
namespace {

class FakeFile : public weights::ModelFile {
 public:
  FakeFile() {
    weights::TensorInfo& embedding = tensors_.front();
    embedding.name = "token_embd.weight";
    embedding.quant = "f32";
    embedding.shape = {128, 32, 1, 1};
    embedding.rank = 2;
    meta_.set("general.architecture", std::string("llama"));
    for (const auto& [key, value] : {std::pair<const char*, std::int64_t>{"block_count", 1},
                                     {"embedding_length", 128},
                                     {"feed_forward_length", 128},
                                     {"attention.head_count", 2},
                                     {"context_length", 16384}})
      set(key, value);
    set("attention.layer_norm_rms_epsilon", 1e-5);
  }
  void set_general(const std::string& key, const std::string& value) { meta_.set(key, value); }
  template <class T>
  void set(const std::string& key, T value) {
    meta_.set("llama." + key, value);
  }
  // The same model by another name of its architecture.
  void rename(const std::string& arch) {
    const weights::Metadata before = meta_;
    for (const auto& [key, value] : before.all())
      if (key.starts_with("llama.")) meta_.set(arch + key.substr(5), value);
    meta_.set("general.architecture", arch);
  }
  const weights::Metadata& metadata() const override { return meta_; }
  // A tensor of the embedding's shape.
  void add(const std::string& name) { tensors_.push_back(tensors_.front()), tensors_.back().name = name; }
  std::span<const weights::TensorInfo> tensors() const override { return tensors_; }
  const weights::TensorInfo* find(std::string_view name) const override {
    const auto at = std::find_if(tensors_.begin(), tensors_.end(), [&](auto& t) { return t.name == name; });
    return at == tensors_.end() ? nullptr : &*at;
  }
  void drop(std::span<const std::byte>) const override {}

 private:
  weights::Metadata meta_{"fake.gguf"};
  std::vector<weights::TensorInfo> tensors_{1};
};

TEST(Hparams, PeriodsOfWindows) {
  FakeFile file;
  file.set("attention.sliding_window", std::int64_t{64});
  EXPECT_EQ(Hparams(file).window(0, 1), 0);
  EXPECT_EQ(Hparams(file).window(0, 0), 64);
  EXPECT_EQ(Hparams(file).window(0, 4), 64);
  file.set("attention.sliding_window_pattern", std::int64_t{1});
  EXPECT_EQ(Hparams(file).window(0, 4), 0);
  file.set("attention.sliding_window_pattern", std::int64_t{0});
  EXPECT_EQ(Hparams(file).window(0, 4), 64);
}

// A window counts where the file says which layers have it: of others llama.cpp's converter may leave it behind.
TEST(Hparams, StatedWindows) {
  FakeFile file;
  file.set("attention.sliding_window", std::int64_t{64});
  EXPECT_EQ(std::get<Attention>(read_spec(file).layers[0].mixer).window, 0);
  file.set("attention.sliding_window_pattern", std::vector<bool>{true});
  EXPECT_EQ(std::get<Attention>(read_spec(file).layers[0].mixer).window, 64);
}

// Files of converted folders may have only the other norm's.
TEST(Hparams, OneEpsilonStandsForTheOther) {
  FakeFile file;
  EXPECT_FLOAT_EQ(Hparams(file).layer_eps(), 1e-5f);
  file.set("attention.layer_norm_epsilon", 1e-3);
  EXPECT_FLOAT_EQ(Hparams(file).layer_eps(), 1e-3f);
  EXPECT_FLOAT_EQ(Hparams(file).rms_eps(), 1e-5f);
}

TEST(Hparams, FilesThatAreNoModelsAreNamed) {
  const auto says = [](const FakeFile& file) {
    try {
      read_spec(file);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  FakeFile adapter, encoder;
  adapter.set_general("general.type", "adapter");
  adapter.set_general("adapter.type", "lora");
  EXPECT_NE(says(adapter).find("is an adapter (lora) for a model of architecture 'llama', not a model"),
            std::string::npos)
      << says(adapter);
  encoder.set_general("general.architecture", "clip");
  EXPECT_NE(says(encoder).find("(mmproj), not a model"), std::string::npos) << says(encoder);
  FakeFile head;  // of the converter's --mtp
  head.set("block_count", std::int64_t{3});
  head.set("nextn_predict_layers", std::int64_t{1});
  head.add("blk.2.nextn.eh_proj.weight");
  EXPECT_EQ(says(head), "taken");  // of a specification, before it is written
  head.add("blk.2.attn_q.weight");
  EXPECT_NE(says(head).find("a draft head"), std::string::npos) << says(head);
  head.add("blk.0.attn_norm.weight");
  EXPECT_EQ(says(head), "taken");
}

// The converter's order of Bamba's rows is that of heads that are turned as a whole.
TEST(Hparams, PartlyTurnedHeadsOfBambaArePutInOrder) {
  for (const std::int64_t turned : {64, 32}) {
    FakeFile file;
    file.set("rope.scaling.finetuned", true);
    file.set("rope.dimension_count", turned);
    file.rename("granitehybrid");
    const ModelSpec spec = read_spec(file);
    const Attention& a = std::get<Attention>(spec.layers[0].mixer);
    EXPECT_EQ(spec.ropes[0].pairs, turned < 64 ? kernel::RopePairs::kSplitHalf : kernel::RopePairs::kAdjacent);
    EXPECT_EQ(spec.ropes[0].frequencies.size(), static_cast<std::size_t>(turned / 2));
    EXPECT_EQ(a.v.cut.turns, 0);
    for (const Linear* l : {&a.q, &a.k}) {
      EXPECT_EQ(l->cut.at(64 + 1), turned < 64 ? 64 + 2 : 64 + 1);  // row 1 of the second head
      EXPECT_EQ(l->cut.at(64 + 32), turned < 64 ? 64 + 1 : 64 + 32);
      EXPECT_EQ(l->cut.at(64 + 63), 64 + 63);
    }
  }
}

TEST(RopeScaling, NoneIsThePlainGeometricSeries) {
  const Rope c = read_spec(FakeFile()).ropes[0];
  ASSERT_EQ(c.frequencies.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i)
    EXPECT_DOUBLE_EQ(c.frequencies[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 64));
  EXPECT_EQ(c.magnitude, 1.0f);
}

TEST(RopeScaling, LinearDividesEveryFrequency) {
  FakeFile file;
  file.set("rope.scaling.type", std::string("linear"));
  file.set("rope.scaling.factor", 4.0);
  const Rope c = read_spec(file).ropes[0];
  for (std::size_t i = 0; i < 32; ++i)
    EXPECT_DOUBLE_EQ(c.frequencies[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 64) / 4);
}

// Base 10000, 64 dimensions, factor 8, original context 2048: the ramp runs over pairs 8 to 21.
TEST(RopeScaling, YarnKeepsHighFrequenciesAndInterpolatesLowOnes) {
  FakeFile file;
  file.set("rope.scaling.type", std::string("yarn"));
  file.set("rope.scaling.factor", 8.0);
  file.set("rope.scaling.original_context_length", std::int64_t{2048});
  const Rope c = read_spec(file).ropes[0];
  for (const auto& [pair, value] : {std::pair<std::size_t, double>{0, 1.0},
                                    {10, 0.04866415314147252},
                                    {15, 0.007052276804709887},
                                    {20, 0.0006081303192631498},
                                    {31, 1.666901790204155e-05}})
    EXPECT_NEAR(c.frequencies[pair], value, 1e-12 * value) << pair;
  EXPECT_FLOAT_EQ(c.magnitude, 1.2079441541679836f);
}

TEST(RopeScaling, AMagnitudeOfTheFileReplacesYarns) {
  FakeFile file;
  file.set("rope.scaling.type", std::string("yarn"));
  file.set("rope.scaling.factor", 8.0);
  file.set("rope.scaling.yarn_attn_factor", 1.5);
  EXPECT_EQ(read_spec(file).ropes[0].magnitude, 1.5f);
}

// Numbers that may differ between layers are one number or an array.
TEST(Hparams, NumbersOfALayer) {
  FakeFile file;
  file.set("block_count", std::int64_t{3});
  file.set("feed_forward_length", std::vector<std::int64_t>{32, 64, 96});
  file.set("attention.head_count_kv", std::vector<std::int64_t>{2, 1, 2});
  const ModelSpec spec = read_spec(file);
  ASSERT_EQ(spec.layer_count(), 3);
  for (int l = 0; l < 3; ++l) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(l)];
    EXPECT_EQ(std::get<Dense>(layer.feed).up.rows, 32 * (l + 1));
    EXPECT_EQ(std::get<Attention>(layer.mixer).kv_heads, l == 1 ? 1 : 2);
    EXPECT_EQ(std::get<Attention>(layer.mixer).v.rows, l == 1 ? 64 : 128);
    EXPECT_EQ(std::get<Attention>(layer.mixer).v.name, "blk." + std::to_string(l) + ".attn_v.weight");
  }
  const std::pair<std::vector<std::int64_t>, const char*> faults[] = {
      {{32, 64}, "feed_forward_length has 2 elements, expected one for each of 3 layers"},
      {{32, 0, 96}, "feed_forward_length[1] is 0"}};
  for (const auto& [widths, text] : faults) {
    file.set("feed_forward_length", widths);
    try {
      read_spec(file);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
}

TEST(RopeScaling, AnUnknownTypeIsRefusedByName) {
  FakeFile file;
  file.set("rope.scaling.type", std::string("longrope"));
  try {
    read_spec(file);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("rope.scaling.type is 'longrope'"), std::string::npos) << e.what();
  }
}

// 32 pairs; qwen2 has the parts behind each other, qwen3 every third pair.
TEST(Rope, ThePartsOfPositionsThatPairsTurnBy) {
  const auto axes = [](const std::string& arch, const std::vector<std::int64_t>& sections) {
    FakeFile file;
    file.set("rope.dimension_sections", sections);
    file.rename(arch);
    const ModelSpec spec = read_spec(file);
    EXPECT_TRUE(spec.has_places());
    std::string text;
    for (const int a : spec.ropes[0].axes) text += static_cast<char>('0' + a);
    return text;
  };
  EXPECT_EQ(axes("qwen2vl", {8, 12, 12, 0}), "00000000111111111111222222222222");
  EXPECT_EQ(axes("qwen3vl", {12, 10, 10, 0}), "01201201201201201201201201201200");
  EXPECT_EQ(axes("qwen3vl", {24, 1, 3}), "01200200200000000000000000000000");
  EXPECT_FALSE(read_spec(FakeFile()).has_places());
  for (const auto& [sections, why] :
       {std::pair<std::vector<std::int64_t>, const char*>{{8, 12, 11, 0}, "of 31 pairs, expected 32"},
        {{8, 24}, "three or four numbers"},
        {{-1, 12, 12, 0}, "three or four numbers"}}) {
    try {
      axes("qwen2vl", sections);
      ADD_FAILURE() << why;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  }
}

TEST(Hparams, LayersThatPicturesAddRowsTo) {
  FakeFile file;
  file.set("n_deepstack_layers", std::int64_t{1});
  file.rename("qwen3vl");
  EXPECT_EQ(read_spec(file).deep, 1);
  EXPECT_EQ(read_spec(FakeFile()).deep, 0);
}

}  // namespace
}  // namespace kvasir::model
