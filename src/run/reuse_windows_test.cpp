// Reuse with layers that have a window: what they gave back is not looked for, what they still see is stored.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/synth.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

// A Gemma 3 of random weights whose windows are two to four pages long.
class ReuseWithWindows : public ::testing::TestWithParam<const char*> {
 protected:
  ReuseWithWindows() {
    std::filesystem::create_directories(folder_);
    Team team(2);
    model::write_synthetic_model(model_, model::find_synth_shape("tiny-local"), "q8_0", 1, team, [](auto, auto) {});
  }
  ~ReuseWithWindows() override { std::filesystem::remove_all(folder_); }

  // A beginning that is longer than the windows.
  static std::vector<std::int32_t> document(const text::Tokenizer& tokenizer, std::size_t from) {
    const std::vector<std::int32_t> all = tokenizer.encode(read_text_file(kSource + "/docs/results/reasons.md"));
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
    return {begin, begin + 600};
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-windows-" + std::to_string(getpid());
  const std::string model_ = folder_ + "/model.gguf";
  const std::string disk_ = "lmdb:" + folder_ + "/store?size=256MiB";
};
INSTANTIATE_TEST_SUITE_P(Codecs, ReuseWithWindows, ::testing::Values("exact", "balanced"));

TEST_P(ReuseWithWindows, RecordedConversationsKeepEveryBit) {
  Server server(GetParam(), {"ram:?size=256MiB"}, {}, model_);
  for (std::size_t c = 0; c < 2; ++c) {
    std::vector<std::int32_t> prompt = document(server.tokenizer(), 1000 * c);
    std::int64_t before = 0;
    for (const auto& turn : turns(server.tokenizer(), 10, 200 * c)) {
      append(prompt, turn);
      const Reply cached = server.ask(prompt, 6, true);
      expect_equal_bits(cached, server.ask(prompt, 6, false));
      EXPECT_GE(cached.outcome.receipt.reused_tokens, before) << prompt.size();
      before = static_cast<std::int64_t>(prompt.size());
    }
    EXPECT_GT(before, 900);
  }
}

TEST_P(ReuseWithWindows, GeneratedConversationsReuseTheWholeTurn) {
  Server server(GetParam(), {"ram:?size=256MiB"}, {}, model_);
  std::vector<std::int32_t> prompt = document(server.tokenizer(), 0);
  std::int64_t before = 0;
  for (const auto& turn : turns(server.tokenizer(), 8, 300)) {
    append(prompt, turn);
    const Reply cached = server.ask(prompt, 40, true);
    expect_equal_bits(cached, server.ask(prompt, 40, false));
    EXPECT_EQ(cached.outcome.receipt.reused_tokens, before);
    append(prompt, cached.ids());
    before = static_cast<std::int64_t>(prompt.size()) - 1;  // the last token was never fed
  }
  EXPECT_GT(before, 900);
}

TEST_P(ReuseWithWindows, ARestartFindsWhatIsOnDisk) {
  std::vector<std::int32_t> prompt;
  std::int64_t before = 0;
  for (std::size_t life = 0; life < 3; ++life) {
    Server server(GetParam(), {disk_}, {}, model_);
    append(prompt, document(server.tokenizer(), 700 * life));
    const Reply cached = server.ask(prompt, 5, true);
    expect_equal_bits(cached, server.ask(prompt, 5, false));
    EXPECT_GE(cached.outcome.receipt.reused_tokens, before);
    if (before > 0) {
      EXPECT_EQ(cached.outcome.receipt.spans.front().source, "lmdb");
    }
    before = static_cast<std::int64_t>(prompt.size());
    server.flush();
  }
  EXPECT_GT(before, 1200);
}

// Requests that run at the same time, some of which share the beginning of their prompts.
TEST_P(ReuseWithWindows, NeighboursDoNotShow) {
  Server server(GetParam(), {"ram:?size=256MiB"}, {}, model_);
  const std::vector<std::int32_t> text = document(server.tokenizer(), 0);
  std::vector<ServiceRequest> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ServiceRequest& r = requests[i];
    r.request.prompt = text;
    r.request.prompt.resize(i % 2 == 0 ? text.size() : 350 + i);
    r.request.prompt.push_back(static_cast<std::int32_t>(300 + i));
    r.request.max_tokens = 30;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
  }
  std::vector<std::shared_ptr<Waiter>> together;
  for (const ServiceRequest& r : requests) together.push_back(server.submit(r));
  std::vector<Reply> replies;
  for (const auto& waiter : together) replies.push_back(waiter->wait());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(replies[i].outcome.error, "");
    expect_equal_bits(replies[i], server.ask(requests[i].request.prompt, 30, false));
  }
}

// A document and another question behind it: windows keep the last pages only, so a prompt that parts far from the end
// of the first is found up to a tail that was left there.
TEST_P(ReuseWithWindows, ALongDocumentIsFoundByTheNextQuestion) {
  Server server(GetParam(), {"ram:?size=256MiB"}, {}, model_);
  std::vector<std::int32_t> text = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  text.resize(2400);
  std::vector<std::int64_t> reused;
  for (std::int32_t question = 0; question < 3; ++question) {
    std::vector<std::int32_t> prompt = text;
    for (int i = 0; i < 100; ++i) prompt.push_back(300 + 7 * question + i);
    const Reply cached = server.ask(prompt, 3, true);
    expect_equal_bits(cached, server.ask(prompt, 3, false));
    reused.push_back(cached.outcome.receipt.reused_tokens);
  }
  EXPECT_EQ(reused[0], 0);
  EXPECT_GE(reused[1], 1800);
  EXPECT_EQ(reused[2], 2400);
}

}  // namespace
}  // namespace kvasir::run
