// Made questions have their answers in their texts, and published files are read as their projects read them.
#include "lab/eval/long_tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>

#include "base/error.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval {
namespace {

class LongTasks : public ::testing::Test {
 protected:
  LongTasks() : subject_(fixture::options("f16", 600), {}) {}
  const text::Tokenizer& tokenizer() { return subject_.tokenizer(); }
  std::vector<LongQuestion> make(const std::string& task, std::int64_t length = 1500, int samples = 5) {
    return make_long_questions(tokenizer(), {task}, length, samples, 1);
  }
  static std::string write(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  Subject subject_;
};

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_F(LongTasks, FillTheLengthAndDifferFromEachOther) {
  for (const std::string& task : long_task_names()) {
    std::set<std::string> prompts;
    for (const LongQuestion& q : make(task)) {
      const auto tokens = static_cast<std::int64_t>(tokenizer().encode(q.prompt).size()) + q.most;
      EXPECT_LE(tokens, 1500) << task;
      EXPECT_GT(tokens, 1300) << task;
      EXPECT_EQ(q.task, task);
      prompts.insert(q.prompt);
      // What is right scores 1, what is empty 0.
      EXPECT_EQ(score(q.scorer, q.answers.front(), q.answers, q.classes, q.first_line), 1) << task;
      EXPECT_EQ(score(q.scorer, "", q.answers, q.classes, q.first_line), 0) << task;
    }
    EXPECT_EQ(prompts.size(), 5u) << task;
    EXPECT_EQ(make(task).back().prompt, make(task).back().prompt) << task;
  }
}

TEST_F(LongTasks, AnswersStandInTheTextAtEvenDistances) {
  for (const char* task : {"pairs", "needle", "needle_zh", "recite", "hops"}) {
    double before = -1;
    for (const LongQuestion& q : make(task)) {
      const std::size_t at = q.prompt.find(q.answers.front());
      ASSERT_NE(at, q.prompt.npos) << task;
      if (std::string(task) == "hops") continue;
      EXPECT_EQ(times(q.prompt, q.answers.front()), 1u) << task;
      const double where = static_cast<double>(at) / static_cast<double>(q.prompt.size());
      EXPECT_GT(where, before) << task;
      before = where;
    }
    if (std::string(task) != "hops") {
      EXPECT_GT(before, 0.75) << task;
    }
  }
}

TEST_F(LongTasks, ACountIsThatOfDifferentParagraphs) {
  for (const LongQuestion& q : make("count")) {
    std::set<std::string> different;
    std::size_t all = 0;
    for (std::size_t at = q.prompt.find("Paragraph "); at != q.prompt.npos; at = q.prompt.find("Paragraph ", at + 1)) {
      const std::size_t begin = q.prompt.find(": ", at) + 2;
      different.insert(q.prompt.substr(begin, q.prompt.find('\n', begin) - begin));
      ++all;
    }
    EXPECT_EQ(std::to_string(different.size()), q.answers.front());
    EXPECT_GT(all, different.size());
  }
}

TEST_F(LongTasks, AnAbstractIsOfOneParagraph) {
  for (const LongQuestion& q : make("passages")) {
    const std::size_t at = q.prompt.find("abstract.\n\n") + 11;
    const std::string abstract = q.prompt.substr(at, q.prompt.find("\n\n", at) - at);
    const std::size_t begin = q.prompt.find(q.answers.front() + ": ");
    ASSERT_NE(begin, q.prompt.npos);
    const std::string paragraph = q.prompt.substr(begin, q.prompt.find('\n', begin) - begin);
    const std::size_t second = abstract.find(". ") + 1;
    EXPECT_NE(paragraph.find(abstract.substr(0, second)), paragraph.npos) << abstract;
    EXPECT_NE(paragraph.find(abstract.substr(second + 1)), paragraph.npos) << abstract;
  }
}

TEST_F(LongTasks, ClassesHaveExamplesOfEveryKindAndNotOfTheQuestion) {
  std::set<std::string> right;
  for (const LongQuestion& q : make("classes")) {
    right.insert(q.answers.front());
    for (const std::string& name : q.classes) EXPECT_NE(q.prompt.find("Type: " + name + "\n"), q.prompt.npos);
    const std::size_t at = q.prompt.rfind("Question: ");
    EXPECT_EQ(times(q.prompt, q.prompt.substr(at, q.prompt.rfind('\n') - at + 1)), 1u);
  }
  EXPECT_EQ(right.size(), 5u);
}

TEST_F(LongTasks, BadChoicesAreNamed) {
  const auto message = [&](const std::string& task, std::int64_t length) {
    try {
      make(task, length);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(message("nothing", 1500).find("passages, recite"), std::string::npos);
  EXPECT_NE(message("hops", 20).find("the shortest text of task hops"), std::string::npos);
}

TEST_F(LongTasks, PublishedFilesAreRead) {
  const std::string longbench = write(
      "longbench.jsonl",
      R"({"input": "Where is Bern?", "context": "Passage 1: Bern.", "answers": ["Switzerland", "in Switzerland"], "length": 3, "dataset": "hotpotqa", "language": "en", "all_classes": null, "_id": "1"}
{"input": "Question: Who?\nType:", "context": "Question: When?\nType: Date", "answers": ["Person"], "length": 3, "dataset": "trec", "language": "en", "all_classes": ["Person", "Date"], "_id": "2"}
)");
  const auto all = read_long_questions(longbench, 0);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].task, "hotpotqa");
  EXPECT_EQ(all[0].most, 32);
  EXPECT_TRUE(all[0].prompt.ends_with("Question: Where is Bern?\nAnswer:"));
  EXPECT_TRUE(all[0].prompt.starts_with("Passage 1: Bern.\n\n"));
  EXPECT_EQ(all[0].answers.size(), 2u);
  EXPECT_EQ(score(all[0].scorer, "It is in Switzerland.", all[0].answers, {}, false), 2 * 0.5 / 1.5);
  EXPECT_EQ(all[1].classes, (std::vector<std::string>{"Person", "Date"}));
  EXPECT_EQ(score(all[1].scorer, "Person\nQuestion: Date", all[1].answers, all[1].classes, all[1].first_line), 1);
  EXPECT_EQ(read_long_questions(longbench, 1).size(), 1u);

  const auto keys = read_long_questions(
      write("passkey.jsonl",
            R"({"id": 0, "context": "The pass key is 71432.", "input": "What is the pass key?", "answer": ["71432"]})"),
      0);
  EXPECT_EQ(keys.at(0).most, 6);
  EXPECT_TRUE(keys.at(0).prompt.ends_with("What is the pass key?\nThe pass key is"));

  const std::string prompts = write("prompts.json", R"({"hotpotqa": "Read.\n{context}\nSay: {input} {input}"})");
  const auto worded = read_long_questions(longbench, 0, prompts);
  EXPECT_EQ(worded.at(0).prompt, "Read.\nPassage 1: Bern.\nSay: Where is Bern? Where is Bern?");
  EXPECT_EQ(worded.at(1).prompt, all[1].prompt) << "a task that the file lacks";
  for (const char* bad : {"[]", R"({"hotpotqa": 1})", R"({"hotpotqa": "no place for the text"})"})
    EXPECT_THROW(read_long_questions(longbench, 0, write("prompts.json", bad)), Error) << bad;
  for (const char* bad :
       {"nothing", "{\"context\": 1}", R"({"context": "", "input": "", "answers": ["x"], "dataset": "lcc"})",
        R"({"context": "", "input": "", "answers": [], "dataset": "hotpotqa"})",
        R"({"context": "", "input": "", "answers": ["x"], "dataset": "trec"})", ""})
    EXPECT_THROW(read_long_questions(write("bad.jsonl", bad), 0), Error) << bad;
}

TEST_F(LongTasks, TextsThatAreTooLongLoseTheirMiddle) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "word" + std::to_string(i) + " ";
  const std::string cut = without_middle(tokenizer(), text, 100);
  EXPECT_TRUE(cut.starts_with("word0 word1 "));
  EXPECT_TRUE(cut.ends_with("word199 "));
  EXPECT_LT(cut.size(), text.size());
  EXPECT_EQ(without_middle(tokenizer(), text, 100000), text);
}

}  // namespace
}  // namespace kvasir::lab::eval
