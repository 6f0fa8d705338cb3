// Pictures of models whose positions have three parts: the text models of tests/golden/vision answer as transformers
// does (tools/golden_pictures.py), and with the same bits however a prompt is computed and what of it is known.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "run/golden_answers_fixture.hpp"
#include "run/reuse_fixture.hpp"
#include "vision/encoder.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;
using model::RowBlock;

struct PlacedPrompt {
  std::vector<std::int32_t> ids;
  std::vector<model::RowRun> runs;
};

class Places : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
    encoder_ = vision::open_encoder(vision::golden(GetParam() + ".gguf"), {.exact = true}, team_);
  }
  ~Places() override { std::filesystem::remove_all(folder_); }

  void start(const char* kv, std::int32_t chunk = 512, const std::string& tier = "ram:?size=64MiB") {
    server_.reset();
    server_ = std::make_unique<Server>(
        kv, std::vector{tier}, store::Wrap{}, vision::golden(GetParam() + ".text.gguf"), DraftOptions{},
        [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs& needs) {
          o.exact = true, o.ctx = 1024, o.chunk = chunk, needs.pool_tokens = 6144;
        });
  }

  // The same rows with other places, or without any.
  std::shared_ptr<const RowBlock> picture(const std::string& file, std::optional<model::Grid> grid = {}) {
    std::unique_ptr<const vision::Encoding>& e = encoded_[file];
    const auto prepared = encoder_->prepare(vision::read_picture(vision::golden("pictures/" + file)));
    if (!e) e = std::make_unique<const vision::Encoding>(encoder_->encode(prepared, team_));
    std::vector<float> values = e->rows;
    for (const std::vector<float>& rows : e->deep) values.insert(values.end(), rows.begin(), rows.end());
    EXPECT_TRUE(e->runs.at(0).places);
    const vision::Grid own = e->runs.at(0).grid;
    store::Key name;
    std::memcpy(name.bytes.data(), key_of(prepared, *encoder_).bytes.data(), name.bytes.size());
    return std::make_shared<const RowBlock>(name,
                                            model::RowShape{.count = own.count(),
                                                            .width = static_cast<int>(e->width),
                                                            .grid = grid.value_or(model::Grid{own.h, own.w}),
                                                            .deep = encoder_->deep()},
                                            [values](model::RowWatch&) { return values; });
  }
  static PlacedPrompt& add(PlacedPrompt& p, const std::shared_ptr<const RowBlock>& block) {
    p.runs.push_back({std::ssize(p.ids), block});
    p.ids.insert(p.ids.end(), block->ids().begin(), block->ids().end());
    return p;
  }
  PlacedPrompt prompt(const nlohmann::json& items) {
    PlacedPrompt p;
    for (const auto& item : items) {
      if (item.is_string())
        add(p, picture(item));
      else
        p.ids.push_back(item);
    }
    return p;
  }
  static ServiceRequest request(const PlacedPrompt& p, bool reuse, std::int32_t tokens = 8) {
    ServiceRequest r;
    r.request.prompt = p.ids;
    r.request.runs = p.runs;
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 64;
    r.reuse = reuse;
    return r;
  }
  Reply ask(const PlacedPrompt& p, bool reuse) {
    const Reply reply = server_->submit(request(p, reuse))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  std::vector<PlacedPrompt> golden_prompts() {
    const nlohmann::json listed = vision::golden_json(GetParam() + ".answers.json");
    std::vector<PlacedPrompt> all;
    for (const auto& p : listed["prompts"]) all.push_back(prompt(p["prompt"]));
    return all;
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-places-" + std::to_string(getpid());
  Team team_{2};
  std::unique_ptr<vision::Encoder> encoder_;
  std::map<std::string, std::unique_ptr<const vision::Encoding>> encoded_;
  std::unique_ptr<Server> server_;
};
INSTANTIATE_TEST_SUITE_P(Models, Places, ::testing::Values("qwen2vl_merger", "qwen2_5vl_merger", "qwen3vl_merger"));

TEST_P(Places, AnswersAreThoseOfTransformers) {
  start("f32");
  const std::vector<std::byte> bytes = vision::golden_bytes(GetParam() + ".answers.f32");
  const auto* want = reinterpret_cast<const float*>(bytes.data());
  const nlohmann::json listed = vision::golden_json(GetParam() + ".answers.json")["prompts"];
  const std::vector<PlacedPrompt> prompts = golden_prompts();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Reply reply = ask(prompts[i], false);
    EXPECT_EQ(reply.ids(), listed[i]["ids"].get<std::vector<std::int32_t>>());
    SCOPED_TRACE("prompt " + std::to_string(i));
    expect_golden(reply, 64, &want);
  }
  EXPECT_EQ(reinterpret_cast<const std::byte*>(want), bytes.data() + bytes.size());
}

