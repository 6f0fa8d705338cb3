// Gemma 4 E2B and E4B, whose every layer reads a row of each token: in the place of a picture's rows these are the
// padding token's. The text model of tests/golden/vision answers as transformers does (tools/golden_layer_rows.py), and
// with the same bits however a prompt is computed and what of it is known.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "run/golden_answers_fixture.hpp"
#include "run/reuse_fixture.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;
using model::RowBlock;

struct MixedPrompt {
  std::vector<std::int32_t> ids;
  std::vector<model::RowRun> runs;
};

class LayerRows : public ::testing::Test {
 protected:
  ~LayerRows() override { std::filesystem::remove_all(folder_); }

  void start(const char* kv, std::int32_t chunk = 512, const std::string& tier = "ram:?size=64MiB",
             const DraftOptions& drafts = {}) {
    server_.reset();
    server_ = std::make_unique<Server>(
        kv, std::vector{tier}, store::Wrap{}, kModel, drafts, [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs& needs) {
          o.exact = true, o.ctx = 1024, o.chunk = chunk, needs.pool_tokens = 6144;
        });
  }
  static nlohmann::json golden() { return vision::golden_json("gemma4e.answers.json")["prompts"]; }
  // Those of the golden file; `flip`: the number of the first prompt's rows that is negated.
  std::vector<MixedPrompt> prompts(std::int64_t flip = -1) const {
    const auto dim = static_cast<std::size_t>(server_->model().spec().dim);
    const std::vector<std::byte> bytes = vision::golden_bytes("gemma4e.rows.f32");
    const auto* next = reinterpret_cast<const float*>(bytes.data());
    std::vector<MixedPrompt> all;
    for (const auto& listed : golden()) {
      MixedPrompt p;
      for (const auto& item : listed["prompt"]) {
        if (!item.is_string()) {
          p.ids.push_back(item);
          continue;
        }
        const std::size_t count = std::stoul(item.get<std::string>()) * dim;
        std::vector<float> rows(next, next + count);
        next += count;
        if (flip >= 0 && all.empty() && p.runs.empty()) rows[static_cast<std::size_t>(flip)] *= -1;
        p.runs.push_back({std::ssize(p.ids), std::make_shared<const RowBlock>(std::move(rows), static_cast<int>(dim))});
        append(p.ids, {p.runs.back().block->ids().begin(), p.runs.back().block->ids().end()});
      }
      EXPECT_EQ(std::ssize(p.ids), listed["length"].get<std::int64_t>());
      all.push_back(std::move(p));
    }
    EXPECT_EQ(reinterpret_cast<const std::byte*>(next), bytes.data() + bytes.size());
    return all;
  }
  static ServiceRequest request(const MixedPrompt& p, bool reuse, std::int32_t tokens = 8) {
    ServiceRequest r;
    r.request.prompt = p.ids;
    r.request.runs = p.runs;
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 64;
    r.reuse = reuse;
    return r;
  }
  Reply ask(const MixedPrompt& p, bool reuse) {
    const Reply reply = server_->submit(request(p, reuse))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  static std::int64_t reused(const Reply& r) { return r.outcome.receipt.reused_tokens; }

  const std::string kModel = vision::golden("gemma4e.text.gguf");
  const std::string folder_ = ::testing::TempDir() + "kvasir-layer-rows-" + std::to_string(getpid());
  std::unique_ptr<Server> server_;
};

TEST_F(LayerRows, AnswersAreThoseOfTransformers) {
  start("f32");
  ASSERT_TRUE(server_->model().spec().embedding.layers.tokens);
  const std::vector<std::byte> bytes = vision::golden_bytes("gemma4e.answers.f32");
  const auto* want = reinterpret_cast<const float*>(bytes.data());
  const std::vector<MixedPrompt> all = prompts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Reply reply = ask(all[i], false);
    EXPECT_EQ(reply.ids(), golden()[i]["ids"].get<std::vector<std::int32_t>>());
    SCOPED_TRACE("prompt " + std::to_string(i));
    expect_golden(reply, 64, &want);
  }
  EXPECT_EQ(reinterpret_cast<const std::byte*>(want), bytes.data() + bytes.size());
}

