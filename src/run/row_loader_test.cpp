// Rows that take time to compute: they are computed beside the steps, and nobody waits for them who does not need them.
// What the tests count is steps and calls; rows "take" as long as the test wants.
#include "run/row_loader.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;
using model::RowBlock;

// A thing that happens once, which threads wait for.
class Moment {
 public:
  void come() {
    const std::lock_guard lock(mutex_);
    here_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return here_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool here_ = false;
};

RowLoader::Block slow_block(std::byte name, std::int64_t count, RowBlock::Make make, int width = 1) {
  store::Key key;
  key.bytes[0] = name;
  return std::make_shared<const RowBlock>(key, model::RowShape{.count = count, .width = width}, std::move(make));
}

// Waits until `f` is true; it becomes so by what other threads do.
bool comes_true(const std::function<bool()>& f) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!f()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(RowLoader, ComputesOnceInTheOrderOfAsking) {
  std::vector<int> made;
  Moment go;
  const auto block = [&](int n) {
    return slow_block(std::byte(n), 2, [&made, &go, n](model::RowWatch& watch) {
      EXPECT_TRUE(go.wait());
      EXPECT_TRUE(watch.go_on(1, 2));
      made.push_back(n);
      return std::vector<float>{1.0f * static_cast<float>(n), 2};
    });
  };
  const auto a = block(1), b = block(2), c = block(3);
  std::atomic<int> changes{0};
  RowLoader loader([&] { ++changes; });
  for (const auto& wanted : {a, b, a, c, a}) loader.want(wanted);
  EXPECT_TRUE(comes_true([&] { return loader.busy(); }));
  loader.drop(c);  // it has not begun
  EXPECT_FALSE(a->ready());
  go.come();
  EXPECT_TRUE(comes_true([&] { return a->ready() && b->ready() && !loader.busy(); }));
  EXPECT_EQ(made, (std::vector{1, 2}));
  EXPECT_EQ(a->row(0)[0], 1);
  EXPECT_FALSE(c->ready());
  EXPECT_GE(changes, 4);  // in the middle and at the end of both
  for (const auto& wanted : {a, a, a, b}) loader.drop(wanted);
  EXPECT_THROW(loader.drop(a), std::logic_error);
}

TEST(RowLoader, GivesUpWhatNobodyWants) {
  Moment begun, ended;
  std::atomic<int> calls{0};
  const auto block = slow_block(std::byte{1}, 1, [&](model::RowWatch& watch) -> std::vector<float> {
    if (++calls == 2) return {7};
    begun.come();
    EXPECT_TRUE(comes_true([&] { return !watch.go_on(1, 3); }));
    ended.come();
    throw Error(Code::kCancelled, "is not wanted");
  });
  {
    RowLoader loader([] {});
    loader.want(block);
    EXPECT_TRUE(begun.wait());
    loader.drop(block);
    EXPECT_TRUE(ended.wait());
    EXPECT_FALSE(block->ready());
    loader.want(block);  // wanted after all
    EXPECT_TRUE(comes_true([&] { return block->ready(); }));
    EXPECT_EQ(block->row(0)[0], 7);
    EXPECT_EQ(loader.state(block).error, "");
    loader.drop(block);
  }
  // Its end does not wait for what is being computed.
  Moment again;
  const auto endless = slow_block(std::byte{2}, 1, [&](model::RowWatch& watch) -> std::vector<float> {
    again.come();
    EXPECT_TRUE(comes_true([&] { return !watch.go_on(0, 0); }));
    throw Error(Code::kCancelled, "is not wanted");
  });
  RowLoader loader([] {});
  loader.want(endless);
  EXPECT_TRUE(again.wait());
}

TEST(RowLoader, SaysWhyItFailed) {
  std::atomic<int> calls{0};
  const auto block = slow_block(std::byte{1}, 1, [&](model::RowWatch&) -> std::vector<float> {
    if (++calls == 1) throw Error(Code::kMemory, "no room for the tower", "picture");
    return {3};
  });
  RowLoader loader([] {});
  loader.want(block);
  EXPECT_TRUE(comes_true([&] { return !loader.state(block).error.empty(); }));
  EXPECT_EQ(loader.state(block).error, "picture: no room for the tower");
  loader.drop(block);
  loader.want(block);
  EXPECT_TRUE(comes_true([&] { return block->ready(); }));
  loader.drop(block);
}

// A request that is watched while it runs.
class Counted final : public Listener {
 public:
  void pieces(std::span<const Piece> pieces) override { tokens_ += static_cast<int>(pieces.size()); }
  void rows(const RowProgress& p) override { said_.push_back(p); }
  void done(const Outcome& outcome) override {
    outcome_ = outcome;
    done_.come();
  }
  int tokens() const { return tokens_; }
  const Outcome& wait() {
    EXPECT_TRUE(done_.wait());
    return outcome_;
  }
  const std::vector<RowProgress>& said() const { return said_; }  // behind wait()

