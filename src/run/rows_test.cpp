// Rows of floats in place of tokens: those of tokens give what the tokens give, and what is kept of them is found by
// their content alone.
#include "model/rows.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;
using model::RowBlock;
using model::RowRun;

// A prompt that grows.
struct Written {
  std::vector<std::int32_t> ids;
  std::vector<RowRun> runs;

  Written& tokens(const std::vector<std::int32_t>& more) {
    append(ids, more);
    return *this;
  }
  Written& rows(const std::shared_ptr<const RowBlock>& block) {
    runs.push_back({static_cast<std::int64_t>(ids.size()), block});
    ids.insert(ids.end(), block->ids().begin(), block->ids().end());
    return *this;
  }
};

class Rows : public ::testing::TestWithParam<const char*> {
 protected:
  ~Rows() override { std::filesystem::remove_all(folder_); }

  std::vector<std::int32_t> text(std::size_t from, std::size_t count) const {
    static const std::string book = read_text_file(kSource + "/docs/results/reasons.md");
    const std::vector<std::int32_t> all = server_->tokenizer().encode(book);
    return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(from + count)};
  }
  std::vector<float> values(const std::vector<std::int32_t>& ids) const {
    const auto& spec = server_->model().spec();
    std::vector<float> rows(ids.size() * static_cast<std::size_t>(spec.dim));
    for (std::size_t i = 0; i < ids.size(); ++i)
      spec.embedding.tokens.row(ids[i], rows.data() + i * static_cast<std::size_t>(spec.dim));
    return rows;
  }
  // The rows of tokens, of other content where `flip` is a number to be negated.
  std::shared_ptr<const RowBlock> block(const std::vector<std::int32_t>& ids, std::int64_t flip = -1) const {
    std::vector<float> rows = values(ids);
    if (flip >= 0) rows[static_cast<std::size_t>(flip)] *= -1;
    return std::make_shared<const RowBlock>(std::move(rows), static_cast<int>(server_->model().spec().dim));
  }
  static ServiceRequest request(const Written& text, bool reuse, std::int32_t tokens = 8) {
    ServiceRequest r;
    r.request.prompt = text.ids;
    r.request.runs = text.runs;
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    return r;
  }
  Reply ask(const Written& text, bool reuse) {
    const Reply reply = server_->submit(request(text, reuse))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  void start(const std::vector<std::string>& tiers = {"ram:?size=256MiB"}, std::int32_t chunk = 0,
             const std::string& select = "all") {
    server_.reset();
    server_ = std::make_unique<Server>(
        GetParam(), tiers, store::Wrap{}, kBooks, DraftOptions{}, [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs&) {
          if (chunk > 0) o.chunk = chunk;
          o.select = select;
        });
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-rows-" + std::to_string(getpid());
  std::unique_ptr<Server> server_;
};
INSTANTIATE_TEST_SUITE_P(Codecs, Rows, ::testing::Values("exact", "balanced"));

TEST_P(Rows, OfTokensGiveWhatTheTokensGive) {
  start();
  const auto before = text(0, 70), among = text(70, 200), behind = text(270, 40);
  const Reply plain = ask(Written().tokens(before).tokens(among).tokens(behind), false);
  const Written rows = Written().tokens(before).rows(block(among)).tokens(behind);
  expect_equal_bits(ask(rows, false), plain);
  expect_equal_bits(ask(Written().rows(block(before)).rows(block(among)).rows(block(behind)), false), plain);
  // A prompt that is cut otherwise, and beside others.
  start({"ram:?size=256MiB"}, 48);
  expect_equal_bits(ask(rows, false), plain);
  std::vector<std::shared_ptr<Waiter>> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(
        server_->submit(request(i % 2 ? rows : Written().tokens(before).tokens(among).tokens(behind), false)));
  for (const auto& one : all) expect_equal_bits(one->wait(), plain);
}

TEST_P(Rows, AreReusedByTheirContent) {
  start();
  const auto before = text(0, 70), among = text(70, 200), behind = text(270, 90);
  const auto one = block(among), other = block(among, 0), late = block(among, 199 * 10);
  const auto with = [&](const auto& b) { return Written().tokens(before).rows(b).tokens(behind); };
  const Reply cold = ask(with(one), true);
  EXPECT_EQ(cold.outcome.receipt.reused_tokens, 0);
  // The same content made anew; what goes on behind it, too.
  const Written longer = with(block(among)).tokens(text(400, 30));
  EXPECT_GE(ask(with(block(among)), true).outcome.receipt.reused_tokens, 256);
  const Reply again = ask(longer, true), alone = ask(longer, false);
  EXPECT_GE(again.outcome.receipt.reused_tokens, 256);
  expect_equal_bits(again, alone);
  // Other content, be it in one number of the first row or far behind: nothing of it is taken for the first one's.
  for (const auto& b : {other, late}) {
    const Reply r = ask(with(b), true);
    EXPECT_LE(r.outcome.receipt.reused_tokens, 70);
    expect_equal_bits(r, ask(with(b), false));
  }
  // The tokens that rows were made of are others.
  EXPECT_LE(ask(Written().tokens(before).tokens(among).tokens(behind), true).outcome.receipt.reused_tokens, 70);
  // Two blocks in the other order.
  const auto two = Written().rows(one).rows(other).tokens(behind),
             turned = Written().rows(other).rows(one).tokens(behind);
  ask(two, true);
  const Reply r = ask(turned, true);
  EXPECT_EQ(r.outcome.receipt.reused_tokens, 0);
  expect_equal_bits(r, ask(turned, false));
}

TEST_P(Rows, AreFoundAfterARestart) {
  const std::vector<std::string> disk{"lmdb:" + folder_ + "?size=256MiB"};
  start(disk);
  const auto before = text(0, 70), among = text(70, 200), behind = text(270, 90);
  const Written prompt = Written().tokens(before).rows(block(among)).tokens(behind);
  const Reply cold = ask(prompt, true);
  server_->flush();
  start(disk);
  const Reply warm = ask(Written().tokens(before).rows(block(among)).tokens(behind), true);
  EXPECT_GE(warm.outcome.receipt.reused_tokens, 256);
  EXPECT_EQ(warm.outcome.receipt.spans.front().source, "lmdb");
  expect_equal_bits(warm, cold);
}

// Requests that run together share a beginning with rows, and part within them.
TEST_P(Rows, RequestsThatRunShareThem) {
  start();
  const auto before = text(0, 70), among = text(70, 300), behind = text(400, 40);
  std::vector<Written> prompts;
  for (const std::int64_t flip : {-1, -1, 0, 299 * 10})
    prompts.push_back(Written().tokens(before).rows(block(among, flip)).tokens(behind).tokens({7}));
  std::vector<std::shared_ptr<Waiter>> all;
  for (const Written& p : prompts) all.push_back(server_->submit(request(p, true)));
  for (std::size_t i = 0; i < all.size(); ++i) expect_equal_bits(all[i]->wait(), ask(prompts[i], false));
}

// Rows that see each other: no step cuts them, no beginning ends in them, and what is kept of them is whole.
TEST_P(Rows, SeeEachOther) {
  start();
  const auto before = text(0, 70), behind = text(270, 90);
  const auto seeing = [&](std::size_t from, std::size_t count, int* loaded = nullptr) {
    const std::vector<float> rows = values(text(from, count));
    store::Key name;
    name.bytes[0] = static_cast<std::byte>(from);
    name.bytes[1] = static_cast<std::byte>(count);
    return std::make_shared<const RowBlock>(name,
                                            model::RowShape{.count = static_cast<std::int64_t>(count),
                                                            .width = static_cast<int>(server_->model().spec().dim),
                                                            .sight = model::Sight::kAll},
                                            [rows, loaded](model::RowWatch&) {
                                              if (loaded) ++*loaded;
                                              return rows;
                                            });
  };
  const auto prompt = [&](int* loaded = nullptr) {
    return Written().tokens(before).rows(seeing(70, 200, loaded)).tokens(behind);
  };
  const Reply cold = ask(prompt(), false);
  const Reply causal = ask(Written().tokens(before).rows(block(text(70, 200))).tokens(behind), false);
  EXPECT_NE(cold.tokens[0].logprob, causal.tokens[0].logprob);
  ask(prompt(), true);
  // Nobody asks for rows of which all is known.
  int loaded = 0;
  const Reply warm = ask(prompt(&loaded), true);
  EXPECT_GE(warm.outcome.receipt.reused_tokens, 270);
  EXPECT_EQ(loaded, 0);
  expect_equal_bits(warm, cold);
  // Another question about the same picture; the same question about another.
  const Written other = Written().tokens(before).rows(seeing(70, 200)).tokens(text(500, 60));
  const Reply again = ask(other, true);
  EXPECT_GE(again.outcome.receipt.reused_tokens, 270);
  expect_equal_bits(again, ask(other, false));
  const Written changed = Written().tokens(before).rows(seeing(71, 200)).tokens(behind);
  const Reply cut = ask(changed, true);
  EXPECT_LE(cut.outcome.receipt.reused_tokens, 70);
  expect_equal_bits(cut, ask(changed, false));
  // A beginning that ends within the picture is none of it.
  const Written longer = Written().tokens(before).rows(seeing(70, 201)).tokens(behind);
  expect_equal_bits(ask(longer, true), ask(longer, false));
  // Steps that end elsewhere, and neighbours.
  start({"ram:?size=256MiB"}, 210);
  expect_equal_bits(ask(prompt(), false), cold);
  std::vector<std::shared_ptr<Waiter>> all;
  for (int i = 0; i < 4; ++i) all.push_back(server_->submit(request(prompt(), false)));
  for (const auto& one : all) expect_equal_bits(one->wait(), cold);
  // More than a step holds beside answers.
  start({"ram:?size=256MiB"}, 200);
  try {
    server_->submit(request(prompt(), false));
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("at 70 see each other and are 200, expected at most 196"), std::string::npos)
        << e.message();
  }
}

