// Sounds: the text model of tests/golden/sound answers as transformers does, processor and all
// (tools/golden_sounds.py), and with the same bits however a prompt is computed and what of it is known.
#include <unistd.h>

#include <filesystem>

#include "run/golden_answers_fixture.hpp"
#include "run/reuse_fixture.hpp"
#include "sound/encoder.hpp"
#include "sound/golden_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;
using model::RowBlock;

struct HeardPrompt {
  std::vector<std::int32_t> ids;
  std::vector<model::RowRun> runs;
};

class Sounds : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!sound::hears("sounds/frame.wav")) GTEST_SKIP() << "SKIPPED: this build has no libsndfile";
    encoder_ = sound::open_encoder(sound::golden_sound("gemma4ua.gguf"), {.exact = true}, team_);
    ASSERT_TRUE(encoder_);
  }
  ~Sounds() override { std::filesystem::remove_all(folder_); }

  void start(const char* kv, std::int32_t chunk = 512, const std::string& tier = "ram:?size=64MiB") {
    server_.reset();
    server_ = std::make_unique<Server>(
        kv, std::vector{tier}, store::Wrap{}, sound::golden_sound("gemma4ua.text.gguf"), DraftOptions{},
        [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs& needs) {
          o.exact = true, o.ctx = 1024, o.chunk = chunk, needs.pool_tokens = 6144;
        });
  }
  std::shared_ptr<const RowBlock> block(const std::string& name) {
    const sound::Sound s = sound::heard("sounds/" + name + ".wav");
    store::Key key;
    std::memcpy(key.bytes.data(), sound::key_of(s.samples, *encoder_).bytes.data(), key.bytes.size());
    return std::make_shared<const RowBlock>(key,
                                            model::RowShape{.count = encoder_->rows_of(std::ssize(s.samples)),
                                                            .width = static_cast<int>(encoder_->width())},
                                            [this, s](model::RowWatch&) {
                                              Team own(1);
                                              return encoder_->encode(s.samples, own, [](auto, auto) {});
                                            });
  }
  HeardPrompt prompt(const nlohmann::json& items) {
    HeardPrompt p;
    for (const auto& item : items) {
      if (!item.is_string()) {
        p.ids.push_back(item);
        continue;
      }
      p.runs.push_back({std::ssize(p.ids), block(item)});
      const auto ids = p.runs.back().block->ids();
      p.ids.insert(p.ids.end(), ids.begin(), ids.end());
    }
    return p;
  }
  static ServiceRequest request(const HeardPrompt& p, bool reuse) {
    ServiceRequest r;
    r.request.prompt = p.ids;
    r.request.runs = p.runs;
    r.request.max_tokens = 8;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 64;
    r.reuse = reuse;
    return r;
  }
  Reply ask(const HeardPrompt& p, bool reuse) {
    const Reply reply = server_->submit(request(p, reuse))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  nlohmann::json golden() const {
    return parse_json(read_text_file(sound::golden_sound("gemma4ua.answers.json")), "answers")["prompts"];
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-sounds-" + std::to_string(getpid());
  Team team_{2};
  std::unique_ptr<sound::SoundEncoder> encoder_;
  std::unique_ptr<Server> server_;
};

TEST_F(Sounds, AnswersAreThoseOfTransformers) {
  start("f32");
  const std::vector<float> all = sound::golden_floats("gemma4ua.answers.f32");
  const float* want = all.data();
  for (const auto& listed : golden()) {
    const HeardPrompt p = prompt(listed["prompt"]);
    ASSERT_EQ(std::ssize(p.ids), listed["length"].get<std::int64_t>());
    const Reply reply = ask(p, false);
    EXPECT_EQ(reply.ids(), listed["ids"].get<std::vector<std::int32_t>>());
    SCOPED_TRACE(listed["prompt"].dump());
    expect_golden(reply, 64, &want);
  }
  EXPECT_EQ(want, all.data() + all.size());
}

TEST_F(Sounds, HaveTheSameBitsHoweverTheyAreComputed) {
  std::vector<HeardPrompt> prompts;
  for (const auto& listed : golden()) prompts.push_back(prompt(listed["prompt"]));
  start("balanced");
  std::vector<Reply> cold;
  for (const HeardPrompt& p : prompts) cold.push_back(ask(p, false));
  // In pieces that end within sounds, and beside each other.
  for (const std::int32_t chunk : {512, 8}) {
    start("balanced", chunk);
    std::vector<std::shared_ptr<Waiter>> all;
    for (const HeardPrompt& p : prompts) all.push_back(server_->submit(request(p, false)));
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
    // No beginning that is known ends behind fewer than eight rows (model/rows.hpp).
    std::int64_t known = std::ssize(prompts[i].ids) - 1;
    for (const model::RowRun& run : prompts[i].runs)
      if (run.block->count() < 8) known = std::min(known, run.begin);
    if (known == std::ssize(prompts[i].ids) - 1)
      EXPECT_EQ(warm.outcome.receipt.reused_tokens, known) << i;
    else
      EXPECT_LE(warm.outcome.receipt.reused_tokens, known) << i;
    expect_equal_bits(warm, cold[i]);
  }
}

TEST_F(Sounds, OfEqualLengthAreNeverTakenForEachOther) {
  start("balanced");
  const auto with = [&](const char* first, const char* second) {
    nlohmann::json items = nlohmann::json::array();
    for (int i = 0; i < 40; ++i) items.push_back(i);
    for (const char* name : {first, second}) items.push_back(name);
    for (int i = 0; i < 40; ++i) items.push_back(i + 3);
    return prompt(items);
  };
  const HeardPrompt two = with("two", "other"), turned = with("other", "two");
  ASSERT_EQ(two.ids.size(), turned.ids.size());
  ask(two, true);
  const Reply after = ask(turned, true);
  EXPECT_LE(after.outcome.receipt.reused_tokens, 40);
  const Reply alone = ask(turned, false);
  expect_equal_bits(after, alone);
  EXPECT_NE(ask(two, false).tokens.at(0).logprob, alone.tokens.at(0).logprob);
}

}  // namespace
}  // namespace kvasir::run
