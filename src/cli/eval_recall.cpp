// kvasir eval recall: retrieval from long prompts, and agreement with an f32 cache.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "cli/eval.hpp"
#include "cli/eval_run.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "lab/eval/plot.hpp"
#include "lab/eval/recall.hpp"
#include "lab/eval/selection_trial.hpp"
#include "lab/eval/tasks.hpp"

namespace kvasir::cli {
namespace {

using lab::eval::RecallReport;
using lab::eval::RecallRow;

struct RecallOptions {
  std::string task = "passkey";
  std::string select;
  std::int32_t asked = 16;
  std::string plot;
  std::string lengths;
  std::string depths = "0,25,50,75,100";
  std::int32_t trials = 4;
  std::int32_t questions = 1;
  std::int32_t distractors = 9;
  std::string file;
  std::int64_t records = 0;
  std::int64_t samples = 0;
  std::int64_t seed = 1;
  bool json = false;
};

const OptionTable<RecallOptions>& eval_recall_table() {
  using O = RecallOptions;
  static const OptionTable<O> t{
      "recall",
      {{"task",
        &O::task,
        {.help = "what is looked for: a pass key in repeated filler, one number in varied text, one of eight, one "
                 "among nothing but numbers, a value of random pairs, how often something is seen",
         .choices = lab::eval::task_names()}},
       {"select",
        &O::select,
        {.help = "in place of choices of codecs, compares selectors with dense attention, a list: "
                 "quest:budget=10%,sink_recent:budget=10% (see docs/long-context.md); the question and the answer go "
                 "through them",
         .placeholder = "LIST"}},
       {"asked",
        &O::asked,
        {.help = "with --select: last tokens of the prompt that are computed as generated ones, the question",
         .unit = "tokens",
         .low = 1,
         .high = 4096}},
       {"plot",
        &O::plot,
        {.help = "with --select: draw what is ranked first over the length into a .svg, .html or .png",
         .placeholder = "FILE"}},
       {"lengths",
        &O::lengths,
        {.help = "lengths of prompts, a list, the longest of which sets --ctx; empty is a half and all of the context, "
                 "from 1024 on a quarter, too",
         .unit = "tokens",
         .placeholder = "LIST"}},
       {"depths", &O::depths, {.help = "where the key stands, per cent of the prompt, a list", .placeholder = "LIST"}},
       {"trials", &O::trials, {.help = "keys per length and depth", .low = 1, .high = 10000}},
       {"questions",
        &O::questions,
        {.help = "keys that stand in one text at every depth and are asked for one after the other; with --select what "
                 "prompts have in common is read once",
         .low = 1,
         .high = 1000}},
       {"distractors",
        &O::distractors,
        {.help = "wrong answers that are ranked with the right one", .low = 1, .high = 99}},
       {"file",
        &O::file,
        {.help = "instead of pass keys: line or key-value retrieval from JSON lines",
         .letter = 'f',
         .placeholder = "FILE"}},
       {"records",
        &O::records,
        {.help = "shorten each sample to this many records; 0 is all", .low = 0, .high = 1 << 20}},
       {"samples", &O::samples, {.help = "use the first samples only; 0 is all", .low = 0, .high = 1 << 20}},
       {"seed", &O::seed, {.help = "of keys and distractors", .low = 0}},
       {"json", &O::json, {.help = "one object per choice of codecs, length and depth"}}}};
  return t;
}

struct EvalRecallSettings {
  RecallOptions recall;
  lab::eval::SubjectOptions subject;
};

std::vector<std::int64_t> parse_list(const std::string& text, std::int64_t high, const char* flag) {
  std::vector<std::int64_t> all;
  const auto bad = [&] {
    throw Error(Code::kBadInput,
                "is '" + text + "', expected numbers from 0 to " + std::to_string(high) + " separated by commas", flag);
  };
  for (std::size_t i = 0;; ++i) {
    std::size_t end = i;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == i || end - i > 9 || std::stoll(text.substr(i, end - i)) > high) bad();
    all.push_back(std::stoll(text.substr(i, end - i)));
    if (end == text.size()) return all;
    if (text[end] != ',') bad();
    i = end;
  }
}

lab::eval::FileProbes make_probes(const EvalRecallSettings& s, const lab::eval::Subject& subject) {
  const RecallOptions& o = s.recall;
  const lab::eval::ProbeOptions options{.ctx = s.subject.ctx,
                                        .seed = static_cast<std::uint64_t>(o.seed),
                                        .distractors = o.distractors,
                                        .questions = o.questions};
  if (!o.file.empty()) return file_probes(subject.tokenizer(), o.file, o.records, o.samples, options);
  const std::int64_t ctx = s.subject.ctx;
  std::vector<std::int64_t> lengths{ctx / 2, ctx};
  if (ctx >= 1024) lengths.insert(lengths.begin(), ctx / 4);
  if (!o.lengths.empty()) lengths = parse_list(o.lengths, 1 << 24, "--lengths");
  const auto depths = parse_list(o.depths, 100, "--depths");
  return {.probes = task_probes(subject.tokenizer(), o.task, lengths, depths, o.trials, options)};
}

std::string eval_recall_percent(std::int64_t n, std::int64_t of) {
  return fmt::format("{:.1f} %", 100 * static_cast<double>(n) / static_cast<double>(of));
}

// One line per group, depths together.
using lab::eval::SelectedReport;
using lab::eval::SelectedRow;

bool same_group(const RecallRow& a, const RecallRow& b) { return a.kv == b.kv && a.group == b.group; }
bool same_group(const SelectedRow& a, const SelectedRow& b) {
  return a.kv == b.kv && a.select == b.select && a.group == b.group;
}

template <class Row>
std::vector<Row> by_group(const std::vector<Row>& rows) {
  std::vector<Row> groups;
  for (const Row& r : rows) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Row& g) { return same_group(g, r); });
    if (same == groups.end())
      groups.push_back(r);
    else
      *same += r;
  }
  return groups;
}

