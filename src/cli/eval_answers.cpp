// kvasir eval answers: greedy answers under each choice of codecs, side by side.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/eval.hpp"
#include "cli/eval_prompts.hpp"
#include "cli/eval_run.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/sections.hpp"
#include "cli/terminal.hpp"
#include "lab/eval/answers.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::cli {
namespace {

using lab::eval::AnswerOf;
using lab::eval::AnswersReport;
using lab::eval::AnswersRow;

struct AnswersOptions {
  std::int32_t n = 64;
  bool chat = false;
  std::string sections;
  bool json = false;
};

const OptionTable<AnswersOptions>& eval_answers_table() {
  using O = AnswersOptions;
  static const OptionTable<O> t{
      "answers",
      {{"n_predict", &O::n, {.help = "most of an answer", .unit = "tokens", .letter = 'n', .low = 1, .high = 1 << 20}},
       {"chat", &O::chat, {.help = "a prompt is a message of the user, put into the model's chat template"}},
       {"sections",
        &O::sections,
        {.help = "prompts stand between lines equal to SEPARATOR; without it every line is one",
         .placeholder = "SEPARATOR"}},
       {"json", &O::json, {.help = "one object per prompt and choice of codecs, and one per choice for all prompts"}}}};
  return t;
}

struct EvalAnswersSettings {
  std::string file;
  AnswersOptions answers;
  lab::eval::SubjectOptions subject;
};

std::vector<std::string> read_prompts(const EvalAnswersSettings& s) {
  const std::string text = read_text_file(s.file);
  std::vector<std::string> prompts;
  if (s.answers.sections.find('\n') != std::string::npos)
    throw Error(Code::kBadInput, "expected a separator of one line, found a line break in it", "--sections");
  const auto views =
      s.answers.sections.empty() ? std::vector<std::string_view>{text} : split_sections(text, s.answers.sections);
  if (!s.answers.sections.empty()) {
    prompts.assign(views.begin(), views.end());
  } else {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      prompts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::erase_if(prompts, [](const std::string& p) { return p.find_first_not_of(" \t\r\n") == std::string::npos; });
  if (prompts.empty()) throw Error(Code::kBadInput, "has no prompts, expected one per line", s.file);
  return prompts;
}

std::vector<std::vector<std::int32_t>> encode(const EvalAnswersSettings& s, const lab::eval::Subject& subject,
                                              const std::vector<std::string>& prompts) {
  const EvalPrompts encoder(subject, s.answers.chat);
  std::vector<std::vector<std::int32_t>> all;
  for (const std::string& prompt : prompts) {
    all.push_back(encoder.ids(prompt));
    const std::int64_t needs = static_cast<std::int64_t>(all.back().size()) + s.answers.n;
    if (needs > s.subject.ctx)
      throw Error(Code::kBadInput,
                  "prompt " + std::to_string(all.size()) + " and its answer take " + std::to_string(needs) +
                      " tokens, --ctx gives " + std::to_string(s.subject.ctx),
                  s.file);
  }
  return all;
}

// On one line.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : unicode::to_valid_utf8(text)) line += c == '\n' ? std::string("\\n") : std::string(1, c);
  return line;
}

// Where an answer leaves f32's: the text behind the tokens that they share.
std::string after(const lab::eval::Subject& subject, const AnswerOf& a) {
  const std::span<const std::int32_t> same(a.ids.data(), static_cast<std::size_t>(a.same));
  const std::string shared = subject.tokenizer().decode(same);
  return a.text.substr(std::min(shared.size(), a.text.size()));
}

void print_answers(const lab::eval::Subject& subject, const std::string& prompt, std::size_t p,
                   const AnswersReport& r) {
  fmt::print("prompt {}: {}\n", p + 1, one_line(prompt));
  std::size_t width = 0;
  for (const AnswersRow& row : r.rows) width = std::max(width, row.kv.size());
  for (const AnswersRow& row : r.rows) {
    const AnswerOf& a = row.answers[p];
    if (&row == &r.rows.front())
      fmt::print("  {:<{}}  {}\n", row.kv, width, one_line(a.text));
    else if (a.equal)
      fmt::print("  {:<{}}  the same\n", row.kv, width);
    else
      fmt::print("  {:<{}}  from token {} on: {}\n", row.kv, width, a.same + 1, one_line(after(subject, a)));
  }
  std::fflush(stdout);
}

void print_json_answers(const std::string& prompt, std::size_t p, const AnswersReport& r) {
  for (const AnswersRow& row : r.rows) {
    const AnswerOf& a = row.answers[p];
    nlohmann::ordered_json first = a.equal ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(a.same);
    print_json_row({{"kv", row.kv},
                    {"prompt", prompt},
                    {"answer", a.text},
                    {"ids", a.ids},
                    {"equal", a.equal},
                    {"first_difference", std::move(first)}});
  }
}

void print_summary(const EvalAnswersSettings& s, const AnswersReport& r, std::size_t prompts) {
  if (s.answers.json) {
    for (const AnswersRow& row : r.rows)
      print_json_row({{"kv", row.kv},
                      {"prompts", prompts},
                      {"equal", row.equal},
                      {"tokens", r.tokens},
                      {"same_tokens", row.same},
                      {"kv_bytes_per_token", row.cost.bytes_per_token},
                      {"f16_bytes_per_token", row.cost.f16_bytes_per_token},
                      {"model", std::filesystem::path(s.subject.model).filename().string()},
                      {"note", row.note}});
    return;
  }
  fmt::print("\n{}: {} prompts, answers of at most {} tokens\n\n",
             std::filesystem::path(s.subject.model).filename().string(), prompts, s.answers.n);
  std::vector<std::vector<std::string>> t{{"kv", "equal answers", "tokens as f32", "of f16"}};
  for (const AnswersRow& row : r.rows)
    t.push_back({row.kv, fmt::format("{} of {}", row.equal, prompts),
                 fmt::format("{:.1f} %", 100 * static_cast<double>(row.same) /
                                             static_cast<double>(std::max<std::int64_t>(r.tokens, 1))),
                 fmt::format("{:.1f} %", 100 * row.cost.bytes_per_token / row.cost.f16_bytes_per_token)});
  print_table(t);
}

int run_answers(const EvalAnswersSettings& s) {
  const std::vector<std::string> prompts = read_prompts(s);
  EvalRun run("eval answers", "answering", "stopped");
  lab::eval::Subject subject(s.subject, {});
  const auto ids = encode(s, subject, prompts);
  run.load(subject);
  const auto show = [&](std::size_t p, const AnswersReport& r) {
    run.bar().erase();
    s.answers.json ? print_json_answers(prompts[p], p, r) : print_answers(subject, prompts[p], p, r);
  };
  const AnswersReport report = measure_answers(subject, ids, {&s.answers.n, 1}, run.progress(), show);
  run.bar().finish();
  print_summary(s, report, prompts.size());
  return kSuccess;
}

}  // namespace

Action setup_eval_answers(Flags& flags) {
  auto settings = std::make_shared<EvalAnswersSettings>();
  flags.value("FILE", settings->file, "prompts, one per line", {.required = true});
  return eval_action(flags, settings, eval_answers_table(), &EvalAnswersSettings::answers, run_answers);
}

}  // namespace kvasir::cli
