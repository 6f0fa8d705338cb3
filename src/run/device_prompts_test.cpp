// Requests to a server whose prompts an OpenCL device computes, products and attention to compressed pages: the answers
// of one without it. A batch of eight with a common beginning, a next turn, a cut, a restart, drafts. The suites of
// scheduling and reuse do more of that by hand (KVASIR_SUITE=opencl,prompts).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "device/driver.hpp"
#include "model/synth.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

class DevicePrompts : public ::testing::Test {
 protected:
  DevicePrompts() {
    std::filesystem::create_directories(folder_);
    Team team(2);
    model::write_synthetic_model(model_, model::find_synth_shape("tiny"), "q4_0", 1, team, [](auto, auto) {});
  }
  ~DevicePrompts() override { std::filesystem::remove_all(folder_); }

  struct Life {
    std::vector<Reply> replies;
    std::uint64_t groups = 0, products = 0, ahead = 0;
    std::string lost;
  };

  // Two servers, one after the other, with one folder. weights: as --device-weights has it; empty: without a device.
  Life live(const std::string& weights, const std::vector<std::string>& drafters, const std::string& store) const {
    Life life;
    std::vector<std::int32_t> prompt;
    const DraftOptions drafts{.draft = drafters, .draft_tokens = 4, .draft_always = true};
    for (const bool again : {false, true}) {
      Server server(
          "balanced", {"lmdb:" + folder_ + "/" + store + "?size=64MiB"}, {}, model_, drafts,
          [](std::string text) { return text; },
          [&](EngineOptions& o, Engine::Needs& needs) {
            needs.sequences = needs.logits = 8;
            needs.pool_tokens = 16384;
            needs.drafted = drafted_rows(drafts, 8);
            if (weights.empty()) return;
            o.device = "opencl";
            o.device_from = 0;
            o.device_weights = weights;
          });
      const auto parts = turns(server.tokenizer(), 10, 3);
      if (again) {
        append(prompt, parts[9]);
        life.replies.push_back(server.ask(prompt, 6, true));
        EXPECT_GT(life.replies.back().outcome.receipt.reused_tokens, 1100);
      } else {
        const std::vector<std::int32_t> all =
            server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
        const std::vector<std::int32_t> document(all.begin(), all.begin() + 1300);  // one group is compressed, and more
        std::vector<std::shared_ptr<Waiter>> waiters;
        for (const auto& part : std::span(parts).first(8)) {
          ServiceRequest r;
          r.request.prompt = document;
          append(r.request.prompt, part);
          r.request.max_tokens = 6;
          r.request.sampling.temperature = 0;
          r.request.ignore_eos = true;
          r.request.top_logprobs = 3;
          r.reuse = true;
          waiters.push_back(server.submit(std::move(r)));
        }
        for (const auto& w : waiters) life.replies.push_back(w->wait());
        prompt = document;
        append(prompt, parts[1]);
        prompt.resize(prompt.size() - 30);  // parts in the middle of what was asked before
        append(prompt, parts[8]);
        life.replies.push_back(server.ask(prompt, 6, true));
        append(prompt, life.replies.back().ids());
        server.flush();
      }
      const ServiceStats stats = server.stats();
      life.groups += stats.device.folded_groups;
      life.products += stats.products.products;
      life.ahead += stats.products.ahead_bytes;
      life.lost += stats.device.lost + stats.products.lost;
    }
    for (const Reply& r : life.replies) EXPECT_EQ("", r.outcome.error);
    return life;
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-device-prompts-" + std::to_string(getpid());
  const std::string model_ = folder_ + "/model.gguf";
};

TEST_F(DevicePrompts, AreTheProcessors) {
  if (device::survey().devices.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  int life = 0;
  for (const std::vector<std::string>& drafters : {std::vector<std::string>{}, {"lookup"}}) {
    const Life of_host = live("", drafters, std::to_string(life++));
    EXPECT_EQ(0u, of_host.groups + of_host.products);
    // Weights that come and go, and such that stay.
    const Life with = live(drafters.empty() ? "512KiB" : "1GiB", drafters, std::to_string(life++));
    EXPECT_EQ("", with.lost);
    EXPECT_GT(with.groups, 1000u);  // times rows: of generated tokens alone it would be some hundred
    EXPECT_GT(with.products, 20u);
    EXPECT_EQ(drafters.empty(), with.ahead > 0);
    ASSERT_EQ(of_host.replies.size(), with.replies.size());
    for (std::size_t i = 0; i < of_host.replies.size(); ++i) expect_equal_bits(of_host.replies[i], with.replies[i]);
  }
}

}  // namespace
}  // namespace kvasir::run