// Selectors choose among rows as among the tokens that they were made of, in answers and in sparse prompts, warm and
// cold; and among rows that see each other what is chosen does not depend on what was known.
TEST_P(Rows, AreChosenAsTokensAre) {
  const auto before = [&] { return text(0, 310); };
  const auto among = [&] { return text(310, 420); };
  const auto behind = [&] { return text(730, 300); };
  for (const char* select : {"quest:block=16:local=64:budget=384:prompt=16", "keys:block=16:budget=128",
                             "snapkv_window:block=16:budget=128"}) {
    start({"ram:?size=256MiB"}, 0, select);
    const Reply tokens = ask(Written().tokens(before()).tokens(among()).tokens(behind()), false);
    EXPECT_NE(tokens.outcome.receipt.select, "") << select;
    const auto prompt = [&] { return Written().tokens(before()).rows(block(among())).tokens(behind()); };
    expect_equal_bits(ask(prompt(), false), tokens);
    ask(prompt(), true);
    expect_equal_bits(ask(prompt(), true), tokens);
    store::Key name;
    const auto picture = [&] {
      return std::make_shared<const RowBlock>(name,
                                              model::RowShape{.count = std::ssize(among()),
                                                              .width = static_cast<int>(server_->model().spec().dim),
                                                              .sight = model::Sight::kAll},
                                              [rows = values(among())](model::RowWatch&) { return rows; });
    };
    const Reply cold = ask(Written().tokens(before()).rows(picture()).tokens(behind()), true),
                warm = ask(Written().tokens(before()).rows(picture()).tokens(behind()), true);
    EXPECT_GT(warm.outcome.receipt.reused_tokens, 0) << select;
    expect_equal_bits(warm, cold);
    EXPECT_NE(cold.tokens[0].logprob, tokens.tokens[0].logprob) << select;
  }
}

