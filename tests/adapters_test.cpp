// Adapters: logits beside those of PEFT, the bits that chunks, batches, threads and streams must not change, keys of
// the cache, and files that are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "golden_folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "run/encoder.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using kvasir::testing::relative_error;
using kvasir::testing::TemporaryPath;
using kvasir::testing::write_bytes;

const std::string kBase = "llama+bias";
const std::string kHere = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/";
const std::string kGguf = kHere + "converted/" + kBase + ".gguf";
const std::string kAll = kHere + "adapters/all", kSome = kHere + "adapters/some";

std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = read_text_file(path);
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

class AdapterTest : public ::testing::Test {
 protected:
  AdapterTest() : golden_(kvasir::testing::golden_folder(kBase)), folder_("adapters-base") {
    kvasir::testing::write_folder(folder_.path, golden_.config, golden_.tensors);
  }

  EngineOptions options(const std::string& model, std::vector<std::string> lora, bool exact = true) const {
    EngineOptions o;
    o.model = model;
    o.lora = std::move(lora);
    o.exact = exact;
    o.threads = 2;
    return o;
  }

  // Logits of the golden tokens, in chunks.
  std::vector<float> run(const EngineOptions& o) const {
    Engine engine(o, {.sequences = 2, .logits = static_cast<int>(golden_.ids.size())});
    std::vector<float> all;
    kv::Sequence* const s = engine.cache().create();
    for (std::size_t i = 0; i < golden_.ids.size(); i += static_cast<std::size_t>(o.chunk)) {
      const std::size_t n = std::min(golden_.ids.size() - i, static_cast<std::size_t>(o.chunk));
      const auto rows = engine.feed(s, std::span(golden_.ids).subspan(i, n), static_cast<int>(n));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }

  kvasir::testing::GoldenFolder golden_;
  TemporaryPath folder_;
};

TEST_F(AdapterTest, AgreeWithPeft) {
  struct Case {
    const char* name;
    std::string model;
    std::vector<std::string> lora;
    const char* logits;
  };
  const Case cases[] = {{"folder, PEFT", folder_.path, {kAll}, "all"},
                        {"folder, GGUF", folder_.path, {kAll + ".gguf"}, "all"},
                        {"GGUF, PEFT", kGguf, {kAll}, "all"},
                        {"GGUF, GGUF", kGguf, {kAll + ".gguf"}, "all"},
                        {"two, the second by half", kGguf, {kAll + ".gguf", kSome + "=0.5"}, "both"},
                        {"the same the other way round", folder_.path, {kSome + "=0.5", kAll + "=1"}, "both"},
                        {"in two halves", kGguf, {kAll + "=0.5", kAll + ".gguf=0.5"}, "all"}};
  const std::vector<float> plain = golden_.logits;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::vector<float> want = floats_of(kHere + "adapters/" + c.logits + ".logits.f32");
    ASSERT_GT(relative_error(plain, want), 0.05);  // the adapter does something
    const double error = relative_error(run(options(c.model, c.lora)), want);
    const double used = relative_error(run(options(c.model, c.lora, false)), want);
    std::printf("%-30s exact %.2e, as used %.2e\n", c.name, error, used);
    EXPECT_LE(error, 1e-4);
    EXPECT_LE(used, 0.05);
  }
}

TEST_F(AdapterTest, OfScaleNoughtChangeNothing) {
  EXPECT_EQ(run(options(kGguf, {kAll + "=0"}, false)), run(options(kGguf, {}, false)));
}