// What the model's own hits, with nothing left out, allow to be said. `with`: what nothing is left out by. `of`: what
// is tried.
void print_skill(lab::eval::Skill skill, const char* with, const std::string& hits, double guessing, const char* of) {
  using lab::eval::Skill;
  fmt::print("With {} the model does in {}", with, hits);
  if (skill == Skill::kSome) return fmt::print(": it has the skill, and fewer hits are a {}'s loss.\n", of);
  fmt::print(
      " (guessing does as well with probability {:.2f}): {}\n", guessing,
      skill == Skill::kNone ? "THE MODEL HAS NO SUCH SKILL." : "TOO FEW TRIALS TO TELL whether it has the skill.");
  if (skill == Skill::kNone)
    fmt::print("Its hits say nothing about a {}; only the agreement with {} does.\n", of, with);
  else
    fmt::print("--trials, --depths and --lengths give more.\n");
}

// True, false, or null for too few trials.
nlohmann::ordered_json skill_json(lab::eval::Skill skill) {
  if (skill == lab::eval::Skill::kUnknown) return nullptr;
  return skill == lab::eval::Skill::kSome;
}

// What both reports say of a row, behind what names it.
template <class Row, class Report>
void add_trials(const EvalRecallSettings& s, const Row& r, const Report& report, nlohmann::ordered_json& row) {
  const auto n = static_cast<double>(r.trials);
  row.update({{"task", s.recall.file.empty() ? s.recall.task : "file"}, {"group", r.group}});
  if (r.depth >= 0) row["depth"] = r.depth;
  row.update({{"tokens", r.tokens},
              {"trials", r.trials},
              {"exact", static_cast<double>(r.exact) / n},
              {"ranked_first", static_cast<double>(r.first) / n},
              {"chance", report.chance},
              {"model_retrieves", skill_json(report.skill())},
              {"logprob", r.logprob / n}});
}