 private:
  std::atomic<int> tokens_{0};
  std::vector<RowProgress> said_;
  Outcome outcome_;
  Moment done_;
};

class SlowRows : public ::testing::TestWithParam<bool> {
 protected:
  SlowRows()
      : server_("balanced", {"ram:?size=256MiB"}),
        words_(server_.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"))) {}

  std::vector<std::int32_t> text(std::size_t from, std::size_t count) const {
    return {words_.begin() + static_cast<std::ptrdiff_t>(from),
            words_.begin() + static_cast<std::ptrdiff_t>(from + count)};
  }
  int dim() const { return static_cast<int>(server_.model().spec().dim); }
  // The rows of some tokens, which see each other or not (the parameter), once `when` has returned.
  RowLoader::Block rows(std::size_t from, std::size_t count, const std::function<void(model::RowWatch&)>& when) {
    std::vector<float> values(count * static_cast<std::size_t>(dim()));
    for (std::size_t i = 0; i < count; ++i)
      server_.model().spec().embedding.tokens.row(words_[from + i],
                                                  values.data() + i * static_cast<std::size_t>(dim()));
    store::Key key;
    key.bytes[0] = static_cast<std::byte>(from);
    key.bytes[1] = static_cast<std::byte>(count);
    const model::RowShape shape{.count = static_cast<std::int64_t>(count),
                                .width = dim(),
                                .sight = GetParam() ? model::Sight::kAll : model::Sight::kEarlier};
    return std::make_shared<const RowBlock>(key, shape, [values, when](model::RowWatch& watch) {
      when(watch);
      return values;
    });
  }
  static ServiceRequest request(std::vector<std::int32_t> prompt, std::int32_t tokens, bool reuse = false) {
    ServiceRequest r;
    r.request.prompt = std::move(prompt);
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    return r;
  }
  static void add(ServiceRequest& r, const RowLoader::Block& block) {
    r.request.runs.push_back({std::ssize(r.request.prompt), block});
    r.request.prompt.insert(r.request.prompt.end(), block->ids().begin(), block->ids().end());
  }
  // text, the blocks with some text behind each, text.
  ServiceRequest with(const std::vector<RowLoader::Block>& blocks, bool reuse = false, std::size_t first = 40) {
    ServiceRequest r = request(text(first, 40), 8, reuse);
    for (const auto& block : blocks) {
      add(r, block);
      append(r.request.prompt, text(700, 20));
    }
    return r;
  }
  static void nothing(model::RowWatch&) {}

  Server server_;
  const std::vector<std::int32_t> words_;
};
INSTANTIATE_TEST_SUITE_P(Sight, SlowRows, ::testing::Bool());

// Ten tokens of the answer come between the beginning and the end of each picture's computing, or it would never end.
TEST_P(SlowRows, AnswersGoOnMeanwhile) {
  const auto talk = std::make_shared<Counted>();
  bool beside = true;
  const auto ten_more = [&](model::RowWatch& watch) {
    for (int part = 0; part < 3; ++part) {
      const int before = talk->tokens();
      EXPECT_TRUE(watch.go_on(part, 3));
      EXPECT_TRUE(comes_true([&] { return talk->tokens() >= before + 4; }));
      beside = beside && watch.beside_steps();
    }
  };
  const Reply alone = server_.submit(with({rows(100, 150, nothing), rows(300, 30, nothing)}))->wait();
  const Reply plain = server_.submit(request(text(0, 30), 400))->wait();
  server_.submit_to(request(text(0, 30), 400), talk);
  ASSERT_TRUE(comes_true([&] { return talk->tokens() > 0; }));
  const auto asked = with({rows(100, 150, ten_more), rows(300, 30, ten_more)});
  const auto late = std::make_shared<Counted>();
  server_.submit_to(with({rows(100, 150, ten_more), rows(300, 30, ten_more)}, false, 41), late);
  const Reply beside_it = server_.submit(asked)->wait();
  expect_equal_bits(beside_it, alone);
  EXPECT_TRUE(beside);
  EXPECT_EQ(beside_it.outcome.receipt.rows.count, 180);
  EXPECT_EQ(beside_it.outcome.receipt.rows.waited, 2);
  EXPECT_GT(beside_it.outcome.receipt.rows.wait_seconds, 0);
  EXPECT_EQ(late->wait().error, "");
  ASSERT_FALSE(late->said().empty());
  EXPECT_EQ(late->said().front().waiting, 2);
  EXPECT_EQ(late->said().front().all, 3);
  EXPECT_EQ(late->said().front().cached, 40);  // all in front of the picture
  EXPECT_EQ(talk->wait().completion_tokens, 400);
  // The answer beside it has the tokens that it has alone.
  expect_equal_bits(server_.submit(request(text(0, 30), 400))->wait(), plain);
}

TEST_P(SlowRows, AreComputedOnceForAllWhoWait) {
  int calls = 0;
  Moment go;
  const auto block = rows(100, 150, [&](model::RowWatch&) {
    ++calls;
    EXPECT_TRUE(go.wait());
  });
  // Of one beginning, of which later ones take a fork, and of another.
  std::vector<std::shared_ptr<Waiter>> all;
  for (const std::size_t first : {40, 40, 41, 41}) all.push_back(server_.submit(with({block, block}, true, first)));
  ASSERT_TRUE(comes_true([&] { return server_.stats().running == 4; }));
  go.come();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Reply reply = all[i]->wait();
    EXPECT_EQ(reply.outcome.error, "");
    expect_equal_bits(
        reply,
        server_.submit(with({rows(100, 150, nothing), rows(100, 150, nothing)}, false, i < 2 ? 40 : 41))->wait());
  }
  EXPECT_EQ(calls, 1);
  // And not at all where the cache knows what the model made of them.
  int again = 0;
  const auto same = rows(100, 150, [&](model::RowWatch&) { ++again; });
  const Reply warm = server_.submit(with({same, same}, true))->wait();
  EXPECT_EQ(again, 0);
  EXPECT_EQ(warm.outcome.receipt.rows.waited, 0);
  EXPECT_EQ(warm.outcome.receipt.rows.reused, 300);
}

TEST_P(SlowRows, NobodyComputesForWhoIsGone) {
  Moment begun, given_up;
  const auto endless = [&](model::RowWatch& watch) {
    begun.come();
    EXPECT_TRUE(comes_true([&] { return !watch.go_on(0, 9); }));
    given_up.come();
    throw Error(Code::kCancelled, "is not wanted");
  };
  const auto gone = std::make_shared<Counted>();
  const RequestId id = server_.submit_to(with({rows(100, 150, endless)}), gone);
  ASSERT_TRUE(begun.wait());
  server_.cancel(id);
  EXPECT_EQ(gone->wait().finish, Finish::kCancelled);
  EXPECT_TRUE(given_up.wait());
  EXPECT_EQ(server_.submit(with({rows(100, 150, nothing)}))->wait().outcome.error, "");
}

TEST_P(SlowRows, AFailureIsItsRequestsAlone) {
  const auto talk = std::make_shared<Counted>();
  server_.submit_to(request(text(0, 30), 300), talk);
  int calls = 0;
  const auto block = rows(100, 150, [&](model::RowWatch&) {
    if (++calls == 1) throw Error(Code::kMemory, "no room for the tower", "picture");
  });
  const Outcome failed = server_.submit(with({block}))->wait().outcome;
  EXPECT_EQ(failed.failure, Failure::kRows);
  EXPECT_EQ(failed.error, "rows of the prompt could not be computed: picture: no room for the tower");
  EXPECT_EQ(server_.submit(with({block}))->wait().outcome.error, "");  // tried again
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(talk->wait().completion_tokens, 300);
}

}  // namespace
}  // namespace kvasir::run
