// Idefics 3 and SmolVLM: a picture is a dozen runs of rows with marks between them. The same bits however a prompt is
// computed and what of it is known: pieces, company, restarts, beginnings that end between squares, drafts.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "run/reuse_fixture.hpp"
#include "tiny_model_fixture.hpp"
#include "vision/encoder.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir::run {
namespace {

using kvasir::testing::TemporaryPath;
using kvasir::testing::TinyModel;
using model::RowBlock;

struct SquarePrompt {
  std::vector<std::int32_t> ids;
  std::vector<model::RowRun> runs;
};

class Squares : public ::testing::TestWithParam<const char*> {
 protected:
  Squares() { TinyModel().write(model_.path); }
  void SetUp() override {
    if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
    encoder_ = vision::open_encoder(vision::golden("idefics3.gguf"), {.exact = true}, team_);
    start();
  }

  void start(std::int32_t chunk = 512, const std::string& tier = "ram:?size=64MiB", const DraftOptions& drafts = {}) {
    server_.reset();
    server_ = std::make_unique<testing::Server>(
        GetParam(), std::vector{tier}, store::Wrap{}, model_.path, drafts, [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs& needs) { o.ctx = 2048, o.chunk = chunk, needs.pool_tokens = 8192; });
  }
  std::string disk() const { return "lmdb:" + kept_.path + "?size=64MiB"; }

