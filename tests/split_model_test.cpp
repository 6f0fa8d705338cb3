// Models in parts, with tensors that are not read, with layers that predict further tokens: the same bits as the plain
// file.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/run_fixture.hpp"
#include "run/engine.hpp"
#include "run/fingerprint.hpp"
#include "weights/gguf_writer.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run {
namespace split_model_test {

namespace fs = std::filesystem;

const std::string kDemo = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

// Numbers get the narrowest type that engines take them in.
void copy(weights::GgufHeader& h, const std::string& key, const weights::Value& value) {
  const auto put = [&](const auto& v) {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::int64_t>) {
      h.set<std::uint32_t>(key, static_cast<std::uint32_t>(v));
    } else if constexpr (std::is_same_v<T, double>) {
      h.set<float>(key, static_cast<float>(v));
    } else if constexpr (std::is_same_v<T, std::string>) {
      h.set_string(key, v);
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::uint64_t>) {
      h.set<T>(key, v);
    } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      h.set_array<std::int32_t>(key, std::vector<std::int32_t>(v.begin(), v.end()));
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      h.set_array<float>(key, std::vector<float>(v.begin(), v.end()));
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      h.set_strings(key, v);
    }
  };
  std::visit(put, value);
}

struct Extra {
  std::string name;
  std::vector<std::int64_t> shape;
  float value;
};

// Writes tensors first .. last of `model` and `extra` ones; `head` sets the keys.
void write_model(const std::string& path, const weights::ModelFile& model, std::size_t first, std::size_t last,
                 const std::vector<Extra>& extra, const std::function<void(weights::GgufHeader&)>& head) {
  weights::GgufHeader h;
  head(h);
  const auto tensors = model.tensors().subspan(first, last - first);
  for (const auto& t : tensors)
    h.add_tensor(t.name, t.quant, std::span(t.shape).first(static_cast<std::size_t>(t.rank)));
  for (const auto& t : extra) h.add_tensor(t.name, "f32", t.shape);
  weights::GgufWriter w(path, h);
  for (const auto& t : tensors) w.write(t.bytes);
  for (const auto& t : extra) {
    std::int64_t n = 1;
    for (const auto d : t.shape) n *= d;
    const std::vector<float> values(static_cast<std::size_t>(n), t.value);
    w.write(std::as_bytes(std::span(values)));
  }
  w.finish();
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("kvasir-files-{}", ::getpid());
    fs::create_directories(folder_);
    model_ = weights::open_model_file(kDemo);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // The demo model with other values of `numbers` and with further tensors.
  std::string changed(const std::map<std::string, std::int64_t>& numbers, const std::vector<Extra>& extra) const {
    const std::string out = path("changed.gguf");
    write_model(out, *model_, 0, model_->tensors().size(), extra, [&](weights::GgufHeader& h) {
      for (const auto& [key, value] : model_->metadata().all())
        if (!numbers.contains(key)) copy(h, key, value);
      for (const auto& [key, value] : numbers) copy(h, key, value);
    });
    return out;
  }

  fs::path folder_;
  std::unique_ptr<weights::ModelFile> model_;
};

struct Outcome {
  std::vector<float> logits;
  std::string cache;  // what the fingerprint is made of
};

Outcome outcome_of(const std::string& path) {
  EngineOptions o;
  o.model = path;
  o.threads = 1;
  o.ctx = 256;
  Engine engine(o, {.sequences = 1, .logits = 1});
  const auto ids = engine.tokenizer()->encode("Well, Prince, so Genoa and Lucca are now just family estates");
  const auto row = engine.feed(engine.cache().create(), ids, 1);
  return {{row.begin(), row.end()}, describe_cache(engine)};
}

