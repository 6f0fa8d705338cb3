// kvasir eval tasks: questions about long texts under each choice of codecs, answered in words and scored.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/eval.hpp"
#include "cli/eval_prompts.hpp"
#include "cli/eval_run.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "lab/eval/answers.hpp"
#include "lab/eval/long_tasks.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::cli {
namespace {

using lab::eval::LongQuestion;

struct TasksOptions {
  std::string tasks;
  std::int32_t length = 0;
  std::int32_t samples = 5;
  std::string file;
  std::string prompts;
  std::int64_t seed = 1;
  bool chat = false;
  bool json = false;
};

const OptionTable<TasksOptions>& eval_tasks_table() {
  using O = TasksOptions;
  static const OptionTable<O> t{
      "tasks",
      {{"tasks",
        &O::tasks,
        {.help =
             "which questions are made, a list; empty is all: passages, recite, hops, count, classes, pairs, needle, "
             "needle_zh",
         .placeholder = "LIST"}},
       {"length",
        &O::length,
        {.help = "of a made text, its question and answer; 0 is all of --ctx but what a chat template needs",
         .unit = "tokens",
         .low = 0,
         .high = 1 << 24}},
       {"samples",
        &O::samples,
        {.help = "questions of every task; of a file the first so many, 0 is all", .low = 0, .high = 1 << 20}},
       {"file",
        &O::file,
        {.help = "questions of a published file instead, JSON lines of LongBench or InfiniteBench; texts that are too "
                 "long lose their middle",
         .letter = 'f',
         .placeholder = "FILE"}},
       {"prompts",
        &O::prompts,
        {.help = "with --file: a JSON file of prompts by task, with {context} and {input}, as LongBench's "
                 "config/dataset2prompt.json; without it they are in words of our own",
         .placeholder = "FILE"}},
       {"seed", &O::seed, {.help = "of made texts", .low = 0}},
       {"chat", &O::chat, {.help = "a prompt is a message of the user, put into the model's chat template"}},
       {"json", &O::json, {.help = "one object per question and choice of codecs, then one per task and choice"}}}};
  return t;
}

struct EvalTasksSettings {
  TasksOptions tasks;
  lab::eval::SubjectOptions subject;
};

std::vector<std::string> split_tasks(const std::string& list) {
  if (list.empty()) return lab::eval::long_task_names();
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    all.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

// What a chat template puts around a message, and the token that begins a text.
constexpr std::int32_t kTemplateTokens = 64;

std::vector<LongQuestion> questions_of(const EvalTasksSettings& s, const lab::eval::Subject& subject) {
  const TasksOptions& o = s.tasks;
  if (!o.file.empty()) {
    std::vector<LongQuestion> all = lab::eval::read_long_questions(o.file, o.samples, o.prompts);
    for (LongQuestion& q : all) {
      const std::int64_t most = s.subject.ctx - q.most - kTemplateTokens;
      if (most < 16)
        throw Error(Code::kBadInput, "is " + std::to_string(s.subject.ctx) + ", too few for an answer of " + q.task,
                    "--ctx");
      q.prompt = lab::eval::without_middle(subject.tokenizer(), q.prompt, most);
    }
    return all;
  }
  if (!o.prompts.empty()) throw Error(Code::kBadInput, "is for --file, whose tasks it has prompts of", "--prompts");
  if (o.samples == 0) throw Error(Code::kBadInput, "is 0, expected 1 or more of made texts", "--samples");
  const std::int32_t room = s.subject.ctx - kTemplateTokens;
  if (o.length > room)
    throw Error(Code::kBadInput,
                "is " + std::to_string(o.length) + ", expected at most " + std::to_string(room) + ", --ctx less " +
                    std::to_string(kTemplateTokens),
                "--length");
  return lab::eval::make_long_questions(subject.tokenizer(), split_tasks(o.tasks), o.length > 0 ? o.length : room,
                                        o.samples, static_cast<std::uint64_t>(o.seed));
}

// Scores of one task under one choice of codecs.
struct TaskScores {
  std::string task;
  const char* scorer;
  lab::eval::Moments scores;
  std::int64_t equal = 0;   // answers that are f32's
  std::int64_t tokens = 0;  // of the longest prompt
};

double score_of(const LongQuestion& q, const std::string& answer) {
  return lab::eval::score(q.scorer, answer, q.answers, q.classes, q.first_line);
}

// Tasks in the order of their questions, under the choice of row `lane`.
std::vector<TaskScores> scores_of(const lab::eval::AnswersRow& row, const std::vector<LongQuestion>& questions,
                                  const std::vector<std::vector<std::int32_t>>& prompts) {
  std::vector<TaskScores> all;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const LongQuestion& q = questions[i];
    if (all.empty() || all.back().task != q.task) all.push_back({q.task, name_of(q.scorer), {}});
    TaskScores& t = all.back();
    t.scores.add(score_of(q, row.answers[i].text));
    t.equal += row.answers[i].equal;
    t.tokens = std::max(t.tokens, static_cast<std::int64_t>(prompts[i].size()));
  }
  return all;
}

void print_task_json(const EvalTasksSettings& s, const lab::eval::AnswersReport& r,
                     const std::vector<LongQuestion>& questions,
                     const std::vector<std::vector<std::int32_t>>& prompts) {
  const std::string model = std::filesystem::path(s.subject.model).filename().string();
  for (const auto& row : r.rows) {
    for (std::size_t i = 0; i < questions.size(); ++i)
      print_json_row({{"kv", row.kv},
                      {"task", questions[i].task},
                      {"tokens", prompts[i].size()},
                      {"answer", row.answers[i].text},
                      {"right", questions[i].answers},
                      {"score", score_of(questions[i], row.answers[i].text)},
                      {"equal", row.answers[i].equal}});
    for (const TaskScores& t : scores_of(row, questions, prompts))
      print_json_row({{"kv", row.kv},
                      {"task", t.task},
                      {"scorer", t.scorer},
                      {"questions", t.scores.count()},
                      {"score", t.scores.mean()},
                      {"error", t.scores.standard_error()},
                      {"equal", t.equal},
                      {"tokens", t.tokens},
                      {"model", model},
                      {"file", s.tasks.file.empty() ? "" : std::filesystem::path(s.tasks.file).filename().string()},
                      {"chat", s.tasks.chat},
                      {"window", s.subject.window},
                      {"residual", s.subject.residual},
                      {"sinks", s.subject.sinks},
                      {"kv_bytes_per_token", row.cost.bytes_per_token},
                      {"f16_bytes_per_token", row.cost.f16_bytes_per_token}});
  }
}

void print_task_table(const EvalTasksSettings& s, const lab::eval::AnswersReport& r,
                      const std::vector<LongQuestion>& questions,
                      const std::vector<std::vector<std::int32_t>>& prompts) {
  std::vector<std::vector<TaskScores>> lanes;
  for (const auto& row : r.rows) lanes.push_back(scores_of(row, questions, prompts));
  std::vector<std::string> head{"task", "score", "questions", "tokens"};
  for (const auto& row : r.rows) head.push_back(row.kv);
  std::vector<std::vector<std::string>> table{head};
  std::vector<lab::eval::Moments> means(lanes.size());
  for (std::size_t t = 0; t < lanes.front().size(); ++t) {
    const TaskScores& first = lanes.front()[t];
    std::vector<std::string> line{first.task, first.scorer, std::to_string(first.scores.count()),
                                  std::to_string(first.tokens)};
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      means[l].add(lanes[l][t].scores.mean());
      line.push_back(
          fmt::format("{:.1f} ± {:.1f}", 100 * lanes[l][t].scores.mean(), 100 * lanes[l][t].scores.standard_error()));
    }
    table.push_back(line);
  }
  std::vector<std::string> mean{"mean of the tasks", "", "", ""}, equal{"answers equal to f32's", "", "", ""},
      bytes{"bytes of f16", "", "", ""};
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const auto& row = r.rows[l];
    mean.push_back(fmt::format("{:.1f}", 100 * means[l].mean()));
    equal.push_back(fmt::format("{} of {}", row.equal, questions.size()));
    bytes.push_back(fmt::format("{:.0f} %", 100 * row.cost.bytes_per_token / row.cost.f16_bytes_per_token));
  }
  for (const auto& line : {mean, equal, bytes}) table.push_back(line);
  fmt::print("{}: greedy answers, scores in per cent with their standard error\n\n",
             std::filesystem::path(s.subject.model).filename().string());
  print_table(table);
}

