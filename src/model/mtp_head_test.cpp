// Blocks that predict further tokens: what files say of them, their logits against float64, and that steps of any size
// give the same bits.
#include "model/mtp_head.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/error.hpp"
#include "kv/cache.hpp"
#include "model/cache_shape.hpp"
#include "model/forward.hpp"
#include "model/hparams.hpp"
#include "model/reference_fixture.hpp"
#include "model/synth.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::model {
namespace {

class MtpHead : public ::testing::TestWithParam<const char*> {
 protected:
  MtpHead() {
    std::filesystem::create_directories(folder_);
    write_synthetic_model(path_, find_synth_shape(GetParam()), "q8_0", 3, team_, [](auto, auto) {});
  }
  ~MtpHead() override { std::filesystem::remove_all(folder_); }

  // Logits of every row, (rows, vocab), in steps of `chunk` rows. states: (rows, dim).
  static std::vector<float> run(Team& team, const Model& model, std::span<const std::int32_t> ids, const float* states,
                                std::size_t chunk, std::vector<float>* own = nullptr) {
    const int most = static_cast<int>(ids.size());
    kv::Cache cache(team, cache_shape(model.spec()), {.k_codec = "f32", .v_codec = "f32", .max_tokens = 512});
    Forward forward(team, model, cache, most, most);
    kv::Sequence* s = cache.create();
    std::vector<float> logits;
    for (std::size_t i = 0; i < ids.size(); i += chunk) {
      const auto part = ids.subspan(i, std::min(chunk, ids.size() - i));
      const Input input{.sequence = s,
                        .tokens = part,
                        .logits = static_cast<int>(part.size()),
                        .states = states ? states + static_cast<std::int64_t>(i) * model.spec().dim : nullptr};
      const auto rows = forward.step({&input, 1});
      logits.insert(logits.end(), rows.begin(), rows.end());
      for (std::size_t r = 0; own && r < part.size(); ++r) {
        own->resize(own->size() + static_cast<std::size_t>(model.spec().dim));
        forward.head().state(static_cast<int>(r),
                             own->data() + own->size() - static_cast<std::size_t>(model.spec().dim));
      }
    }
    return logits;
  }

  Team team_{2};
  const std::string folder_ = ::testing::TempDir() + "kvasir-mtp-head-" + std::to_string(getpid());
  const std::string path_ = folder_ + "/model.gguf";
};
INSTANTIATE_TEST_SUITE_P(Shapes, MtpHead,
                         ::testing::Values("tiny-mtp", "tiny-mtp-states", "tiny-mtp-latent", "tiny-mtp-experts"));

template <class T>
double distance(const std::vector<float>& got, const std::vector<T>& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error += std::pow(static_cast<double>(got.at(i)) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(error / size);
}

// On every instruction set. Of latent attention: with the path of floats.
TEST_P(MtpHead, LogitsAgreeWithFloat64) {
  std::mt19937 random(5);
  std::vector<std::int32_t> ids(40), next;
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 1000);
  next.assign(ids.begin() + 1, ids.end());
  simd::each_isa([&] {
    SCOPED_TRACE(simd::name(simd::active()));
    std::vector<float> of_exact;
    for (const bool exact : {true, false}) {
      const auto model = Model::load(weights::open_model_file(path_), team_, {.exact = exact});
      std::vector<float> states;
      run(team_, *model, std::span(ids).first(next.size()), nullptr, 16, &states);
      auto file = weights::open_model_file(path_);
      const weights::ModelFile& tensors = *file;
      const ModelSpec spec = read_mtp_head(*file);
      EXPECT_TRUE(spec.head.output.lent);
      const auto mtp_head = Model::load(spec, std::move(file), team_, {.exact = exact, .lender = model.get()});
      EXPECT_LT(mtp_head->weight_bytes(), model->weight_bytes());  // the output matrix is there once
      const std::vector<float> got = run(team_, *mtp_head, next, states.data(), next.size());

      for (const std::size_t chunk : {1u, 7u}) {
        const std::vector<float> parts = run(team_, *mtp_head, next, states.data(), chunk);
        EXPECT_EQ(0, std::memcmp(parts.data(), got.data(), got.size() * sizeof(float))) << chunk;
      }
      if (std::get<Attention>(spec.layers[0].mixer).latent) {  // the reference does not know that
        if (exact) of_exact = got;
        EXPECT_LE(distance(got, of_exact), 0.10);
        continue;
      }
      std::vector<testing::Row> rows;
      for (std::size_t p = 0; p < next.size(); ++p)
        rows.emplace_back(states.begin() + static_cast<std::ptrdiff_t>(p) * spec.dim,
                          states.begin() + static_cast<std::ptrdiff_t>(p + 1) * spec.dim);
      std::vector<double> wanted;
      for (const testing::Row& row : testing::Reference(spec, tensors).logits(next, rows))
        wanted.insert(wanted.end(), row.begin(), row.end());
      EXPECT_LE(distance(got, wanted), exact ? 3e-6 : 0.10);
    }
  });
}

// The model computes what it does without the block.
TEST_P(MtpHead, TheModelDoesWithoutIt) {
  const auto file = weights::open_model_file(path_);
  EXPECT_EQ(read_spec(*file).layer_count(), find_synth_shape(GetParam()).layers);
}

std::string error_of(const std::string& path) {
  try {
    read_mtp_head(*weights::open_model_file(path));
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

TEST(MtpHeadFiles, WithoutABlockAreRefusedByFileAndField) {
  Team team(1);
  const std::string path = ::testing::TempDir() + "kvasir-no-mtp-head-" + std::to_string(getpid()) + ".gguf";
  for (const char* name : {"tiny", "tiny-states"}) {
    const SynthShape& shape = find_synth_shape(name);
    write_synthetic_model(path, shape, "q8_0", 1, team, [](auto, auto) {});
    const std::string error = error_of(path);
    EXPECT_NE(error.find(std::string(shape.arch) + ".nextn_predict_layers is missing"), std::string::npos) << error;
    EXPECT_NE(error.find(path), std::string::npos) << error;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvasir::model
