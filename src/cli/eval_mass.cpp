// kvasir eval mass: the share of dense attention's mass that selectors hold, per budget and layer.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/eval.hpp"
#include "cli/eval_run.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "lab/eval/plot.hpp"
#include "lab/eval/selection_trial.hpp"

namespace kvasir::cli {
namespace {

using lab::eval::MassRow;

struct MassOptions {
  std::string file;
  std::string select = "quest,mean,spread,sink_recent";
  std::string budgets = "1%,2%,5%,10%,20%";
  std::int32_t queries = 16;
  std::string plot;
  bool json = false;
};

const OptionTable<MassOptions>& eval_mass_table() {
  using O = MassOptions;
  static const OptionTable<O> t{
      "mass",
      {{"file",
        &O::file,
        {.help = "a text with as many tokens as --ctx", .letter = 'f', .placeholder = "FILE", .required = true}},
       {"select", &O::select, {.help = "selectors, a list (see docs/long-context.md)", .placeholder = "LIST"}},
       {"budgets",
        &O::budgets,
        {.help = "budgets that each is measured with, a list; empty: its own", .placeholder = "LIST"}},
       {"queries",
        &O::queries,
        {.help = "last tokens of the text whose queries are measured", .unit = "tokens", .low = 1, .high = 1 << 16}},
       {"plot",
        &O::plot,
        {.help = "draw the mass over the tokens that are read into a .svg, .html or .png", .placeholder = "FILE"}},
       {"json", &O::json, {.help = "one object per selector and budget, each layer in it"}}}};
  return t;
}

struct EvalMassSettings {
  MassOptions mass;
  lab::eval::SubjectOptions subject;
};

constexpr std::size_t kFirst = 2;  // of the layers that means are taken over: the first two look everywhere

std::vector<std::vector<std::string>> eval_mass_cells(const std::vector<MassRow>& rows) {
  std::vector<std::vector<std::string>> t{{"kv", "selector", "read", "mean", "best", "KL", "same token"}};
  std::size_t layers = 0;
  for (const MassRow& r : rows) layers = std::max(layers, r.mass.size());
  for (std::size_t l = 0; l < layers; ++l) t[0].push_back(std::to_string(l));
  for (const MassRow& r : rows) {
    MassRow best = r;
    best.mass = r.best;
    t.push_back({r.kv, r.select, fmt::format("{:.1f} %", 100 * r.read), fmt::format("{:.3f}", r.mean_from(kFirst)),
                 fmt::format("{:.3f}", best.mean_from(kFirst)), fmt::format("{:.2e}", r.kl),
                 fmt::format("{:.0f} %", 100 * r.same)});
    for (const double m : r.mass) t.back().push_back(fmt::format("{:.3f}", m));
  }
  return t;
}

void print_report(const EvalMassSettings& s, const std::vector<MassRow>& rows) {
  const std::string title = fmt::format("{}, {}: {} tokens", std::filesystem::path(s.subject.model).filename().string(),
                                        std::filesystem::path(s.mass.file).filename().string(), s.subject.ctx);
  fmt::print("{}, the last {} as queries\n", title, s.mass.queries);
  fmt::print(
      "share of dense attention's mass that is read; mean over the layers from {} on; best: the best choice of "
      "as many blocks; KL and the same most probable token: of what follows, beside dense attention; then each "
      "layer\n\n",
      kFirst);
  const auto t = eval_mass_cells(rows);
  print_table(t);
  if (s.mass.plot.empty()) return;
  lab::eval::Plot plot{.title = title,
                       .subtitle = "attention mass of the tokens that are read, mean over the layers from 2 on",
                       .note = "",
                       .x_label = "% of the tokens",
                       .y_label = "% of the mass",
                       .points = {}};
  for (const MassRow& r : rows) {
    const std::string label = r.kv + " " + r.select.substr(0, r.select.find(":budget="));
    auto line = std::find_if(plot.lines.begin(), plot.lines.end(), [&](const auto& l) { return l.label == label; });
    if (line == plot.lines.end()) line = plot.lines.insert(plot.lines.end(), {label, {}});
    line->points.push_back({100 * r.read, 100 * r.mean_from(kFirst)});
  }
  for (auto& line : plot.lines)
    std::sort(line.points.begin(), line.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  write_plot(plot, t, s.mass.plot);
}

void eval_mass_print_json(const EvalMassSettings& s, const std::vector<MassRow>& rows) {
  for (const MassRow& r : rows)
    print_json_row(nlohmann::ordered_json{{"kv", r.kv},
                                          {"select", r.select},
                                          {"read", r.read},
                                          {"mass", r.mean_from(kFirst)},
                                          {"mass_by_layer", r.mass},
                                          {"best_by_layer", r.best},
                                          {"kl", r.kl},
                                          {"same_token", r.same},
                                          {"queries", s.mass.queries},
                                          {"tokens", s.subject.ctx},
                                          {"file", std::filesystem::path(s.mass.file).filename().string()},
                                          {"model", std::filesystem::path(s.subject.model).filename().string()}});
}

int run_mass(EvalMassSettings& s) {
  if (!s.mass.plot.empty()) lab::eval::check_plot_path(s.mass.plot);
  std::vector<std::string> specs;
  for (const std::string& name : lab::eval::split_kv(s.mass.select)) {
    if (s.mass.budgets.empty()) specs.push_back(name);
    for (const std::string& budget :
         s.mass.budgets.empty() ? std::vector<std::string>{} : lab::eval::split_kv(s.mass.budgets))
      specs.push_back(name + ":budget=" + budget);
  }
  if (s.mass.queries >= s.subject.ctx)
    throw Error(Code::kBadInput, fmt::format("is {}, expected fewer than --ctx, {}", s.mass.queries, s.subject.ctx),
                "--queries");
  const std::string text = read_text_file(s.mass.file);
  EvalRun run("eval mass", "reading");
  lab::eval::Subject subject(s.subject, lab::eval::selection_needs(specs, s.subject.ctx));
  std::vector<std::int32_t> ids = subject.tokenizer().encode(text, {.add_bos = subject.tokenizer().add_bos()});
  if (static_cast<std::int64_t>(ids.size()) < s.subject.ctx)
    throw Error(Code::kBadInput, fmt::format("has {} tokens, --ctx wants {}", ids.size(), s.subject.ctx), s.mass.file);
  ids.resize(static_cast<std::size_t>(s.subject.ctx));
  run.load(subject);
  const auto rows = measure_mass(subject, specs, ids, s.mass.queries, run.progress());
  run.bar().finish();
  s.mass.json ? eval_mass_print_json(s, rows) : print_report(s, rows);
  return kSuccess;
}

}  // namespace

Action setup_eval_mass(Flags& flags) {
  auto settings = std::make_shared<EvalMassSettings>();
  return eval_action(flags, settings, eval_mass_table(), &EvalMassSettings::mass, run_mass);
}

}  // namespace kvasir::cli
