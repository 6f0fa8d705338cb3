// Long contexts behind a scheduler: prompts that read choices, and pages on a disk, together with reuse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "kv/page_file_fixture.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run::testing {
namespace long_context_test {

constexpr const char* kSparse = "quest:block=16:local=64:budget=384:prompt=16";

struct Host {
  explicit Host(const EngineOptions& options, bool keeps = true) {
    engine = std::make_unique<Engine>(options, Engine::Needs{.sequences = 3, .pool_tokens = 8192, .logits = 3});
    std::vector<std::shared_ptr<store::Tier>> tiers;
    tiers.push_back(store::open_tier("ram:?size=64MiB"));
    if (keeps)
      library = std::make_unique<store::Library>(engine->cache(), store::fingerprint_of(describe_cache(*engine)),
                                                 std::move(tiers));
    scheduler = std::make_unique<Scheduler>(*engine, SchedulerOptions{.running = 3}, "test", library.get());
  }
  std::shared_ptr<Waiter> submit(const std::vector<std::int32_t>& prompt, const std::string& select) {
    ServiceRequest r;
    r.request.prompt = prompt;
    r.request.max_tokens = 6;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 1;
    r.request.select = select;
    auto waiter = std::make_shared<Waiter>();
    scheduler->submit(std::move(r), waiter);
    return waiter;
  }
  Reply ask(const std::vector<std::int32_t>& prompt, const std::string& select) {
    Reply reply = submit(prompt, select)->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  std::unique_ptr<Engine> engine;
  std::unique_ptr<store::Library> library;
  std::unique_ptr<Scheduler> scheduler;
};

EngineOptions options_of(const std::string& select) {
  EngineOptions o;
  o.model = kBooks;
  o.ctx = 3000;
  o.threads = 2;
  o.select = select;
  return o;
}

void expect_same(const Reply& a, const Reply& b, const char* what) {
  ASSERT_EQ(a.ids(), b.ids()) << what;
  for (std::size_t i = 0; i < a.tokens.size(); ++i)
    EXPECT_EQ(a.tokens[i].logprob, b.tokens[i].logprob) << what << ", token " << i;
}

std::vector<std::int32_t> some_prompt(const Engine& engine) {
  std::vector<std::int32_t> ids = engine.tokenizer()->encode(read_text_file(kSource + "/DECISIONS.md"));
  ids.resize(1300);
  return ids;
}

TEST(LongContext, AnswersOfSparsePromptsDoNotDependOnWhatIsKnown) {
  Host alone(options_of(kSparse), false), plain(options_of("quest:block=16"), false);
  const std::vector<std::int32_t> prompt = some_prompt(*alone.engine);
  const Reply sparse = alone.ask(prompt, ""), dense = alone.ask(prompt, "all");
  EXPECT_GT(sparse.outcome.receipt.selection.prompt_total().chosen, 0);
  expect_same(plain.ask(prompt, "all"), dense, "dense in a cache that keeps choices");
  const std::int64_t exact = alone.engine->cache().rules().exact_prompt(nullptr, 1300);
  EXPECT_GT(exact, 256);
  EXPECT_LT(exact, 600);
  for (const bool dense_first : {false, true}) {
    Host host(options_of(kSparse));
    if (dense_first) expect_same(host.ask(prompt, "all"), dense, "dense, first");
    for (int i = 0; i < 2; ++i) {
      const Reply again = host.ask(prompt, "");
      expect_same(again, sparse, "sparse");
      EXPECT_LE(again.outcome.receipt.reused_tokens, exact);
    }
    expect_same(host.ask(prompt, "all"), dense, "dense, behind it");
    const Reply last = host.ask(prompt, "all");
    expect_same(last, dense, "dense, again");
    EXPECT_GT(last.outcome.receipt.reused_tokens, 1000);
  }
  // At the same time, where one could take what the other has.
  Host host(options_of(kSparse));
  const auto a = host.submit(prompt, "all"), b = host.submit(prompt, ""), c = host.submit(prompt, "");
  expect_same(a->wait(), dense, "dense beside sparse");
  expect_same(b->wait(), sparse, "sparse beside dense");
  expect_same(c->wait(), sparse, "sparse beside sparse");
}

TEST(LongContext, PagesOnADiskServeReuse) {
  const std::string folder = ::testing::TempDir() + "/long-context-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  Host memory(options_of("quest:block=16:budget=384"), false);
  const std::vector<std::int32_t> prompt = some_prompt(*memory.engine);
  EngineOptions options = options_of("quest:block=16:budget=384");
  options.kv_memory = "2MiB";
  options.kv_disk = folder;
  Host disk(options);
  for (const char* select : {"", "all"}) {
    const Reply expected = memory.ask(prompt, select);
    expect_same(disk.ask(prompt, select), expected, select);
    const Reply again = disk.ask(prompt, select);
    expect_same(again, expected, select);
    EXPECT_GT(again.outcome.receipt.reused_tokens, 1000);
    const auto a = disk.submit(prompt, select), b = disk.submit(prompt, select);
    expect_same(a->wait(), expected, select);
    expect_same(b->wait(), expected, select);
  }
  EXPECT_GT(disk.scheduler->stats().disk.misses, 0u);
  std::filesystem::remove_all(folder);
}

TEST(LongContext, ADiskThatFailsEndsRequestsAndNotTheServer) {
  const std::string folder = ::testing::TempDir() + "/failing-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  EngineOptions options = options_of("all");
  options.kv_memory = "2MiB";
  options.kv_disk = folder;
  Host host(options, false);
  const std::vector<std::int32_t> prompt = some_prompt(*host.engine);
  const Reply good = host.ask(prompt, "");
  kv::fixture::cut_page_files(folder, 0);
  // What is written is written again, so only what is cut afterwards is missing.
  std::atomic<bool> stop = false;
  std::thread cutting([&] {
    while (!stop) kv::fixture::cut_page_files(folder, 0);
  });
  const Reply bad = host.submit(prompt, "")->wait();
  stop = true;
  cutting.join();
  EXPECT_NE(bad.outcome.error.find("page file"), std::string::npos) << bad.outcome.error;
  expect_same(host.ask(prompt, ""), good, "afterwards");
  std::filesystem::remove_all(folder);
}

}  // namespace long_context_test
}  // namespace kvasir::run::testing
