// Texts with pictures at other places: their rows are read as they are, never cut, never computed or encoded again.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "model/synth.hpp"
#include "run/blend.hpp"
#include "run/reuse_fixture.hpp"
#include "tiny_model_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;
using kvasir::testing::TemporaryPath;
using kvasir::testing::TinyModel;
using model::RowBlock;
using model::RowRun;
using model::RowShape;
using Ids = std::vector<std::int32_t>;

struct Page {
  Ids ids;
  std::vector<RowRun> runs;

  Page& tokens(const Ids& more) {
    append(ids, more);
    return *this;
  }
  Page& rows(const std::shared_ptr<const RowBlock>& block) {
    runs.push_back({std::ssize(ids), block});
    ids.insert(ids.end(), block->ids().begin(), block->ids().end());
    return *this;
  }
  Page& page(const Page& more) {
    for (const RowRun& run : more.runs) runs.push_back({run.begin + std::ssize(ids), run.block});
    return tokens(more.ids);
  }
};

ServiceRequest request(const Page& page, const std::string& reuse, const std::string& strategy = "none") {
  ServiceRequest r;
  r.request.prompt = page.ids;
  r.request.runs = page.runs;
  r.request.max_tokens = 6;
  r.request.sampling.temperature = 0;
  r.request.ignore_eos = true;
  r.request.top_logprobs = 5;
  r.reuse = reuse != "off";
  r.blend.reuse = reuse == "off" ? "" : reuse;
  r.blend.strategy = strategy;
  return r;
}

Ids made_text(std::int32_t seed, std::size_t count) {
  Ids ids(count);
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (std::int32_t& id : ids) {
    state = state * 1664525u + 1013904223u;
    id = static_cast<std::int32_t>((state >> 16) % 250);
  }
  return ids;
}

// A picture of `count` rows of `width` numbers, whose encodings are counted.
struct Encoder {
  int width;
  std::atomic<int> encoded{0};

  std::shared_ptr<const RowBlock> picture(int name, std::int64_t count, model::Sight sight = model::Sight::kAll,
                                          model::Grid grid = {}) {
    store::Key key{};
    std::memcpy(key.bytes.data(), &name, sizeof name);
    const auto make = [this, name, count](model::RowWatch&) {
      ++encoded;
      std::vector<float> rows(static_cast<std::size_t>(count * width));
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = 0.05f * static_cast<float>(std::sin(0.37 * static_cast<double>(i) + name));
      return rows;
    };
    return std::make_shared<const RowBlock>(key, RowShape{.count = count, .width = width, .sight = sight, .grid = grid},
                                            make);
  }
};

