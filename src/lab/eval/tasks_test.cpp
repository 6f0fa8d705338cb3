#include "lab/eval/tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval {
namespace {

class Tasks : public ::testing::Test {
 protected:
  Subject subject_{fixture::options("f32", 512), {.sequences = 2, .extra_tokens = 512}};
  const text::Tokenizer& tokenizer_ = subject_.tokenizer();
  std::vector<Probe> probes(const std::string& task, std::vector<std::int64_t> lengths = {300, 480},
                            std::vector<std::int64_t> depths = {0, 50, 100}, int trials = 2) {
    return task_probes(tokenizer_, task, lengths, depths, trials, {.ctx = 512, .seed = 3, .distractors = 4});
  }
};

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_F(Tasks, PromptsFillTheirLengthAndHoldTheAnswerOnce) {
  for (const std::string& task : task_names()) {
    const auto all = probes(task);
    ASSERT_EQ(all.size(), 12u) << task;
    std::set<std::string> prompts;
    for (const Probe& p : all) {
      EXPECT_LE(p.tokens(), std::stoll(p.group)) << task;
      EXPECT_GT(p.tokens(), std::stoll(p.group) - 90) << task;  // one more piece would not fit
      ASSERT_EQ(p.candidates.size(), 5u) << task;
      const std::string text = tokenizer_.decode(p.prompt);
      prompts.insert(text);
      EXPECT_NE(tokenizer_.decode(p.candidates[0]).find(p.answer), std::string::npos) << task;
      if (task == "count") {
        EXPECT_EQ(count(text, " was seen.\n"), std::stoi(p.answer)) << text;
        continue;
      }
      if (task != "passkey") {
        EXPECT_EQ(count(text, p.answer), 1) << task << ": " << text;
      }
      const double at = static_cast<double>(text.find(p.answer)) / static_cast<double>(text.size());
      EXPECT_NEAR(at, p.depth / 100.0, 0.35) << task;
    }
    EXPECT_EQ(prompts.size(), all.size()) << task;
    EXPECT_EQ(probes(task)[5].prompt, all[5].prompt) << task << " is drawn from its seed";
  }
}

TEST_F(Tasks, NeedlesHaveTheFactsThatTheySay) {
  for (const Probe& p : probes("needle")) EXPECT_EQ(count(tokenizer_.decode(p.prompt), "The special number of "), 2);
  for (const Probe& p : probes("needles", {480})) {
    EXPECT_GE(count(tokenizer_.decode(p.prompt), "The special number of "), 6);
  }
  for (const Probe& p : probes("hard")) {
    const std::string text = tokenizer_.decode(p.prompt);
    EXPECT_EQ(count(text, "\n"), count(text, "The special number of ")) << text;  // nothing but facts, and the question
  }
}

TEST_F(Tasks, SeveralQuestionsAreAskedOfOneText) {
  for (const std::string task : {"passkey", "needle", "needles", "hard", "pairs"}) {
    const auto all = task_probes(tokenizer_, task, {480}, {0, 50, 100}, 2,
                                 {.ctx = 512, .seed = 3, .distractors = 2, .questions = 2});
    ASSERT_EQ(all.size(), 12u) << task;
    std::set<std::string> answers;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Probe& p = all[i];
      EXPECT_EQ(p.depth, i % 6 / 2 * 50) << task;
      EXPECT_LE(p.tokens(), 480) << task;
      const std::string text = tokenizer_.decode(p.prompt);
      EXPECT_EQ(count(text, p.answer), task == "passkey" ? 2 : 1) << task << ": " << text;
      const double at = static_cast<double>(text.find(p.answer)) / static_cast<double>(text.size());
      EXPECT_NEAR(at, p.depth / 100.0, 0.4) << task;
      EXPECT_TRUE(answers.insert(p.answer).second);
      // One text: prompts differ in the question alone.
      const auto& first = all[i / 6 * 6].prompt;
      const auto same = std::mismatch(p.prompt.begin(), p.prompt.end(), first.begin(), first.end()).first;
      EXPECT_LT(p.prompt.end() - same, 90) << task;
    }
  }
  EXPECT_THROW(task_probes(tokenizer_, "count", {480}, {0}, 1, {.ctx = 512, .questions = 2}), Error);
}

TEST_F(Tasks, BadTasksAndLengthsAreNamed) {
  EXPECT_THROW(probes("haystack"), Error);
  EXPECT_THROW(probes("needle", {513}), Error);
  EXPECT_THROW(probes("pairs", {10}), Error);
}

}  // namespace
}  // namespace kvasir::lab::eval
