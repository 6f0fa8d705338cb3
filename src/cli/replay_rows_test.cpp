#include "cli/replay_rows.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/run_fixture.hpp"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

class ReplayRows : public ::testing::Test {
 protected:
  ~ReplayRows() override { fs::remove_all(folder_); }
  ReplayRows() { fs::create_directories(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  // Turn 2 reuses; without reuse it takes ten times as long.
  static ReplayRun run(const std::string& what, float second) {
    ReplayRun r{.what = what, .compared = true};
    r.turns = {{.turn = 1, .ttft = {0.2f, 0.4f}, .plain_ttft = {0.2f, 0.4f}, .prompt_tokens = 300},
               {.turn = 2, .ttft = {second}, .plain_ttft = {10 * second}, .prompt_tokens = 400, .reused_tokens = 350}};
    r.turns[0].seconds = {0.5f, 0.5f}, r.turns[1].seconds = {1.0f};
    r.turns[1].tokens_by_source = {{"ram", 350}, {"computed", 50}};
    return r;
  }

  const fs::path folder_ = fs::temp_directory_path() / fmt::format("replay_rows{}", ::getpid());
};

TEST_F(ReplayRows, ComeBackAsTheyWere) {
  append_replay(path("a.jsonl"), run("one", 0.1f));
  append_replay(path("a.jsonl"), run("two", 0.1f));
  append_replay(path("a.jsonl"), run("one", 0.05f));  // again, later
  const auto runs = read_replays(path("a.jsonl"));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].what, "one");
  EXPECT_TRUE(runs[0].compared);
  ASSERT_EQ(runs[0].turns.size(), 2u);
  EXPECT_EQ(runs[0].turns[1].ttft, std::vector<float>{0.05f});
  EXPECT_EQ(runs[0].turns[1].tokens_by_source.at("ram"), 350);
  EXPECT_EQ(runs[0].turns[0].plain_ttft, (std::vector<float>{0.2f, 0.4f}));
}

TEST_F(ReplayRows, MakeTablesAndPicturesAgain) {
  append_replay(path("a.jsonl"), run("one", 0.1f));
  append_replay(path("b.jsonl"), run("two", 0.3f));
  Result r = run_captured({"bench", "replay", "--rows", path("a.jsonl"), "--rows", path("b.jsonl"), "--plot",
                           path("turns.svg"), "--cdf", path("cdf.html")});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("p95"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("1.50"), std::string::npos) << r.out;  // three requests in two seconds
  EXPECT_NE(read_text_file(path("turns.svg")).find("two, with reuse"), std::string::npos);
  EXPECT_NE(read_text_file(path("cdf.html")).find("share of the requests"), std::string::npos);
  r = run_captured({"bench", "replay", "--rows", path("a.jsonl"), "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find(R"({"turn":"all","requests":3,"prompt_tokens":700,"reused_tokens":350,"hit_share":0.5,)"),
            std::string::npos)
      << r.out;
}

TEST_F(ReplayRows, OtherFilesAreRefused) {
  std::ofstream(path("a.jsonl")) << "{\"what\":\"x\"}\n";
  EXPECT_THROW(read_replays(path("a.jsonl")), Error);
  Result r = run_captured({"bench", "replay", "--rows", path("a.jsonl")});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("line 1 is no turn of kvasir bench replay"), std::string::npos) << r.err;
  r = run_captured({"bench", "replay", "--rows", path("a.jsonl"), "--limit", "2"});
  EXPECT_NE(r.err.find("--rows"), std::string::npos) << r.err;
  r = run_captured({"bench", "replay", "-m", "x"});
  EXPECT_NE(r.err.find("--conversations: is required"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace kvasir::cli