// Law 1, with weights of 8 bits: one token at a time, in chunks, by more threads, with weights that are read or mapped.
TEST_F(AdapterTest, BitsAreThoseOfTheTokens) {
  EngineOptions o = options(kGguf, {kAll, kSome}, false);
  o.weights = "q8_0";
  const std::vector<float> want = run(o);
  for (const auto& [chunk, threads] : {std::pair{1, 1}, {7, 2}, {48, 3}, {48, 1}}) {
    SCOPED_TRACE(std::to_string(chunk) + " tokens, " + std::to_string(threads) + " threads");
    EngineOptions other = o;
    other.chunk = chunk;
    other.threads = threads;
    EXPECT_EQ(run(other), want);
  }
  const TemporaryPath packed("adapters-packed");
  for (const char* mode : {"full_stream", "ffn_only_stream", "mapped"}) {
    SCOPED_TRACE(mode);
    EngineOptions other = o;
    other.weights_mode = mode;
    other.weights_file = packed.path;
    EXPECT_EQ(run(other), want);
  }
}

TEST_F(AdapterTest, BatchesForksAndCutsHaveTheBitsOfOne) {
  Engine engine(options(kGguf, {kAll, kSome}, false), {.sequences = 3, .logits = 4});
  kv::Cache& cache = engine.cache();
  const auto decode = [&](kv::Sequence* s, std::int32_t id) {
    const auto row = engine.decode(s, id);
    return std::vector<float>(row.begin(), row.end());
  };
  kv::Sequence* const s = cache.create();
  engine.feed(s, golden_.ids, 1);
  kv::Sequence* const fork = cache.fork(*s);
  const std::vector<float> alone = decode(fork, 5), next = decode(fork, 6);
  cache.truncate(fork, kv::Cache::length(*fork) - 2);
  const std::int32_t five = 5, nine = 9;
  const model::Input both[] = {{.sequence = s, .tokens = {&nine, 1}, .decode = true},
                               {.sequence = fork, .tokens = {&five, 1}, .decode = true}};
  const auto rows = engine.forward().step(both);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), rows.end() - static_cast<std::ptrdiff_t>(alone.size())));
  EXPECT_EQ(decode(fork, 6), next);
}

// The store: with the adapter they have its bits, and what was kept without it, or
// with another scale, is never found.
TEST_F(AdapterTest, KeepTheCacheApart) {
  const TemporaryPath kept("adapters-kept");
  std::filesystem::create_directory(kept.path);
  const std::vector<std::string> tiers = {"lmdb:" + kept.path};
  const std::vector<std::int32_t> ids = [&] {
    std::vector<std::int32_t> long_enough;
    while (long_enough.size() < 300) long_enough.insert(long_enough.end(), golden_.ids.begin(), golden_.ids.end());
    return long_enough;
  }();
  const auto answer = [&](std::vector<std::string> lora, const std::vector<std::string>& with) {
    testing::Server server(
        "", with, {}, kGguf, {}, [](std::string text) { return text; },
        [&](EngineOptions& o, Engine::Needs&) {
          o.lora = lora;
          o.ctx = 400;
        });
    const testing::Reply reply = server.ask(ids, 12, true);
    server.flush();
    return std::pair{reply.ids(), reply.outcome.receipt.reused_tokens};
  };
  const auto with = answer({kAll}, tiers), without = answer({}, tiers), half = answer({kAll + "=0.5"}, tiers);
  EXPECT_EQ(with.second, 0);
  EXPECT_EQ(without.second, 0);
  EXPECT_EQ(half.second, 0);
  EXPECT_NE(with.first, without.first);
  const auto again = answer({kAll}, tiers);
  EXPECT_GE(again.second, 256);
  EXPECT_EQ(again.first, with.first);
  EXPECT_EQ(answer({kAll}, {}).first, with.first);
}