int run_tasks(const EvalTasksSettings& s) {
  EvalRun run("eval tasks", "answering");
  lab::eval::Subject subject(s.subject, {});
  const std::vector<LongQuestion> questions = questions_of(s, subject);
  const EvalPrompts encoder(subject, s.tasks.chat);
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<int> most;
  for (const LongQuestion& q : questions) {
    prompts.push_back(encoder.ids(q.prompt));
    most.push_back(q.most);
    if (static_cast<std::int64_t>(prompts.back().size()) + q.most > s.subject.ctx)
      throw Error(Code::kBadInput,
                  "a question of " + q.task + " and its answer take " +
                      std::to_string(prompts.back().size() + static_cast<std::size_t>(q.most)) + " tokens",
                  "--ctx");
  }
  run.load(subject);
  const auto report = measure_answers(subject, prompts, most, run.progress());
  run.bar().finish();
  s.tasks.json ? print_task_json(s, report, questions, prompts) : print_task_table(s, report, questions, prompts);
  return kSuccess;
}

}  // namespace

Action setup_eval_tasks(Flags& flags) {
  auto settings = std::make_shared<EvalTasksSettings>();
  settings->subject.ctx = 2048;
  return eval_action(flags, settings, eval_tasks_table(), &EvalTasksSettings::tasks, run_tasks);
}

}  // namespace kvasir::cli
