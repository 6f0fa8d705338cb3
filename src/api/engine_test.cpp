#include "kvasir/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace kvasir {
namespace {

const std::string kModel = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
const char* const kStory = "It was a dark and stormy night, and the rain fell in torrents";

Engine engine(Options more = {}) {
  Options options{{"threads", 2}, {"ctx", 1024}};
  options.insert(options.end(), more.begin(), more.end());
  return Engine(kModel, options);
}

Options greedy(int n) { return {{"n_predict", n}, {"temperature", 0}, {"ignore_eos", true}}; }

std::string folder(const std::string& name) {
  const std::string path = testing::TempDir() + "kvasir_api_" + name + "_" + std::to_string(::getpid());
  std::filesystem::remove_all(path);
  return path;
}

template <class F>
std::string refused(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += "The old house stood on the hill number " + std::to_string(i) + ", and nobody knew why. ";
  return text;
}

TEST(Engine, KnowsItsModel) {
  const Engine e = engine({{"kv", "balanced"}});
  EXPECT_EQ(e.info().context, 1024);
  EXPECT_GT(e.info().vocabulary, 100);
  EXPECT_GT(e.info().parameters, 1000000u);
  EXPECT_GT(e.info().kv_bytes_per_token, 0);
  EXPECT_FALSE(e.info().architecture.empty());
}

TEST(Engine, StreamsWhatItReturns) {
  Engine e = engine();
  std::string streamed;
  const Reply r = e.generate(kStory, greedy(24), [&](std::string_view text) {
    streamed += text;
    return true;
  });
  EXPECT_EQ(streamed, r.text);
  EXPECT_EQ(r.ids.size(), 24u);
  EXPECT_EQ(r.finish, "length");
  EXPECT_EQ(r.prompt_tokens, static_cast<std::int64_t>(e.tokenize(kStory, true).size()));
  EXPECT_GT(r.first_token_seconds, 0);
}

TEST(Engine, TheSameTokensAgainAreReusedAndGiveTheSameAnswer) {
  for (const char* kv : {"f32", "balanced", "kivi2"}) {
    Engine e = engine({{"kv", kv}});
    const std::string prompt = long_text();
    Options options = greedy(16);
    options.emplace_back("logprobs", true);
    const Reply cold = e.generate(prompt, options);
    const Reply warm = e.generate(prompt, options);
    options.emplace_back("reuse", false);
    const Reply off = e.generate(prompt, options);
    EXPECT_EQ(cold.receipt.reused_tokens, 0);
    EXPECT_GT(warm.receipt.reused_tokens, 128) << kv;
    EXPECT_EQ(off.receipt.reused_tokens, 0);
    EXPECT_EQ(warm.receipt.computed_tokens, warm.prompt_tokens - warm.receipt.reused_tokens);
    for (const Reply* r : {&warm, &off}) {
      EXPECT_EQ(r->ids, cold.ids) << kv;
      ASSERT_EQ(r->logprobs.size(), cold.logprobs.size());
      for (std::size_t i = 0; i < cold.logprobs.size(); ++i)
        EXPECT_EQ(r->logprobs[i].logprob, cold.logprobs[i].logprob) << kv << " token " << i;
    }
  }
}

TEST(Engine, FoldersKeepWhatWasComputedAcrossEngines) {
  const std::string dir = folder("dir");
  const std::string prompt = long_text();
  Reply first;
  {
    Engine e = engine({{"cache_dir", dir}, {"ram_cache", 0}});
    first = e.generate(prompt, greedy(8));
    e.flush();
    ASSERT_EQ(e.stats().tiers.size(), 1u);
    EXPECT_GT(e.stats().tiers[0].records, 0u);
  }
  Engine e = engine({{"cache_dir", dir}, {"ram_cache", 0}});
  const Reply second = e.generate(prompt, greedy(8));
  EXPECT_GT(second.receipt.reused_tokens, 128);
  EXPECT_EQ(second.ids, first.ids);
  std::filesystem::remove_all(dir);
}

TEST(Engine, EndsWhenTheListenerWantsAndPassesOnWhatItThrows) {
  Engine e = engine();
  int calls = 0;
  const Reply r = e.generate(kStory, greedy(200), [&](std::string_view) { return ++calls < 3; });
  EXPECT_EQ(r.finish, "cancelled");
  EXPECT_EQ(calls, 3);
  EXPECT_LT(r.ids.size(), 200u);
  EXPECT_THROW(e.generate(kStory, greedy(50), [](std::string_view) -> bool { throw std::out_of_range("mine"); }),
               std::out_of_range);
  EXPECT_EQ(e.generate(kStory, greedy(4)).ids.size(), 4u);  // it goes on
}

TEST(Engine, AnyNumberOfThreadsGetTheAnswersThatTheyWouldGetAlone) {
  Engine e = engine({{"running", 4}});
  const std::string prompts[] = {"A cat", "The sea was", "In the morning", "He said that"};
  std::vector<std::vector<std::int32_t>> alone, together(4);
  for (const std::string& p : prompts) alone.push_back(e.generate(p, greedy(24)).ids);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Options options = greedy(24);
      options.emplace_back("reuse", false);
      together[i] = e.generate(prompts[i], options).ids;
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(together[i], alone[i]) << prompts[i];
}

TEST(Engine, SaysWhatIsWrong) {
  Engine e = engine();
  EXPECT_THROW(Engine("no/such/model.gguf"), std::runtime_error);
  EXPECT_NE(refused([&] {
              e.generate("x", {{"num_ctx", 2}});
            }).find("('num_ctx' is 'ctx', which does not belong here)"),
            std::string::npos);
  EXPECT_NE(refused([&] {
              e.generate("x", {{"max_tokens", 2}});
            }).find("('max_tokens' is 'n_predict' here)"),
            std::string::npos);
  EXPECT_NE(refused([] { Engine(kModel, {{"thread", 2}}); }).find("thread: is no option here"), std::string::npos);
  EXPECT_NE(refused([] { Engine(kModel, {{"threads", "many"}}); }).find("threads"), std::string::npos);
  EXPECT_NE(refused([] { Engine(kModel, {{"kv", "nonsense"}}); }).find("nonsense"), std::string::npos);
  EXPECT_NE(refused([] { Engine(kModel, {{"ctx", -4}}); }).find("ctx"), std::string::npos);
  EXPECT_NE(refused([&] { e.generate(kStory, {{"top_p", 2.5}}); }).find("top_p"), std::string::npos);
  EXPECT_NE(refused([&] {
              e.generate(kStory, {{"json_schema", "{"}});
            }).find("json_schema: is not JSON"),
            std::string::npos);
  EXPECT_NE(refused([&] { e.generate(std::vector<std::int32_t>{1, 1 << 30}); }).find("1073741824"), std::string::npos);
  EXPECT_NE(refused([&] { e.generate(std::vector<std::int32_t>{}); }), "accepted");
  EXPECT_NE(refused([&] { e.chat(R"({"role": "user"})"); }), "accepted");
  EXPECT_NE(refused([&] { e.detokenize(std::vector<std::int32_t>{-1}); }), "accepted");
}

TEST(Engine, TextsAndTokensGoBothWays) {
  const Engine e = engine();
  for (const std::string& text :
       {std::string("Hello, world"), std::string("  two  spaces"), std::string("a\n\nb"), std::string()})
    EXPECT_EQ(e.detokenize(e.tokenize(text)), text);
}

TEST(Session, GoesOnWhereItEnded) {
  Engine e = engine({{"kv", "f32"}});
  Session whole(e), parts(e);
  whole.append(kStory);
  parts.append(kStory);
  const Reply all = whole.generate(greedy(30));
  std::vector<std::int32_t> ids = parts.generate(greedy(10)).ids;
  const std::vector<std::int32_t> more = parts.generate(greedy(20)).ids;
  ids.insert(ids.end(), more.begin(), more.end());
  EXPECT_EQ(ids, all.ids);
  EXPECT_EQ(std::vector(parts.ids().begin(), parts.ids().end()), std::vector(whole.ids().begin(), whole.ids().end()));
}

TEST(Session, ForksAndCutsAreExact) {
  Engine e = engine({{"kv", "balanced"}});
  Session a(e);
  a.append(long_text());
  const std::int64_t size = a.size();
  const std::vector<std::int32_t> first = a.generate(greedy(12)).ids;
  Session b = a.fork();
  b.truncate(size);
  EXPECT_EQ(b.size(), size);
  const Reply again = b.generate(greedy(12));
  EXPECT_EQ(again.ids, first);
  EXPECT_GT(again.receipt.reused_tokens, 128);
  EXPECT_EQ(a.size(), size + 12);
  EXPECT_NE(refused([&] { b.truncate(b.size() + 1); }), "accepted");
  EXPECT_NE(refused([&] { Session(e).generate(); }), "accepted");
}

TEST(Session, IsReadBackAsItWasSaved) {
  Engine e = engine();
  Session a(e, "somebody");
  a.append(kStory);
  a.generate(greedy(5));
  const std::string path = folder("session") + ".json";
  a.save(path);
  Session b = Session::load(e, path);
  EXPECT_EQ(b.text(), a.text());
  EXPECT_EQ(b.generate(greedy(6)).ids, a.generate(greedy(6)).ids);
  for (const char* bad : {"", "[]", "{}", R"({"kvasir_session": 2, "vocabulary": 1, "tenant": "", "ids": []})",
                          R"({"kvasir_session": 1, "vocabulary": 7, "tenant": "", "ids": []})"}) {
    std::ofstream(path) << bad;
    EXPECT_NE(refused([&] { Session::load(e, path); }).find(path), std::string::npos) << bad;
  }
  std::ofstream(path) << R"({"kvasir_session": 1, "vocabulary": )" << e.info().vocabulary
                      << R"(, "tenant": "", "ids": [1, -3]})";
  EXPECT_NE(refused([&] { Session::load(e, path); }).find("ids[1]"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Options, NumbersBecomeTheirShortestText) {
  EXPECT_EQ(Option("a", 0.1f).value, "0.1");
  EXPECT_EQ(Option("a", 0.1).value, "0.1");
  EXPECT_EQ(Option("a", -3).value, "-3");
  EXPECT_EQ(Option("a", std::uint64_t{1} << 63).value, "9223372036854775808");
  EXPECT_EQ(Option("a", true).value, "true");
  EXPECT_EQ(Option("a", "x").value, "x");
}

}  // namespace
}  // namespace kvasir