  static std::vector<std::int32_t> text(std::int32_t from, std::size_t count) {
    std::vector<std::int32_t> ids(count);
    for (std::size_t i = 0; i < count; ++i) ids[i] = (from + 7 * static_cast<std::int32_t>(i % 29)) % 256;
    return ids;
  }
  // The first squares of a picture, with their marks; all of them, and what ends it, where `squares` says nothing.
  void add(SquarePrompt& p, const std::string& file, std::optional<std::size_t> squares = {}) {
    const vision::Prepared prepared = encoder_->prepare(vision::read_picture(vision::golden("pictures/" + file)));
    std::unique_ptr<const vision::Encoding>& e = encoded_[file];
    if (!e) e = std::make_unique<const vision::Encoding>(encoder_->encode(prepared, team_));
    ASSERT_GE(e->runs.size(), 5u);
    const vision::PictureKey key = key_of(prepared, *encoder_);
    for (std::size_t r = 0; r < squares.value_or(e->runs.size()); ++r) {
      const vision::Run& run = e->runs[r];
      testing::append(p.ids, server_->tokenizer().encode(run.before));
      store::Key name;
      std::memcpy(name.bytes.data(), key.bytes.data(), name.bytes.size());
      name.bytes[0] ^= static_cast<std::byte>(r);
      const std::int64_t count = run.grid.count(), width = e->width;
      const std::vector<float> rows(e->rows.begin() + run.first * width, e->rows.begin() + (run.first + count) * width);
      const auto block =
          std::make_shared<const RowBlock>(name, model::RowShape{.count = count, .width = static_cast<int>(width)},
                                           [rows](model::RowWatch&) { return rows; });
      p.runs.push_back({std::ssize(p.ids), block});
      p.ids.insert(p.ids.end(), block->ids().begin(), block->ids().end());
      testing::append(p.ids, server_->tokenizer().encode(run.after));
    }
  }
  SquarePrompt prompt(const std::vector<std::int32_t>& before, const std::vector<std::string>& files,
                      const std::vector<std::int32_t>& behind, std::optional<std::size_t> squares = {}) {
    SquarePrompt p;
    p.ids = before;
    for (const std::string& file : files) {
      add(p, file, squares);
      p.ids.push_back(7);
    }
    testing::append(p.ids, behind);
    return p;
  }
  std::vector<SquarePrompt> prompts() {
    return {prompt(text(1, 40), {"97x53.png"}, text(5, 30)), prompt({}, {"64x64.png"}, text(9, 9)),
            prompt(text(3, 3), {"307x19.png", "40x211.png"}, text(2, 50))};
  }
  static ServiceRequest request(const SquarePrompt& p, bool reuse, std::int32_t tokens = 8) {
    ServiceRequest r;
    r.request.prompt = p.ids;
    r.request.runs = p.runs;
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    return r;
  }
  testing::Reply ask(const SquarePrompt& p, bool reuse) {
    const testing::Reply reply = server_->submit(request(p, reuse))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  static std::int64_t reused(const testing::Reply& r) { return r.outcome.receipt.reused_tokens; }

  const TemporaryPath model_{"squares.gguf"}, kept_{"squares-kept"};
  Team team_{2};
  std::unique_ptr<vision::Encoder> encoder_;
  std::map<std::string, std::unique_ptr<const vision::Encoding>> encoded_;
  std::unique_ptr<testing::Server> server_;
};
INSTANTIATE_TEST_SUITE_P(Codecs, Squares, ::testing::Values("exact", "balanced"));

TEST_P(Squares, HaveTheSameBitsHoweverTheyAreComputed) {
  const std::vector<SquarePrompt> all = prompts();
  std::vector<testing::Reply> cold;
  for (const SquarePrompt& p : all) cold.push_back(ask(p, false));
  // In pieces that end within squares and within their marks, and beside each other.
  for (const std::int32_t chunk : {512, 24}) {
    start(chunk);
    std::vector<std::shared_ptr<testing::Waiter>> waiting;
    for (const SquarePrompt& p : all) waiting.push_back(server_->submit(request(p, false)));
    for (std::size_t i = 0; i < all.size(); ++i) testing::expect_equal_bits(waiting[i]->wait(), cold[i]);
  }
  start(512, disk());
  for (std::size_t i = 0; i < all.size(); ++i) testing::expect_equal_bits(ask(all[i], true), cold[i]);
  server_->flush();
  start(512, disk());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const testing::Reply warm = ask(all[i], true);
    EXPECT_EQ(reused(warm), std::ssize(all[i].ids) - 1);
    testing::expect_equal_bits(warm, cold[i]);
  }
}

// Texts that part behind a picture, between two of its squares and in a square's mark: together, and one after the
// other, the longer one first, so that what is known is cut where the next one parts from it.
TEST_P(Squares, BeginningsThatEndBetweenThemAreShared) {
  const std::vector<std::int32_t> front = text(1, 40), question = text(5, 30), other = text(11, 30);
  std::vector<SquarePrompt> all{prompt(front, {"64x64.png"}, question), prompt(front, {"64x64.png"}, other)};
  for (const std::size_t squares : {std::size_t{3}, std::size_t{9}})
    all.push_back(prompt(front, {"64x64.png"}, other, squares));
  all.push_back(all[0]);  // and all of it again
  SquarePrompt cut = prompt(front, {"64x64.png"}, {}, 5);
  cut.ids.resize(static_cast<std::size_t>(cut.runs.back().begin - 10));
  cut.runs.pop_back();
  testing::append(cut.ids, other);
  all.push_back(cut);
  std::vector<std::shared_ptr<testing::Waiter>> waiting;
  for (const SquarePrompt& p : all) waiting.push_back(server_->submit(request(p, true)));
  std::vector<testing::Reply> together;
  for (const auto& one : waiting) together.push_back(one->wait());
  start();
  const auto end_of = [&](std::size_t squares) { return all[0].runs[squares - 1].end(); };
  const std::int64_t known[] = {0, end_of(17), end_of(3), end_of(9), std::ssize(all[0].ids) - 1, end_of(4)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const testing::Reply after = ask(all[i], true);
    EXPECT_GE(reused(after), known[i]);
    // At most the mark behind it is known besides, in bytes.
    EXPECT_LE(reused(after), i == 0 ? 0 : i == 4 ? known[4] : known[i] + 60);
    const testing::Reply alone = ask(all[i], false);
    testing::expect_equal_bits(after, alone);
    testing::expect_equal_bits(together[i], alone);
  }
}

TEST_P(Squares, OfAnotherPictureAreNeverTaken) {
  const std::vector<std::int32_t> front = text(1, 40), question = text(5, 30);
  const SquarePrompt two = prompt(front, {"64x64.png", "97x53.png"}, question),
                     turned = prompt(front, {"97x53.png", "64x64.png"}, question);
  ASSERT_EQ(two.ids.size(), turned.ids.size());
  ask(two, true);
  const testing::Reply after = ask(turned, true);
  EXPECT_LE(reused(after), turned.runs[0].begin);
  testing::expect_equal_bits(after, ask(turned, false));
  EXPECT_NE(ask(two, false).tokens.at(0).logprob, after.tokens.at(0).logprob);
}

// Drafts are taken back behind squares, also over a restart.
TEST_P(Squares, DraftsBehindThemChangeNothing) {
  SquarePrompt p = prompt(text(1, 40), {"97x53.png"}, text(1, 40));
  add(p, "64x64.png", 2);
  testing::append(p.ids, text(1, 25));
  const auto asked = [&](std::optional<std::vector<std::string>> names, bool reuse) {
    ServiceRequest r = request(p, reuse, 40);
    r.drafters = std::move(names);
    const testing::Reply reply = server_->submit(std::move(r))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  };
  const testing::Reply plain = asked({}, false);
  DraftOptions options;
  options.draft = {"lookup", "store", "model:" + model_.path};
  options.draft_always = true;
  start(512, disk(), options);
  for (const char* name : {"lookup", "store", "model"})
    for (int round = 0; round < 2; ++round) {
      SCOPED_TRACE(name);
      const testing::Reply reply = asked({{name}}, true);
      testing::expect_equal_bits(reply, plain);
      if (round == 1) {
        EXPECT_GT(reply.outcome.draft.drafted, 0);
      }
    }
  server_->flush();
  start(512, disk(), options);
  testing::expect_equal_bits(asked({}, true), plain);  // all of them
}

}  // namespace
}  // namespace kvasir::run