void print_verdict(const RecallReport& r) {
  fmt::print(
      "\nGuessing ranks the right answer first in {:.1f} % of {} trials and practically never finds it by decoding.\n",
      100 * r.chance, r.baseline.trials);
  print_skill(r.skill(), "an f32 cache", eval_recall_percent(r.baseline.first, r.baseline.trials), r.guessing, "codec");
}

void eval_recall_print_report(const EvalRecallSettings& s, const RecallReport& r) {
  fmt::print("{}: {}\n\n", std::filesystem::path(s.subject.model).filename().string(),
             s.recall.file.empty() ? s.recall.task + " by length of the prompt"
                                   : "retrieval from " + std::filesystem::path(s.recall.file).filename().string());
  std::vector<std::vector<std::string>> t{{"kv", s.recall.file.empty() ? "length" : "file", "tokens", "trials", "exact",
                                           "ranked first", "ln P", "greedy = f32", "choice = f32", "|ln P - f32|"}};
  std::vector<RecallRow> groups = by_group(r.rows);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const RecallRow& g = groups[i];
    const auto n = static_cast<double>(g.trials);
    t.push_back({g.kv, g.group, std::to_string(g.tokens), std::to_string(g.trials),
                 eval_recall_percent(g.exact, g.trials), eval_recall_percent(g.first, g.trials),
                 fmt::format("{:.3f}", g.logprob / n), eval_recall_percent(g.same_greedy, g.trials),
                 eval_recall_percent(g.same_choice, g.trials), fmt::format("{:.4f}", g.logprob_shift / n)});
  }
  print_table(t);
  print_verdict(r);
}

void eval_recall_print_json(const EvalRecallSettings& s, const RecallReport& report) {
  for (const RecallRow& r : report.rows) {
    const auto n = static_cast<double>(r.trials);
    nlohmann::ordered_json row{{"kv", r.kv}};
    add_trials(s, r, report, row);
    row.update({{"same_greedy", static_cast<double>(r.same_greedy) / n},
                {"same_choice", static_cast<double>(r.same_choice) / n},
                {"logprob_shift", r.logprob_shift / n},
                {"ctx", s.subject.ctx},
                {"window", s.subject.window},
                {"residual", s.subject.residual},
                {"sinks", s.subject.sinks},
                {"model", std::filesystem::path(s.subject.model).filename().string()}});
    print_json_row(row);
  }
}

double ratio(double a, double b) { return b > 0 ? a / b : 1; }

void print_selected(const EvalRecallSettings& s, const SelectedReport& r) {
  std::vector<std::vector<std::string>> t{{"kv", "selector", "length", "tokens", "trials", "exact", "ranked first",
                                           "ln P", "greedy = dense", "read", "mass"}};
  for (const SelectedRow& g : by_group(r.rows))
    t.push_back({g.kv, g.select, g.group, std::to_string(g.tokens), std::to_string(g.trials),
                 eval_recall_percent(g.exact, g.trials), eval_recall_percent(g.first, g.trials),
                 fmt::format("{:.3f}", g.logprob / static_cast<double>(g.trials)),
                 eval_recall_percent(g.same, g.trials), fmt::format("{:.1f} %", 100 * ratio(g.read, g.seen)),
                 g.mean_mass() ? fmt::format("{:.1f} %", 100 * *g.mean_mass()) : ""});
  const std::string title = fmt::format("{}: {}", std::filesystem::path(s.subject.model).filename().string(),
                                        s.recall.file.empty() ? s.recall.task : s.recall.file);
  fmt::print("{}, the last {} tokens of the prompt and the answer as generated tokens\n\n", title, s.recall.asked);
  print_table(t);
  fmt::print("\nWithout looking, a model ranks the right answer first in {:.1f} % of {} trials.\n", 100 * r.chance,
             r.dense.trials);
  print_skill(r.skill(), "dense attention", eval_recall_percent(r.dense.first, r.dense.trials), r.guessing, "selector");
  if (s.recall.plot.empty()) return;
  lab::eval::Plot plot{.title = title,
                       .subtitle = "the right answer has the highest probability",
                       .note = "",
                       .x_label = "tokens of the prompt",
                       .y_label = "% of the trials",
                       .points = {}};
  for (const SelectedRow& g : by_group(r.rows)) {
    const std::string label = g.kv + " " + g.select;
    auto line = std::find_if(plot.lines.begin(), plot.lines.end(), [&](const auto& l) { return l.label == label; });
    if (line == plot.lines.end()) line = plot.lines.insert(line, {label, {}});
    line->points.push_back({static_cast<double>(g.tokens),
                            std::max(0.1, 100 * static_cast<double>(g.first) / static_cast<double>(g.trials))});
  }
  write_plot(plot, t, s.recall.plot);
}