TEST_P(Rows, FewRowsEndWhatIsReused) {
  start();
  const auto before = text(0, 150), behind = text(270, 300);
  const auto few = block(text(200, 7));
  const Written prompt = Written().tokens(before).rows(few).tokens(behind);
  const Reply cold = ask(prompt, true), again = ask(prompt, true);
  EXPECT_LE(again.outcome.receipt.reused_tokens, 150);
  expect_equal_bits(again, cold);
}

TEST_P(Rows, WhatIsWrongIsNamed) {
  start();
  const auto some = text(0, 20);
  const auto refused = [&](const Written& w, const std::function<void(ServiceRequest&)>& adjust = {}) -> std::string {
    ServiceRequest r = request(w, true);
    if (adjust) adjust(r);
    try {
      server_->submit(std::move(r))->wait();
    } catch (const Error& e) {
      return std::string(e.context()) + ": " + e.what();
    }
    return "accepted";
  };
  Written w = Written().tokens(some).rows(block(some));
  EXPECT_EQ(refused(w), "accepted");
  w.ids[20] = 5;
  EXPECT_NE(refused(w).find("at 20 are not those that the prompt's ids name"), std::string::npos) << refused(w);
  w = Written().tokens(some).rows(block(some));
  w.runs.clear();
  EXPECT_NE(refused(w).find("token 20 is -"), std::string::npos) << refused(w);
  w = Written().rows(std::make_shared<const RowBlock>(std::vector<float>(24), 3)).tokens(some);
  EXPECT_NE(refused(w).find("have 3 numbers each, expected the model's"), std::string::npos) << refused(w);
  w = Written().rows(block(some)).tokens(some);
  w.runs.push_back(w.runs[0]);
  EXPECT_NE(refused(w).find("lie outside of the prompt or in the rows before"), std::string::npos) << refused(w);
  w = Written().rows(block(some)).tokens(some);
  EXPECT_NE(refused(w, [](ServiceRequest& r) { r.request.keep = 0; }).find("cannot be left out"), std::string::npos);
  EXPECT_NE(refused(w, [](ServiceRequest& r) { r.request.prompt_logprobs = true; }).find("log-probabilities"),
            std::string::npos);
  EXPECT_NE(refused(w, [](ServiceRequest& r) { r.drafters = {{"lookup"}}; }).find("drafters"), std::string::npos);
}