// Rows with scales of their own have the logits of models with those adapters alone, and the same bits in any company.
TEST_F(AdapterTest, AreChosenRowByRow) {
  for (const bool exact : {true, false}) {
    SCOPED_TRACE(exact);
    Engine engine(options(kGguf, {kAll, kSome + "=0"}, exact),
                  {.sequences = 4, .logits = 4 * static_cast<int>(golden_.ids.size())});
    kv::Cache& cache = engine.cache();
    using Scales = std::vector<float>;
    const std::vector<Scales> all = {{1, 0}, {1, 0.5f}, {0, 0}, {}};
    const auto n = static_cast<int>(golden_.ids.size());
    const auto inputs = [&](std::span<const Scales> of) {
      std::vector<model::Input> list;
      for (const Scales& s : of)
        list.push_back({.sequence = cache.create(), .tokens = golden_.ids, .logits = n, .adapters = s});
      return list;
    };
    const auto together = inputs(all);
    const auto rows = engine.forward().step(together);
    const std::vector<float> logits(rows.begin(), rows.end());
    const std::size_t each = logits.size() / all.size();
    for (const model::Input& in : together) cache.release(in.sequence);
    const std::string golden[] = {"all", "both", "", "all"};
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<float> own(logits.begin() + static_cast<std::ptrdiff_t>(i * each),
                                   logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
      const std::vector<float> want =
          golden[i].empty() ? golden_.logits : floats_of(kHere + "adapters/" + golden[i] + ".logits.f32");
      EXPECT_LE(relative_error(own, want), exact ? 1e-4 : 0.05);
      const auto alone = inputs(std::span(all).subspan(i, 1));
      const auto again = engine.forward().step(alone);
      EXPECT_TRUE(std::equal(own.begin(), own.end(), again.begin(), again.end()));
      cache.release(alone[0].sequence);
    }
  }
}