TEST_F(Files, InPartsAreTheWholeModel) {
  const std::size_t n = model_->tensors().size(), cuts[] = {0, 3, n / 2, n};
  for (int i = 0; i < 3; ++i) {
    write_model(path(fmt::format("demo-{:05}-of-00003.gguf", i + 1)), *model_, cuts[i], cuts[i + 1], {},
                [&](weights::GgufHeader& h) {
                  for (const auto& [key, value] : model_->metadata().all())
                    if (i == 0) copy(h, key, value);
                  h.set<std::uint16_t>("split.no", static_cast<std::uint16_t>(i));
                  h.set<std::uint16_t>("split.count", 3);
                  h.set<std::int32_t>("split.tensors.count", static_cast<std::int32_t>(n));
                });
  }
  const Outcome whole = outcome_of(kDemo);
  for (const char* part : {"demo-00001-of-00003.gguf", "demo-00003-of-00003.gguf"}) {
    const Outcome split = outcome_of(path(part));
    EXPECT_EQ(split.logits, whole.logits) << part;
    EXPECT_EQ(split.cache, whole.cache) << part;
  }
  const std::string second = path("demo-00002-of-00003.gguf");
  auto r = cli::run_captured({"inspect", second, "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["files"], 3);
  EXPECT_EQ(j["tensors"].size(), n);
  EXPECT_GT(j["bytes"], fs::file_size(kDemo));
  EXPECT_NE(cli::run_captured({"inspect", second}).out.find(" in 3 files)"), std::string::npos);
  const auto text = [](const std::string& model) {
    return cli::run_captured({"run", "-m", model, "-p", "In the evening", "-n", "8", "--temp", "0", "--threads", "1"})
        .out;
  };
  const std::string expected = text(kDemo), got = text(second);
  EXPECT_EQ(got.substr(0, got.find('\n')), expected.substr(0, expected.find('\n')));
}

TEST_F(Files, LayersThatPredictFurtherTokensAreSkipped) {
  const std::int64_t layers = model_->metadata().require_int("llama.block_count", 1, 100);
  const std::string blk = fmt::format("blk.{}.", layers);
  const std::string path = changed({{"llama.block_count", layers + 1}, {"llama.nextn_predict_layers", 1}},
                                   {{blk + "nextn.eh_proj.weight", {512, 256}, 0.5f},
                                    {blk + "attn_norm.weight", {256}, 2.0f},
                                    {blk + "nextn.shared_head_norm.weight", {256}, 1.0f}});
  const Outcome plain = outcome_of(kDemo), with = outcome_of(path);
  EXPECT_EQ(with.logits, plain.logits);
  const auto r = cli::run_captured({"inspect", path, "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  ASSERT_EQ(j["unused"].size(), 3u);
  EXPECT_EQ(j["unused"][0]["name"], blk + "nextn.eh_proj.weight");
  EXPECT_EQ(j["unused"][0]["reason"], "for predicting further tokens");
  EXPECT_NE(cli::run_captured({"inspect", path}).out.find("not used (3)\n"), std::string::npos);
  // The arrays of such files have an element for every layer.
  changed({{"llama.block_count", layers + 1}, {"llama.nextn_predict_layers", layers + 1}}, {});
  EXPECT_THROW(outcome_of(path), Error);
}

TEST_F(Files, TensorsThatChangeNothingAreLeftOut) {
  const Outcome plain = outcome_of(kDemo);
  const std::string path = changed({}, {{"blk.0.attn_q.bias", {256}, 0.0f},
                                        {"blk.1.attn_rot_embd.weight", {32}, 7.0f},
                                        {"rope_freqs.weight", {32}, 1.0f},
                                        {"v.patch_embd.weight", {16, 16}, 0.3f},
                                        {"dense_2.weight", {256, 16}, 0.3f},
                                        {"cls.weight", {16, 16}, 0.3f}});
  EXPECT_EQ(outcome_of(path).logits, plain.logits);
}

// The head of a model that ranks is read, so its shape matters.
TEST_F(Files, AHeadForRanksIsChecked) {
  const std::string path = changed({}, {{"cls.output.weight", {16, 16}, 0.3f}});
  try {
    outcome_of(path);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "cls.output.weight is 16x16, expected 16x256");
  }
}

TEST_F(Files, TensorsThatChangeTheResultAreRefused) {
  for (const Extra& t : {Extra{"blk.0.attn_norm_2.weight", {256}, 1.0f}, Extra{"blk.9.attn_norm.weight", {256}, 1.0f},
                         Extra{"output_scale.weight", {1}, 1.0f}, Extra{"blk.0.attn_gate.bias", {256}, 0.5f}}) {
    const std::string path = changed({}, {t});
    try {
      outcome_of(path);
      ADD_FAILURE() << t.name;
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), t.name + " is not a tensor of llama");
      EXPECT_EQ(e.context(), path);
    }
  }
}

}  // namespace split_model_test
}  // namespace kvasir::run
