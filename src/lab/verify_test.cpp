#include "lab/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "base/error.hpp"

namespace kvasir::lab {
namespace {

using Tokens = std::vector<run::TokenRecord>;

// Answers as a function says, at once; reuses all but the last token where it may and has seen the prompt.
class Fake final : public run::Service {
 public:
  // moved: prompts that are not to be answered, only to be known.
  explicit Fake(std::function<Tokens(const run::ServiceRequest&, bool seen)> answer,
                std::vector<std::vector<std::int32_t>> moved = {})
      : answer_(std::move(answer)), moved_(std::move(moved)) {}

  const run::ModelCard& card() const override { return card_; }
  const text::Tokenizer* tokenizer() const override { return nullptr; }
  run::RequestId submit(run::ServiceRequest request, std::shared_ptr<run::Listener> listener) override {
    bool seen = false;
    if (request.reuse) {
      seen = std::count(seen_.begin(), seen_.end(), request.request.prompt) > 0;
      seen_.push_back(request.request.prompt);
    }
    EXPECT_EQ(request.request.sampling.temperature, 0);
    if (std::count(moved_.begin(), moved_.end(), request.request.prompt) > 0) {
      EXPECT_EQ(request.blend.reuse, "exact");
      EXPECT_TRUE(request.reuse);
      known_ = true;
    } else {
      EXPECT_EQ(request.request.max_tokens, 4);
    }
    const bool blends = request.reuse && request.blend.reuse == "blend";
    for (const run::TokenRecord& token : answer_(request, seen)) {
      const run::Piece piece{token, ""};
      listener->pieces({&piece, 1});
    }
    run::Outcome outcome;
    outcome.prompt_tokens = static_cast<std::int64_t>(request.request.prompt.size());
    outcome.receipt.reused_tokens = seen && !blends ? outcome.prompt_tokens - 1 : 0;
    if (blends && known_) outcome.receipt.blend = {.asked = true, .relocated_tokens = 2, .repaired_tokens = 1};
    listener->done(outcome);
    return 1;
  }
  void cancel(run::RequestId) override {}
  bool unpin(const run::ServiceRequest&) override { return false; }
  bool drain(double) override { return true; }
  run::ServiceStats stats() const override { return {}; }

 private:
  std::function<Tokens(const run::ServiceRequest&, bool)> answer_;
  const std::vector<std::vector<std::int32_t>> moved_;
  std::vector<std::vector<std::int32_t>> seen_;
  bool known_ = false;
  run::ModelCard card_;
};

std::vector<VerifyRow> rows_of(const std::function<Tokens(const run::ServiceRequest&, bool)>& answer) {
  Fake fake(answer);
  std::vector<run::ServiceRequest> requests(2);
  requests[0].request.prompt = {1, 2, 3};
  requests[1].request.prompt = {4, 5};
  return verify(fake, std::move(requests), 4, [](std::size_t done, std::size_t total) { return done < total; });
}

TEST(Verify, EqualAnswers) {
  const auto rows = rows_of([](const run::ServiceRequest& r, bool) {
    return Tokens{{r.request.prompt[0], -0.5f, {}}, {9, -1, {}}};
  });
  ASSERT_EQ(rows.size(), 2u);
  for (const VerifyRow& row : rows) EXPECT_TRUE(row.same(0));
  EXPECT_EQ(rows[0].prompt_tokens, 3);
  EXPECT_EQ(rows[0].reused_first, 0);
  EXPECT_EQ(rows[0].reused_again, 2);
  EXPECT_EQ(rows[1].reused_again, 1);
}

TEST(Verify, DifferencesAreFound) {
  const auto other = rows_of([](const run::ServiceRequest& r, bool seen) {
    return Tokens{{9, -1, {}}, {seen && r.request.prompt[0] == 4 ? 7 : 8, -1, {}}};
  });
  EXPECT_TRUE(other[0].same(0));
  EXPECT_FALSE(other[1].same(10));
  EXPECT_EQ(other[1].differs_at, 1);
  const auto shorter = rows_of([](const run::ServiceRequest&, bool seen) { return Tokens(seen ? 1 : 2, {9, -1, {}}); });
  EXPECT_EQ(shorter[0].differs_at, 1);
  const auto near = rows_of([](const run::ServiceRequest& r, bool) { return Tokens{{9, r.reuse ? -1.25f : -1, {}}}; });
  EXPECT_EQ(near[0].differs_at, -1);
  EXPECT_EQ(near[0].difference, 0.25);
  EXPECT_FALSE(near[0].same(0.2));
  EXPECT_TRUE(near[0].same(0.25));
  const auto nan = rows_of([](const run::ServiceRequest& r, bool) {
    return Tokens{{9, r.reuse ? std::numeric_limits<float>::quiet_NaN() : -1, {}}};
  });
  EXPECT_FALSE(nan[0].same(10));
}

// One prompt of five tokens, whose answer is two tokens; `blended` is what it is when it is blended.
VerifyRow blended_row(const Tokens& blended) {
  Fake fake(
      [&](const run::ServiceRequest& r, bool) {
        return r.reuse ? blended : Tokens{{7, -1, {}}, {8, -1, {}}};
      },
      {{1, 4, 5, 2, 3}});
  std::vector<run::ServiceRequest> requests(1);
  requests[0].request.prompt = {1, 2, 3, 4, 5};
  const auto rows = verify_blend(fake, std::move(requests), 4, [](std::size_t, std::size_t) { return true; });
  EXPECT_EQ(rows.size(), 1u);
  return rows.at(0);
}

TEST(Verify, BlendedAnswersMayDifferByATolerance) {
  const VerifyRow equal = blended_row({{7, -1.25f, {}}, {8, -1, {}}});
  EXPECT_EQ(equal.differs_at, -1);
  EXPECT_EQ(equal.difference, 0.25);
  EXPECT_EQ(equal.relocated, 2);
  EXPECT_EQ(equal.repaired, 1);
  EXPECT_FALSE(equal.same(0.2));
  EXPECT_TRUE(equal.same(0.25));
  // Another token: how likely the first answer's still is decides, and nothing behind it is compared.
  const VerifyRow near = blended_row({{9, -1, {{9, -1}, {7, -1.5f}}}, {3, -100, {}}});
  EXPECT_EQ(near.differs_at, 0);
  EXPECT_EQ(near.difference, 0.5);
  EXPECT_TRUE(near.same(0.5));
  EXPECT_FALSE(near.same(0.4));
  const VerifyRow far = blended_row({{7, -1, {}}, {9, -1, {{9, -1}}}});
  EXPECT_EQ(far.differs_at, 1);
  EXPECT_FALSE(far.same(10));
}

TEST(Verify, MayBeStopped) {
  Fake fake([](const run::ServiceRequest&, bool) { return Tokens{{9, -1, {}}}; });
  std::vector<run::ServiceRequest> requests(1);
  requests[0].request.prompt = {1};
  EXPECT_THROW(verify(fake, requests, 4, [](std::size_t done, std::size_t) { return done < 2; }), Error);
}

}  // namespace
}  // namespace kvasir::lab