// Drafters work behind rows, each in its way: what is drawn does not change.
TEST_P(Rows, DraftsBehindThemChangeNothing) {
  start();
  const auto before = text(0, 70), among = text(70, 40), behind = text(270, 60);
  // What is behind the rows says twice what is in front of them: lookup has something to find.
  const Written prompt = Written()
                             .tokens(before)
                             .rows(block(among))
                             .tokens(behind)
                             .tokens(before)
                             .rows(block(text(400, 9)))
                             .tokens(behind);
  const auto asked = [&](std::optional<std::vector<std::string>> names, bool reuse) {
    ServiceRequest r = request(prompt, reuse, 60);
    r.drafters = std::move(names);
    const Reply reply = server_->submit(std::move(r))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  };
  const Reply plain = asked({}, false);
  const std::vector<std::string> disk{"lmdb:" + folder_ + "?size=256MiB"};
  const auto drafting = [&] {
    DraftOptions options;
    options.draft = {"lookup", "store", "model:" + kBooks};
    options.draft_always = true;
    server_.reset();
    server_ = std::make_unique<Server>(GetParam(), disk, store::Wrap{}, kBooks, options);
  };
  drafting();
  for (const char* name : {"lookup", "store", "model"}) {
    for (int round = 0; round < 2; ++round) {  // `store` knows what it saw in the first one
      const Reply reply = asked({{name}}, true);
      expect_equal_bits(reply, plain);
      if (round == 1) {
        EXPECT_GT(reply.outcome.draft.drafted, 0) << name;
        EXPECT_GT(reply.outcome.draft.accepted, 0) << name;
      }
    }
  }
  expect_equal_bits(asked({}, true), plain);  // all of them
  server_->flush();
  drafting();  // and what `store` kept is read back
  const Reply late = asked({{"store"}}, true);
  expect_equal_bits(late, plain);
  EXPECT_EQ(late.outcome.draft.message, "");
  EXPECT_GT(late.outcome.draft.accepted, 0);
}

// Ids are kept in stores: they must not change.
TEST(RowBlock, IdsAreMadeOfTheContent) {
  const RowBlock a({1, 2, 3, 4}, 2), b({1, 2, 3, 4}, 4), c({1, 2, 3, 5}, 2);
  EXPECT_EQ(a.count(), 2);
  EXPECT_EQ(b.count(), 1);
  EXPECT_EQ(std::vector<std::int32_t>(a.ids().begin(), a.ids().end()),
            (std::vector<std::int32_t>{-112790198, -363173675}));
  EXPECT_NE(a.ids()[0], b.ids()[0]);
  EXPECT_NE(a.ids()[0], c.ids()[0]);
  std::set<std::int32_t> all;
  const RowBlock many(std::vector<float>(20000), 1);
  for (const std::int32_t id : many.ids()) {
    EXPECT_LT(id, -1);
    all.insert(id);
  }
  EXPECT_GT(all.size(), 19990u);  // of 2^31
}

TEST(RowBlock, BeginningsThatAreSure) {
  const auto block = [](std::size_t n) { return std::make_shared<const RowBlock>(std::vector<float>(n), 1); };
  const std::vector<RowRun> runs{{10, block(20)}, {40, block(3)}, {50, block(20)}};
  for (const auto& [n, sure] : {std::pair<int, int>{5, 5},
                                {10, 10},
                                {11, 10},
                                {17, 10},
                                {18, 18},
                                {30, 30},
                                {40, 40},
                                {41, 40},
                                {43, 40},
                                {60, 40}})
    EXPECT_EQ(model::common_end(runs, n), sure) << n;
  EXPECT_EQ(model::common_end({}, 77), 77);
}

}  // namespace
}  // namespace kvasir::run
