// Behind a scheduler: models that keep more than keys and values, such as rows of an index (DeepSeek V3.2, GLM-5), what
// convolutions of keys and values read (Inkling 2), or both, states and ids of tokens (Qwen4-exp), and folders of FP8
// and MLX. What they keep is reused, kept over restarts and shared by requests.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "golden_folder_fixture.hpp"
#include "model/relocation.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using kvasir::testing::TemporaryPath;

const std::string kGoldenModels = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/";
constexpr std::int64_t kMlxGroup = 32, kF8Block = 64;

class IndexedReuse : public ::testing::TestWithParam<const char*> {
 protected:
  IndexedReuse() : kept_("indexed-kept"), folder_("indexed-folder") {
    std::filesystem::create_directory(kept_.path);
    const std::string name = GetParam();
    model_ = kGoldenModels + name;
    if (name.ends_with(".gguf")) return;
    model_ = folder_.path;
    const auto llama = weights::open_model_file(kGoldenModels + "llama.gguf");
    const kvasir::testing::FolderStyle style{"llama", true};
    kvasir::testing::PlainJson config = kvasir::testing::folder_config(*llama, style);
    if (name == "mlx")
      config["quantization"] = {{"group_size", kMlxGroup}, {"bits", 4}};
    else
      config["quantization_config"] = {
          {"quant_method", "fp8"}, {"weight_block_size", {kF8Block, kF8Block}}, {"activation_scheme", "dynamic"}};
    std::vector<kvasir::testing::FolderTensor> tensors;
    for (const auto& t : kvasir::testing::folder_tensors(*llama, style)) {
      if (t.name.find("_proj.weight") == t.name.npos)
        tensors.push_back(t);
      else
        pack(t, name == "mlx", tensors);
    }
    kvasir::testing::write_folder(folder_.path, config, tensors);
  }
  // Other weights of the same matrix, as the folder has them.
  static void pack(const kvasir::testing::FolderTensor& t, bool mlx, std::vector<kvasir::testing::FolderTensor>& to) {
    std::mt19937 draw(static_cast<unsigned>(to.size()));
    const std::string stem = t.name.substr(0, t.name.size() - std::string_view("weight").size());
    const auto random = [&](std::int64_t n, auto make) {
      std::string bytes;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto x = make();
        bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
      }
      return bytes;
    };
    const auto half = [&](float from, float to_) {
      return simd::f32_to_f16(from + (to_ - from) * static_cast<float>(draw() % 1000) / 1000.0f);
    };
    const std::int64_t out = t.shape[0], in = t.shape[1];
    if (mlx) {
      const std::int64_t groups = in / kMlxGroup;
      to.push_back(
          {t.name, "U32", {out, in / 8}, random(out * in / 8, [&] { return static_cast<std::uint32_t>(draw()); })});
      to.push_back({stem + "scales", "F16", {out, groups}, random(out * groups, [&] { return half(0.01f, 0.03f); })});
      to.push_back({stem + "biases", "F16", {out, groups}, random(out * groups, [&] { return half(-0.25f, -0.1f); })});
      return;
    }
    const std::int64_t high = (out + kF8Block - 1) / kF8Block, wide = (in + kF8Block - 1) / kF8Block;
    const auto code = [&] { return static_cast<std::uint8_t>(16 + draw() % 40 + draw() % 2 * 128); };  // to 2
    to.push_back({t.name, "F8_E4M3", t.shape, random(out * in, code)});
    to.push_back({stem + "weight_scale_inv", "F32", {high, wide}, random(high * wide, [&] {
                    return 0.1f + 0.01f * static_cast<float>(draw() % 10);
                  })});
  }

  std::unique_ptr<testing::Server> serve(const std::vector<std::string>& tiers, const std::string& kv = "exact",
                                         const DraftOptions& drafts = {}) const {
    return std::make_unique<testing::Server>(
        kv, tiers, store::Wrap{}, model_, drafts, [](std::string text) { return text; },
        [](EngineOptions& o, Engine::Needs&) { o.ctx = 1024; });
  }
  std::vector<std::int32_t> text(const testing::Server& server, unsigned seed, std::size_t n) const {
    std::mt19937 draw(seed);
    const auto vocab = static_cast<unsigned>(server.model().spec().vocab);
    std::vector<std::int32_t> ids(n);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(draw() % vocab);
    return ids;
  }

  const TemporaryPath kept_, folder_;
  std::string model_;
};
INSTANTIATE_TEST_SUITE_P(Models, IndexedReuse,
                         ::testing::Values("deepseek32.gguf", "glm-dsa.gguf", "inkling2.gguf", "qwen4exp.gguf", "fp8",
                                           "mlx"));