void print_selected_json(const EvalRecallSettings& s, const SelectedReport& report) {
  for (const SelectedRow& r : report.rows) {
    const auto n = static_cast<double>(r.trials);
    nlohmann::ordered_json row{{"kv", r.kv}, {"select", r.select}};
    add_trials(s, r, report, row);
    row.update({{"same_greedy", static_cast<double>(r.same) / n},
                {"read", ratio(r.read, r.seen)},
                {"mass", r.mean_mass() ? nlohmann::ordered_json(*r.mean_mass()) : nlohmann::ordered_json()},
                {"asked", s.recall.asked},
                {"ctx", s.subject.ctx},
                {"model", std::filesystem::path(s.subject.model).filename().string()}});
    print_json_row(row);
  }
}

int run_recall(EvalRecallSettings& s) {
  if (!s.recall.plot.empty()) lab::eval::check_plot_path(s.recall.plot);
  const std::vector<std::string> selectors =
      s.recall.select.empty() ? std::vector<std::string>{} : lab::eval::split_kv(s.recall.select);
  if (!s.recall.lengths.empty()) {
    const auto lengths = parse_list(s.recall.lengths, 1 << 24, "--lengths");
    s.subject.ctx =
        std::max(s.subject.ctx, static_cast<std::int32_t>(*std::max_element(lengths.begin(), lengths.end())));
  }
  EvalRun run("eval recall", "asking");
  lab::eval::Subject::Needs needs{.sequences = 2, .extra_tokens = s.subject.ctx};
  if (!selectors.empty()) needs = lab::eval::selection_needs(selectors, s.subject.ctx);
  lab::eval::Subject subject(s.subject, needs);
  const lab::eval::FileProbes probes = make_probes(s, subject);
  if (probes.too_long > 0)
    fmt::print(stderr, "kvasir: {}: left out {} of {} samples, which do not fit into --ctx {}\n", s.recall.file,
               probes.too_long, probes.too_long + static_cast<std::int64_t>(probes.probes.size()), s.subject.ctx);
  run.load(subject);
  if (!selectors.empty()) {
    const SelectedReport report = measure_selected(subject, selectors, probes.probes, s.recall.asked, run.progress());
    run.bar().finish();
    s.recall.json ? print_selected_json(s, report) : print_selected(s, report);
    return kSuccess;
  }
  const RecallReport report = measure_recall(subject, probes.probes, run.progress());
  run.bar().finish();
  s.recall.json ? eval_recall_print_json(s, report) : eval_recall_print_report(s, report);
  return kSuccess;
}

}  // namespace

Action setup_eval_recall(Flags& flags) {
  auto settings = std::make_shared<EvalRecallSettings>();
  return eval_action(flags, settings, eval_recall_table(), &EvalRecallSettings::recall, run_recall);
}

}  // namespace kvasir::cli