// A server's requests choose: alone, together, in later turns, from another process, with text that moved.
TEST_F(AdapterTest, AreChosenByRequests) {
  const TemporaryPath kept("adapters-chosen");
  std::filesystem::create_directory(kept.path);
  std::vector<std::int32_t> ids;
  while (ids.size() < 300) ids.insert(ids.end(), golden_.ids.begin(), golden_.ids.end());
  const std::vector<std::string> disk = {"lmdb:" + kept.path};
  const auto serve = [&](std::vector<std::string> lora, const std::vector<std::string>& tiers) {
    return std::make_unique<testing::Server>(
        "", tiers, store::Wrap{}, kGguf, DraftOptions{}, [](std::string text) { return text; },
        [&](EngineOptions& o, Engine::Needs&) {
          o.lora = lora;
          o.ctx = 400;
        });
  };
  const auto asked = [&](const std::string& lora, bool reuse) {
    ServiceRequest r;
    r.request.prompt = ids;
    r.request.max_tokens = 12;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 3;
    r.request.lora = lora;
    r.reuse = reuse;
    return r;
  };
  const auto bits = [](const testing::Reply& reply) {
    std::vector<std::pair<std::int32_t, float>> list;
    for (const TokenRecord& t : reply.tokens) list.emplace_back(t.id, t.logprob);
    return list;
  };
  const std::vector<std::string> choices = {"", "all", "some=0.5", "all=0.25,some", "none", "1=0.5", "some=0.5"};
  std::vector<std::vector<std::pair<std::int32_t, float>>> alone;
  {
    const auto server = serve({kAll, kSome + "=0"}, disk);
    for (const std::string& c : choices) alone.push_back(bits(server->submit(asked(c, false))->wait()));
    EXPECT_EQ(alone[0], alone[1]) << "the engine's own scales";
    EXPECT_EQ(alone[2], alone[5]) << "by its number";
    for (const auto& [a, b] : {std::pair{0, 2}, {0, 3}, {0, 4}, {2, 3}, {2, 4}})
      EXPECT_NE(alone[static_cast<std::size_t>(a)], alone[static_cast<std::size_t>(b)])
          << choices[static_cast<std::size_t>(a)] << " and " << choices[static_cast<std::size_t>(b)];
    std::vector<std::shared_ptr<testing::Waiter>> together;
    for (const std::string& c : choices) together.push_back(server->submit(asked(c, true)));
    for (std::size_t i = 0; i < choices.size(); ++i) EXPECT_EQ(bits(together[i]->wait()), alone[i]) << choices[i];
    server->flush();
  }
  const auto server = serve({kAll, kSome + "=0"}, disk);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const testing::Reply reply = server->submit(asked(choices[i], true))->wait();
    EXPECT_EQ(bits(reply), alone[i]) << choices[i];
    EXPECT_GE(reply.outcome.receipt.reused_tokens, 256) << choices[i];
  }
  EXPECT_EQ(server->submit(asked("some=0.75", true))->wait().outcome.receipt.reused_tokens, 0);
  // What is refused names what there is.
  const auto refused = [&](const std::string& lora) {
    try {
      server->submit(asked(lora, true))->wait();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(refused("other").find("'other' is none of the adapters, which are 'all', 'some'"), std::string::npos);
  EXPECT_NE(refused("2").find("'2' is none"), std::string::npos);
  EXPECT_NE(refused("some,some").find("names 'some' twice"), std::string::npos);
  EXPECT_NE(refused("some=1e99").find("expected a finite scale"), std::string::npos);
  // What was pinned with an adapter is unpinned with it.
  const auto pins = serve({kAll, kSome + "=0"}, {"ram:?size=64MiB"});
  ServiceRequest pinned = asked("some=0.5", true);
  pinned.request.max_tokens = 0;
  pinned.pin = true;
  pins->submit(pinned)->wait();
  pins->flush();
  EXPECT_GT(pins->pinned_bytes(), 0u);
  EXPECT_FALSE(pins->unpin(ids));
  EXPECT_TRUE(pins->unpin(pinned));
  const auto plain = serve({}, {});
  EXPECT_EQ(bits(plain->submit(asked("none", true))->wait()), bits(plain->submit(asked("", true))->wait()));
  EXPECT_THROW(plain->submit(asked("all", true)), Error);
}

TEST_F(AdapterTest, RefuseByName) {
  const auto says = [&](const std::string& model, const std::string& adapter) {
    try {
      Engine engine(options(model, {adapter}), {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto expect = [&](const std::string& adapter, const std::string& part, const std::string& model = kGguf) {
    SCOPED_TRACE(part);
    EXPECT_NE(says(model, adapter).find(part), std::string::npos) << says(model, adapter);
  };
  expect(kGguf, "general.type is 'model', expected 'adapter'");
  expect("/nowhere/lora.gguf", "/nowhere/lora.gguf");
  expect(kAll + ".gguf", "is for models of architecture 'llama', and this one is 'gemma'", kHere + "gemma.gguf");
  expect(kAll + ".gguf", "the adapter is for", kHere + "llama.gguf");
  expect(kHere + "adapters", "adapter_config.json");

  EXPECT_THROW(
      try { Encoder(options(kHere + "encoders/bert.gguf", {kAll + ".gguf"}), "test", 1); } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("and this one is 'bert'"), std::string::npos) << e.what();
        throw;
      },
      Error);

  // Settings of PEFT's that change what is computed.
  const TemporaryPath changed("adapters-changed");
  std::filesystem::create_directory(changed.path);
  std::filesystem::copy(kAll + "/adapter_model.safetensors", changed.path + "/adapter_model.safetensors");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(read_text_file(kAll + "/adapter_config.json"));
    config[key] = value;
    write_bytes(changed.path + "/adapter_config.json", config.dump());
    return changed.path;
  };
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{
           {"use_dora", true}, {"bias", "all"}, {"modules_to_save", {"lm_head"}}, {"alora_invocation_tokens", {1, 2}}})
    expect(with(key, value), std::string(key) + " is " + value.dump());
  expect(with("peft_type", "IA3"), "peft_type is 'IA3', expected 'LORA'");
  expect(with("lora_alpha", nullptr), "lora_alpha is missing");
  expect(with("alpha_pattern", {{"q_proj", "2"}}), "'q_proj' is no number");
  std::filesystem::remove(changed.path + "/adapter_model.safetensors");
  expect(with("r", 4), "adapter_model.safetensors");
}

}  // namespace
}  // namespace kvasir::run
