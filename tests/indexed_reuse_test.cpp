// Models that choose the tokens they see by an index (DeepSeek V3.2, GLM-5), behind a scheduler: index rows are reused,
// kept over restarts and shared by requests as the rows that they choose from are.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "golden_folder_fixture.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using kvasir::testing::TemporaryPath;

class IndexedReuse : public ::testing::TestWithParam<const char*> {
 protected:
  IndexedReuse() : kept_("indexed-kept") { std::filesystem::create_directory(kept_.path); }

  std::unique_ptr<testing::Server> serve(const std::vector<std::string>& tiers, const std::string& kv = "exact",
                                         const DraftOptions& drafts = {}) const {
    const std::string model = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/" + GetParam();
    return std::make_unique<testing::Server>(
        kv, tiers, store::Wrap{}, model, drafts, [](std::string text) { return text; },
        [](EngineOptions& o, Engine::Needs&) { o.ctx = 1024; });
  }
  std::vector<std::int32_t> text(const testing::Server& server, unsigned seed, std::size_t n) const {
    std::mt19937 draw(seed);
    const auto vocab = static_cast<unsigned>(server.model().spec().vocab);
    std::vector<std::int32_t> ids(n);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(draw() % vocab);
    return ids;
  }

  const TemporaryPath kept_;
};
INSTANTIATE_TEST_SUITE_P(Models, IndexedReuse, ::testing::Values("deepseek32.gguf", "glm-dsa.gguf"));

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