TEST_F(LayerRows, HaveTheSameBitsHoweverTheyAreComputed) {
  start("balanced");
  const std::vector<MixedPrompt> all = prompts();
  std::vector<Reply> cold;
  for (const MixedPrompt& p : all) cold.push_back(ask(p, false));
  // In pieces that end within rows, and beside each other.
  for (const std::int32_t chunk : {512, 8}) {
    start("balanced", chunk);
    std::vector<std::shared_ptr<Waiter>> waiting;
    for (const MixedPrompt& p : all) waiting.push_back(server_->submit(request(p, false)));
    for (std::size_t i = 0; i < all.size(); ++i) expect_equal_bits(waiting[i]->wait(), cold[i]);
  }
  const std::string disk = "lmdb:" + folder_ + "?size=64MiB";
  start("balanced", 512, disk);
  for (std::size_t i = 0; i < all.size(); ++i) expect_equal_bits(ask(all[i], true), cold[i]);
  server_->flush();
  start("balanced", 512, disk);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Reply warm = ask(all[i], true);
    EXPECT_EQ(reused(warm), std::ssize(all[i].ids) - 1) << i;
    expect_equal_bits(warm, cold[i]);
  }
  // Other rows in the same place, be it in their last number.
  const std::vector<MixedPrompt> others = prompts(12 * 32 - 1);
  const Reply other = ask(others[0], true);
  EXPECT_LE(reused(other), others[0].runs[0].begin);
  expect_equal_bits(other, ask(others[0], false));
  EXPECT_NE(other.tokens.at(0).logprob, cold[0].tokens.at(0).logprob);
}

// Texts that part behind rows and within them, together and one after the other, the longest first.
TEST_F(LayerRows, BeginningsAreShared) {
  start("balanced");
  const MixedPrompt whole = prompts()[2];
  MixedPrompt behind = whole, within = whole;
  behind.ids.resize(static_cast<std::size_t>(whole.runs[1].end()));
  append(behind.ids, {9, 8, 7});
  within.ids.resize(static_cast<std::size_t>(whole.runs[0].end()));
  within.runs.pop_back();
  append(within.ids, {4, 4});
  const std::vector<MixedPrompt> all{whole, behind, within, whole};
  std::vector<std::shared_ptr<Waiter>> waiting;
  for (const MixedPrompt& p : all) waiting.push_back(server_->submit(request(p, true)));
  std::vector<Reply> together;
  for (const auto& one : waiting) together.push_back(one->wait());
  start("balanced");
  // What all of them begin with is less than a page, of which the last one's end is kept.
  const std::int64_t known[] = {0, whole.runs[1].end(), whole.runs[0].end(), whole.runs[1].end()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Reply after = ask(all[i], true);
    EXPECT_GE(reused(after), known[i]) << i;
    EXPECT_LE(reused(after), i == 3 ? std::ssize(whole.ids) - 1 : known[i]) << i;
    const Reply alone = ask(all[i], false);
    expect_equal_bits(after, alone);
    expect_equal_bits(together[i], alone);
  }
}

TEST_F(LayerRows, DraftsBehindThemChangeNothing) {
  start("balanced");
  MixedPrompt p = prompts()[2];
  for (int i = 0; i < 3; ++i) append(p.ids, {20, 21, 22, 23, 24, 25});
  const Reply plain = server_->submit(request(p, false, 40))->wait();
  DraftOptions options;
  options.draft = {"lookup", "model:" + kModel};
  options.draft_always = true;
  start("balanced", 512, "ram:?size=64MiB", options);
  for (const char* name : {"lookup", "model"})
    for (int round = 0; round < 2; ++round) {
      ServiceRequest r = request(p, true, 40);
      r.drafters = {{name}};
      const Reply reply = server_->submit(std::move(r))->wait();
      EXPECT_EQ(reply.outcome.error, "");
      EXPECT_GT(reply.outcome.draft.drafted, 0) << name;
      expect_equal_bits(reply, plain);
    }
}

}  // namespace
}  // namespace kvasir::run