TEST(BlendRows, RunsThatMoveHaveAllRowsOfAPictureOrNone) {
  Encoder encoder{4};
  const std::vector<RowRun> rows{{10, encoder.picture(0, 40)},
                                 {104, encoder.picture(1, 40)},
                                 {340, encoder.picture(2, 60)},
                                 {500, encoder.picture(3, 7)}};
  store::Moved moved;
  moved.runs = {moved_run(20, 350, 120), moved_run(420, 700, 3)};
  BlendOptions o;
  o.first_rows = 56;
  const BlendPlan plan = plan_blend(0, 800, moved, o, rows);
  ASSERT_EQ(plan.runs.size(), 1u);  // seven rows are not sure, and what lies in front of them is short
  EXPECT_EQ(plan.runs[0].begin, 50);
  EXPECT_EQ(plan.runs[0].end, 340);
  EXPECT_EQ(plan.runs[0].made_at, 150);
  EXPECT_EQ(plan.runs[0].pages, (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(plan.elements, 40);
  EXPECT_EQ(plan.repaired, 56);
  EXPECT_EQ(plan.relocated, 290 - 56);
  std::vector<std::int64_t> want;
  for (std::int64_t t = 0; t < 104; ++t) want.push_back(t);
  for (std::int64_t t = 144; t < 146; ++t) want.push_back(t);  // forced ones are tokens
  for (std::int64_t t = 340; t < 800; ++t) want.push_back(t);
  EXPECT_EQ(plan.fresh, want);
  const std::vector<RowRun> fresh = fresh_rows(plan, rows);
  ASSERT_EQ(fresh.size(), 3u);
  EXPECT_EQ(fresh[0].begin, 10);
  EXPECT_EQ(fresh[1].begin, 340 - 40 - 290 + 56 + 40);
  EXPECT_EQ(fresh[2].block, rows[3].block);
  // Rows are not compared, so they are not repaired, however many are wanted.
  BlendPlan repaired = plan;
  std::vector<float> d(290, 1.0f);
  std::fill(d.begin() + 54, d.begin() + 94, -1.0f);
  add_repairs(&repaired, d, 1.0f);
  EXPECT_EQ(repaired.relocated, 40);
  EXPECT_EQ(repaired.repaired, 250);
}

using Shape = std::tuple<const char*, const char*>;  // codecs; the model's shape, "" for the one with the repository

class BlendRowsServer : public ::testing::TestWithParam<Shape> {
 protected:
  void start(int layers = 0, std::int32_t chunk = 0) {
    std::string file = kBooks;
    if (const std::string name = std::get<1>(GetParam()); !name.empty() || layers > 0) {
      model::SynthShape shape = model::find_synth_shape(name.empty() ? "tiny" : name);
      if (layers > 0) shape.layers = layers;
      Team team(2);
      model::write_synthetic_model(model_.path, shape, "f32", 1, team, [](auto, auto) {});
      file = model_.path;
    }
    server_ = std::make_unique<Server>(
        std::get<0>(GetParam()), std::vector<std::string>{"ram:?size=512MiB"}, store::Wrap{}, file, DraftOptions{},
        [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs&) {
          o.whole_windows = true, o.exact = true;
          if (chunk > 0) o.chunk = chunk;
        },
        true);
    encoder_.width = static_cast<int>(server_->model().spec().dim);
  }
  Reply ask(const Page& page, const std::string& reuse, const std::string& strategy = "none",
            const std::string& tenant = {}) {
    ServiceRequest r = request(page, reuse, strategy);
    r.tenant = tenant;
    const Reply reply = server_->submit(std::move(r))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  std::shared_ptr<const RowBlock> of_tokens(const Ids& ids) const {
    const auto& spec = server_->model().spec();
    const auto dim = static_cast<std::size_t>(spec.dim);
    std::vector<float> rows(ids.size() * dim);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      spec.embedding.tokens.row(ids[i], rows.data() + i * dim);
      for (std::size_t j = 0; j < dim; ++j) rows[i * dim + j] *= spec.embedding.scale;
    }
    return std::make_shared<const RowBlock>(std::move(rows), spec.dim);
  }

  const TemporaryPath model_{"blend-rows.gguf"};
  Encoder encoder_{0};
  std::unique_ptr<Server> server_;
};
std::string name_of(const ::testing::TestParamInfo<Shape>& served) {
  return std::get<0>(served.param) + std::string(*std::get<1>(served.param) ? "_windows" : "_books");
}
INSTANTIATE_TEST_SUITE_P(Models, BlendRowsServer,
                         ::testing::Combine(::testing::Values("exact", "balanced"),
                                            ::testing::Values("", "tiny-local")),
                         name_of);

// Rows of tokens, at another place, give what the tokens give there.
TEST_P(BlendRowsServer, RowsOfTokensAreReadAsTheTokensAre) {
  start();
  const auto document = [&](int d, bool rows) {
    Page page;
    page.tokens(made_text(d, 150));
    rows ? page.rows(of_tokens(made_text(50 + d, 120))) : page.tokens(made_text(50 + d, 120));
    return page.tokens(made_text(90 + d, 170));
  };
  const auto prompt = [&](std::initializer_list<int> order, bool rows) {
    Page page;
    page.tokens(made_text(500, 50));
    for (const int d : order) page.page(document(d, rows));
    return page.tokens(made_text(600, 30));
  };
  for (const bool rows : {false, true}) ask(prompt({0, 1, 2, 3}, rows), "exact", "none", rows ? "rows" : "tokens");
  for (const char* strategy : {"none", "first_rows"}) {
    const Reply tokens = ask(prompt({2, 0, 3, 1}, false), "blend", strategy, "tokens"),
                rows = ask(prompt({2, 0, 3, 1}, true), "blend", strategy, "rows");
    EXPECT_EQ(rows.outcome.receipt.blend.refused, "");
    EXPECT_GT(rows.outcome.receipt.blend.relocated_tokens, 900) << strategy;
    EXPECT_EQ(rows.outcome.receipt.blend.relocated_tokens, tokens.outcome.receipt.blend.relocated_tokens);
    EXPECT_GE(rows.outcome.receipt.rows.reused, 240) << strategy;
    expect_equal_bits(rows, tokens);
  }
}

// In a model of one layer keys and values know nothing of the text in front, so what is blended is a whole prompt.
TEST_P(BlendRowsServer, PicturesThatMoveAreNotEncodedAndNewOnesAreComputedWhole) {
  start(1, 64);
  const auto see = [&](int name) { return encoder_.picture(name, 48); };
  const auto known = [&] {
    return Page()
        .tokens(made_text(1, 30))
        .rows(see(1))
        .tokens(made_text(2, 200))
        .rows(see(2))
        .tokens(made_text(3, 180));
  };
  ask(Page().tokens(made_text(7, 40)).page(known()), "exact");
  EXPECT_EQ(encoder_.encoded, 2);
  // The same text behind another one with a new picture, and another one behind.
  const auto moved = [&] {
    const Page begin = Page().tokens(made_text(8, 21)).rows(see(3)).tokens(made_text(9, 33));
    return Page(begin).page(known()).rows(see(4)).tokens(made_text(10, 25));
  };
  const Reply blended = ask(moved(), "blend");
  EXPECT_EQ(blended.outcome.receipt.blend.refused, "");
  EXPECT_GT(blended.outcome.receipt.blend.relocated_tokens, 200);
  EXPECT_GE(blended.outcome.receipt.rows.reused, 48);
  EXPECT_EQ(blended.outcome.receipt.rows.count, 4 * 48);
  EXPECT_EQ(encoder_.encoded, 2 + 4 - blended.outcome.receipt.rows.reused / 48);
  const Reply whole = ask(moved(), "off");
  ASSERT_EQ(blended.tokens.size(), whole.tokens.size());
  const double bound = std::string(std::get<0>(GetParam())) == "exact" ? 2e-4 : 0.1;
  EXPECT_EQ(blended.ids()[0], whole.ids()[0]);
  EXPECT_NEAR(blended.tokens[0].logprob, whole.tokens[0].logprob, bound);
  // Nothing of it is taken for an exact text.
  expect_equal_bits(ask(moved(), "exact"), whole);
}

TEST_P(BlendRowsServer, TokensAreComparedBehindRowsAsTheyAre) {
  start();
  const auto known = [&](int name) {
    return Page().tokens(made_text(1, 230)).rows(encoder_.picture(name, 60)).tokens(made_text(2, 330));
  };
  ask(known(1), "exact");
  const Page moved = Page().tokens(made_text(5, 40)).page(known(1)).tokens(made_text(6, 20));
  const int encoded = encoder_.encoded;
  const Reply reply = ask(moved, "blend", "blend");
  const BlendReceipt& b = reply.outcome.receipt.blend;
  ASSERT_EQ(b.refused, "");
  EXPECT_GT(b.deviation, 0);
  EXPECT_GT(b.repaired_tokens, 16);
  EXPECT_EQ(reply.outcome.receipt.rows.reused, 60);
  EXPECT_EQ(encoder_.encoded, encoded);
  // Behind a new picture, which is not encoded yet, nothing can be compared; then it can.
  const auto other = encoder_.picture(9, 50);
  const Page behind = Page().tokens(made_text(5, 40)).rows(other).page(known(1)).tokens(made_text(6, 20));
  EXPECT_EQ(ask(behind, "blend", "blend").outcome.receipt.blend.refused,
            "what is known at another place stands behind a picture that is not encoded yet");
  Page again = behind;
  again.ids[3] = again.ids[3] == 7 ? 8 : 7;
  EXPECT_EQ(ask(again, "blend", "blend").outcome.receipt.blend.refused, "");
}

// Positions of three parts are no longer the numbers of elements behind a picture, so only what stands in front of the
// first one is read elsewhere; also of what another process stored.
class BlendPlacedRows : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, BlendPlacedRows, ::testing::Bool(),
                         [](const auto& restarted) { return restarted.param ? "Restarted" : "Running"; });
TEST_P(BlendPlacedRows, NothingBehindAPictureIsTurned) {
  const TemporaryPath file("blend-placed.gguf"), kept("blend-placed-cache");
  TinyModel().see("qwen2vl").write(file.path);
  Encoder encoder{TinyModel::kDim};
  std::unique_ptr<Server> server;
  const auto start = [&] {
    server.reset();
    server = std::make_unique<Server>(
        "exact", std::vector<std::string>{"lmdb:" + kept.path + "?size=64MiB"}, store::Wrap{}, file.path,
        DraftOptions{}, [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs& needs) { o.ctx = 4096, needs.pool_tokens = 16384; });
  };
  const auto picture = [&] { return encoder.picture(1, 24, model::Sight::kEarlier, {4, 6}); };
  const auto blend = [&](const Page& page) {
    const Reply reply = server->submit(request(page, "blend"))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply.outcome.receipt.blend;
  };
  start();
  ASSERT_TRUE(server->model().spec().has_places());
  const Ids front = made_text(1, 300), back = made_text(2, 500);
  server->submit(request(Page().tokens(front).rows(picture()).tokens(back), "exact"))->wait();
  server->flush();
  if (GetParam()) start();
  const BlendReceipt both = blend(Page().tokens(made_text(12, 7)).rows(picture()).tokens(back));
  EXPECT_EQ(both.relocated_tokens, 0);
  EXPECT_NE(both.refused.find("(M-RoPE)"), std::string::npos) << both.refused;
  const BlendReceipt before = blend(Page().tokens(made_text(14, 70)).tokens(front).rows(picture()));
  EXPECT_EQ(before.refused, "");
  EXPECT_GT(before.relocated_tokens, 120);
  const BlendReceipt behind = blend(Page().tokens(made_text(10, 90)).tokens(back).tokens(made_text(20, 9)));
  EXPECT_EQ(behind.relocated_tokens, 0);
  EXPECT_NE(behind.refused.find("is known at another place"), std::string::npos) << behind.refused;
}

}  // namespace
}  // namespace kvasir::run