TEST_P(IndexedReuse, TurnsRestartsAndCompanyKeepEveryBit) {
  const std::vector<std::string> disk = {"lmdb:" + kept_.path};
  for (const char* kv : {"exact", "f16"}) {
    SCOPED_TRACE(kv);
    std::vector<std::int32_t> prompt, other;
    testing::Reply fresh, fresh_other;
    {
      const auto server = serve(disk, kv);
      prompt = text(*server, 1, 300);
      fresh = server->ask(prompt, 12, false);
      testing::expect_equal_bits(server->ask(prompt, 12, true), fresh);
      const testing::Reply again = server->ask(prompt, 12, true);
      testing::expect_equal_bits(again, fresh);
      EXPECT_GE(again.outcome.receipt.reused_tokens, 256);
      // A later turn, and a text that parts from this one within a page.
      testing::append(prompt, fresh.ids());
      testing::append(prompt, text(*server, 2, 100));
      other.assign(prompt.begin(), prompt.begin() + 200);
      testing::append(other, text(*server, 3, 150));
      fresh = server->ask(prompt, 12, false);
      fresh_other = server->ask(other, 12, false);
      const testing::Reply turn = server->ask(prompt, 12, true);
      testing::expect_equal_bits(turn, fresh);
      EXPECT_GE(turn.outcome.receipt.reused_tokens, 300);
      testing::expect_equal_bits(server->ask(other, 12, true), fresh_other);
      server->flush();
    }
    const auto server = serve(disk, kv);
    const auto request = [](const std::vector<std::int32_t>& ids) {
      ServiceRequest r;
      r.request.prompt = ids;
      r.request.max_tokens = 12;
      r.request.sampling.temperature = 0;
      r.request.ignore_eos = true;
      r.request.top_logprobs = 5;
      return r;
    };
    const auto first = server->submit(request(prompt)), second = server->submit(request(other)),
               third = server->submit(request(prompt));
    const testing::Reply restored = first->wait();
    testing::expect_equal_bits(restored, fresh);
    EXPECT_GE(restored.outcome.receipt.reused_tokens, 384);
    testing::expect_equal_bits(second->wait(), fresh_other);
    testing::expect_equal_bits(third->wait(), fresh);
  }
}

// Tokens that an index chose, and keys that convolutions made, depend on the tokens before them.
TEST(IndexedModels, BlendingIsRefusedByName) {
  for (const auto& [model, why] : {std::pair("deepseek32.gguf", "reads the tokens that an index chooses"),
                                   {"glm-dsa.gguf", "reads the tokens that an index chooses"},
                                   {"inkling2.gguf", "has keys that go through a convolution"},
                                   {"qwen4exp.gguf", "is recurrent: its state is one of all tokens before it"}}) {
    const auto server = std::make_unique<testing::Server>(
        "exact", std::vector<std::string>{"ram:?size=64MiB"}, store::Wrap{}, kGoldenModels + model, DraftOptions{},
        [](std::string text) { return text; }, [](EngineOptions& o, Engine::Needs&) { o.whole_windows = true; });
    const std::string said = model::why_not_relocated(server->model().spec(), true);
    EXPECT_NE(said.find(why), said.npos) << model << ": " << said;
    ServiceRequest r;
    r.request.prompt.assign(200, 5);
    r.request.max_tokens = 1;
    r.blend.reuse = "blend";
    const BlendReceipt receipt = server->submit(std::move(r))->wait().outcome.receipt.blend;
    EXPECT_TRUE(receipt.asked);
    EXPECT_NE(receipt.refused.find(why), receipt.refused.npos) << model << ": " << receipt.refused;
  }
}

// What a table has for the last tokens' ids is found by ids.
TEST(IndexedModels, RowsWithoutIdsAreRefusedByNameWhereIdsAreLookedUp) {
  for (const bool looks_up : {true, false}) {
    testing::Server server("exact", {"ram:?size=16MiB"}, store::Wrap{},
                           kGoldenModels + (looks_up ? "qwen4exp.gguf" : "qwen35moe.gguf"));
    const auto dim = static_cast<std::size_t>(server.model().spec().dim);
    const auto block =
        std::make_shared<const model::RowBlock>(std::vector<float>(3 * dim, 0.5f), static_cast<int>(dim));
    ServiceRequest r;
    r.request.prompt = {5, 6};
    r.request.prompt.insert(r.request.prompt.end(), block->ids().begin(), block->ids().end());
    r.request.runs = {{2, block}};
    r.request.max_tokens = 1;
    std::string said;
    try {
      server.submit(std::move(r))->wait();
    } catch (const Error& e) {
      said = std::string(e.context()) + " " + e.message();
    }
    EXPECT_EQ(said, looks_up
                        ? "rows have no ids, and the model looks up what stands in its tables for the last tokens' ids"
                        : "");
  }
}

TEST_P(IndexedReuse, DraftsChangeNoBit) {
  const auto plain = serve({"ram:?size=64MiB"});
  const auto drafts = serve({"ram:?size=64MiB"}, "exact", DraftOptions{.draft = {"lookup"}, .draft_always = true});
  std::vector<std::int32_t> prompt = text(*plain, 5, 60);
  for (int i = 0; i < 3; ++i) testing::append(prompt, text(*plain, 5, 60));  // so that there is something to find
  const testing::Reply drafted = drafts->ask(prompt, 40, true);
  testing::expect_equal_bits(drafted, plain->ask(prompt, 40, false));
  EXPECT_GT(drafted.outcome.draft.drafted, 0);
}

}  // namespace
}  // namespace kvasir::run
