// Matrices in bf16 (--arithmetic): a conversation's bits do not depend on reuse, restarts, forks or who else asks, and
// what one arithmetic stored the others do not find.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

std::function<void(EngineOptions&, Engine::Needs&)> computing_in(const std::string& arithmetic) {
  return [arithmetic](EngineOptions& o, Engine::Needs&) { o.arithmetic = arithmetic; };
}

class InBf16 : public ::testing::TestWithParam<const char*> {
 protected:
  ~InBf16() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<Server> server(const std::string& tier, const std::string& arithmetic = "bf16") const {
    return std::make_unique<Server>(
        GetParam(), std::vector<std::string>{tier}, store::Wrap{}, kBooks, DraftOptions{},
        [](std::string text) { return text; }, computing_in(arithmetic));
  }
  const std::string folder_ = ::testing::TempDir() + "kvasir-arithmetic-" + std::to_string(getpid());
  const std::string disk_ = "lmdb:" + folder_ + "?size=256MiB";
};
INSTANTIATE_TEST_SUITE_P(Codecs, InBf16, ::testing::Values("exact", "balanced"));

// Answers are in the next prompt: what was generated one by one is read again together.
TEST_P(InBf16, GeneratedConversationsReuseTheWholeTurn) {
  const auto s = server("ram:?size=256MiB");
  std::vector<std::int32_t> prompt;
  std::int64_t before = 0;
  for (const auto& turn : turns(s->tokenizer(), 5, 300)) {
    append(prompt, turn);
    const Reply cached = s->ask(prompt, 30, true);
    const Reply plain = s->ask(prompt, 30, false);
    EXPECT_EQ(cached.ids(), plain.ids());
    EXPECT_EQ(cached.outcome.receipt.reused_tokens, before);
    append(prompt, cached.ids());
    before = static_cast<std::int64_t>(prompt.size()) - 1;
  }
}

TEST_P(InBf16, ARestartFindsWhatIsOnDiskAndAnotherArithmeticDoesNot) {
  std::vector<std::int32_t> prompt;
  const auto asked = [&](const std::string& arithmetic) {
    const auto s = server(disk_, arithmetic);
    if (prompt.empty())
      for (const auto& turn : turns(s->tokenizer(), 4, 100)) append(prompt, turn);
    const Reply cached = s->ask(prompt, 5, true);
    expect_equal_bits(cached, s->ask(prompt, 5, false));
    s->flush();
    return cached.outcome.receipt.reused_tokens;
  };
  EXPECT_EQ(asked("bf16"), 0);
  EXPECT_GT(asked("bf16"), 0);
  EXPECT_EQ(asked("int8"), 0);
  EXPECT_EQ(asked("exact"), 0);
  EXPECT_GT(asked("int8"), 0);
  EXPECT_GT(asked("bf16"), 0);
}

// Several at once, of which some fork from one beginning.
TEST_P(InBf16, NeighboursDoNotShow) {
  const auto s = server("ram:?size=256MiB");
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<Reply> alone;
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<std::int32_t> prompt;
    for (const auto& turn : turns(s->tokenizer(), 3, i < 2 ? 0 : 400 * i)) append(prompt, turn);
    prompt.resize(prompt.size() - 17 * i);
    prompt.push_back(static_cast<std::int32_t>(300 + i));
    alone.push_back(s->ask(prompt, 12, false));
    prompts.push_back(std::move(prompt));
  }
  for (const bool reuse : {false, true}) {
    std::vector<std::shared_ptr<Waiter>> waiters;
    for (const auto& prompt : prompts) {
      ServiceRequest r;
      r.request.prompt = prompt;
      r.request.max_tokens = 12;
      r.request.sampling.temperature = 0;
      r.request.ignore_eos = true;
      r.request.top_logprobs = 5;
      r.reuse = reuse;
      waiters.push_back(s->submit(std::move(r)));
    }
    for (std::size_t i = 0; i < waiters.size(); ++i) expect_equal_bits(waiters[i]->wait(), alone[i]);
  }
}

TEST(Arithmetic, ContradictionsAreRefused) {
  EngineOptions o;
  o.model = kBooks;
  o.exact = true;
  o.arithmetic = "bf16";
  try {
    const Engine engine(o, {});
    FAIL() << "both were taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    EXPECT_EQ(e.context(), "--arithmetic");
  }
}

TEST(Arithmetic, ExactIsTheOptionExact) {
  const auto described = [](const std::function<void(EngineOptions&)>& set) {
    EngineOptions o;
    o.model = kBooks;
    o.ctx = 256;
    set(o);
    Engine engine(o, {});
    return describe_cache(engine);
  };
  const std::string plain = described([](EngineOptions&) {});
  const std::string exact = described([](EngineOptions& o) { o.exact = true; });
  EXPECT_EQ(described([](EngineOptions& o) { o.arithmetic = "exact"; }), exact);
  EXPECT_EQ(described([](EngineOptions& o) { o.arithmetic = "int8"; }), plain);
  const std::string bf16 = described([](EngineOptions& o) { o.arithmetic = "bf16"; });
  EXPECT_NE(bf16, plain);
  EXPECT_NE(bf16, exact);
}

}  // namespace
}  // namespace kvasir::run