TEST_P(Places, HaveTheSameBitsHoweverTheyAreComputed) {
  start("balanced");
  const std::vector<PlacedPrompt> prompts = golden_prompts();
  std::vector<Reply> cold;
  for (const PlacedPrompt& p : prompts) cold.push_back(ask(p, false));
  // In pieces that end within pictures, and beside each other.
  for (const std::int32_t chunk : {512, 24}) {
    start("balanced", chunk);
    std::vector<std::shared_ptr<Waiter>> all;
    for (const PlacedPrompt& p : prompts) all.push_back(server_->submit(request(p, false)));
    for (std::size_t i = 0; i < all.size(); ++i) expect_equal_bits(all[i]->wait(), cold[i]);
  }
  // From what is known of them: all of it, and after a restart.
  const std::string disk = "lmdb:" + folder_ + "?size=64MiB";
  start("balanced", 512, disk);
  for (std::size_t i = 0; i < prompts.size(); ++i) expect_equal_bits(ask(prompts[i], true), cold[i]);
  server_->flush();
  start("balanced", 512, disk);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Reply warm = ask(prompts[i], true);
    EXPECT_EQ(warm.outcome.receipt.reused_tokens, std::ssize(prompts[i].ids) - 1);
    expect_equal_bits(warm, cold[i]);
  }
}

// Texts that part behind pictures, between them and within one, together and one after the other.
TEST_P(Places, BeginningsAreShared) {
  start("balanced");
  const auto with = [&](const char* last, std::initializer_list<std::int32_t> question) {
    PlacedPrompt p;
    for (std::int32_t i = 0; i < 40; ++i) p.ids.push_back(i);
    add(p, picture("97x53.png")).ids.push_back(7);
    add(p, picture(last));
    p.ids.insert(p.ids.end(), question);
    return p;
  };
  const std::vector<PlacedPrompt> prompts{with("64x64.png", {1, 2, 3, 4}), with("64x64.png", {5, 6}),
                                          with("307x19.png", {1, 2, 3, 4}), with("40x211.png", {5, 6})};
  std::vector<std::shared_ptr<Waiter>> all;
  for (const PlacedPrompt& p : prompts) all.push_back(server_->submit(request(p, true)));
  std::vector<Reply> together;
  for (const auto& one : all) together.push_back(one->wait());
  start("balanced");
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Reply after = ask(prompts[i], true);
    const std::int64_t known[] = {0, prompts[0].runs[1].end(), prompts[0].runs[0].end(), prompts[0].runs[0].end()};
    EXPECT_GE(after.outcome.receipt.reused_tokens, known[i]) << i;
    const Reply alone = ask(prompts[i], false);
    expect_equal_bits(after, alone);
    expect_equal_bits(together[i], alone);
  }
}

TEST_P(Places, ThatDifferMakeAnotherPicture) {
  start("balanced");
  const auto with = [&](std::optional<model::Grid> grid) {
    PlacedPrompt p;
    for (std::int32_t i = 0; i < 40; ++i) p.ids.push_back(i);
    add(p, picture("97x53.png", grid));
    for (std::int32_t i = 0; i < 40; ++i) p.ids.push_back(i + 3);
    return p;
  };
  std::set<float> answers;
  // As it is, turned, in one line (which stands where tokens would, but for time), nowhere.
  for (const std::optional<model::Grid>& grid :
       std::initializer_list<std::optional<model::Grid>>{{}, model::Grid{12, 7}, model::Grid{1, 84}, model::Grid{}}) {
    const Reply r = ask(with(grid), true);
    EXPECT_LE(r.outcome.receipt.reused_tokens, 40);
    expect_equal_bits(r, ask(with(grid), false));
    answers.insert(r.tokens.at(0).logprob);
  }
  EXPECT_EQ(answers.size(), 4u);
}

TEST_P(Places, AreRefusedWhereTheModelHasNone) {
  start("f32");
  PlacedPrompt p;
  add(p, picture("97x53.png"));
  const auto refused = [](Server& server, const PlacedPrompt& prompt) -> std::string {
    try {
      server.submit(request(prompt, false))->wait();
    } catch (const Error& e) {
      return std::string(e.context()) + " " + e.message();
    }
    return "accepted";
  };
  EXPECT_EQ(refused(*server_, p), "accepted");
  const int deep = encoder_->deep() + 1, dim = static_cast<int>(server_->model().spec().dim);
  PlacedPrompt q;
  add(q, std::make_shared<const RowBlock>(store::Key{}, model::RowShape{.count = 9, .width = dim, .deep = deep},
                                          [](model::RowWatch&) { return std::vector<float>(); }));
  EXPECT_EQ(refused(*server_, q),
            fmt::format("rows at 0 have rows for {} layers, expected at most the model's {}", deep, encoder_->deep()));
  Server books("f32", {"ram:?size=16MiB"});
  const int wide = static_cast<int>(books.model().spec().dim);
  PlacedPrompt flat;
  add(flat, std::make_shared<const RowBlock>(store::Key{}, model::RowShape{.count = 9, .width = wide, .grid = {3, 3}},
                                             [](model::RowWatch&) { return std::vector<float>(); }));
  EXPECT_EQ(refused(books, flat),
            "rows at 0 lie in a plane, and the model's positions have one part, not three (M-RoPE)");
}

}  // namespace
}  // namespace kvasir::run
