// kvasir bench replay: conversations with reuse and without it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "cli/bench.hpp"
#include "cli/config.hpp"
#include "cli/eval.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/replay_rows.hpp"
#include "cli/terminal.hpp"
#include "client/load.hpp"
#include "client/remote_target.hpp"
#include "lab/eval/plot.hpp"
#include "lab/eval/statistics.hpp"
#include "lab/replay.hpp"

namespace kvasir::cli {
namespace {

using lab::ReplayTurn;

struct BenchReplaySettings {
  RemoteOptions remote;
  run::EngineOptions engine;
  lab::ReplayOptions replay;
  std::string plot, cdf, out, label;
  std::vector<std::string> rows;
  bool json = false;
};

double bench_replay_percentile_of(std::vector<float> values, double share) {
  return lab::eval::percentile(values, share);
}

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 1;
}

double requests_per_second(const ReplayTurn& t) {
  double seconds = 0;
  for (const float s : t.seconds) seconds += static_cast<double>(s);
  return seconds > 0 ? static_cast<double>(t.seconds.size()) / seconds : 0;
}

std::vector<std::string> bench_replay_line(const ReplayTurn& t, bool compared) {
  const auto n = static_cast<std::int64_t>(t.ttft.size());
  const auto ms = [&](double share) { return fmt::format("{:.2f}", 1e3 * bench_replay_percentile_of(t.ttft, share)); };
  const double cached = bench_replay_percentile_of(t.ttft, 0.5), plain = bench_replay_percentile_of(t.plain_ttft, 0.5);
  const bool bits = compared && t.same_bits >= 0;
  return {t.turn > 0 ? std::to_string(t.turn) : "all",
          std::to_string(n),
          fmt::format("{}", t.prompt_tokens / std::max<std::int64_t>(n, 1)),
          ms(0.5),
          ms(0.9),
          ms(0.95),
          ms(0.99),
          compared ? fmt::format("{:.2f}", 1e3 * plain) : "-",
          compared ? fmt::format("{:.1f}", plain / cached) : "-",
          fmt::format("{:.1f} %", 100 * share(t.reused_tokens, t.prompt_tokens)),
          t.reusable_tokens < 0 ? "-" : fmt::format("{:.2f} %", 100 * share(t.reused_tokens, t.reusable_tokens)),
          fmt::format("{:.2f}", requests_per_second(t)),
          bits ? fmt::format("{:.1f} %", 100 * share(t.same_bits, n)) : "-",
          compared ? fmt::format("{:.1f} %", 100 * share(t.same_text, n)) : "-",
          bits ? fmt::format("{:.1e}", t.largest_difference) : "-"};
}

std::vector<std::vector<std::string>> bench_replay_cells(const ReplayRun& run) {
  std::vector<std::vector<std::string>> table{{"turn", "requests", "context", "TTFT p50 ms", "p90", "p95", "p99",
                                               "without", "x", "reused", "of reusable", "requests/s", "same bits",
                                               "same text", "difference"}};
  for (const ReplayTurn& t : run.turns) table.push_back(bench_replay_line(t, run.compared));
  if (run.turns.size() > 1) table.push_back(bench_replay_line(lab::overall(run.turns), run.compared));
  return table;
}

void bench_replay_print_json(const ReplayTurn& t) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::object();
  for (const auto& [source, tokens] : t.tokens_by_source) sources[source] = tokens;
  print_json_row({{"turn", t.turn > 0 ? nlohmann::ordered_json(t.turn) : nlohmann::ordered_json("all")},
                  {"requests", t.ttft.size()},
                  {"prompt_tokens", t.prompt_tokens},
                  {"reused_tokens", t.reused_tokens},
                  {"hit_share", share(t.reused_tokens, t.prompt_tokens)},
                  {"reusable_tokens", t.reusable_tokens},
                  {"tokens_by_source", sources},
                  {"ttft_p50_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.5)},
                  {"ttft_p90_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.9)},
                  {"ttft_p95_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.95)},
                  {"ttft_p99_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.99)},
                  {"requests_per_second", requests_per_second(t)},
                  {"load_p50_ms", 1e3 * bench_replay_percentile_of(t.load, 0.5)},
                  {"loaded_bytes", t.loaded_bytes},
                  {"plain_ttft_p50_ms", 1e3 * bench_replay_percentile_of(t.plain_ttft, 0.5)},
                  {"prompt_only", t.prompt_only},
                  {"same_bits_prompt_only", t.same_bits_prompt_only},
                  {"same_bits", t.same_bits},
                  {"same_text", t.same_text},
                  {"largest_difference", t.largest_difference},
                  {"above_milli", t.above_milli},
                  {"plain_reused_tokens", t.plain_reused}});
}

// What the server reused although it was asked not to, of the comparison's tokens: it does not know how.
double reused_in_vain(const std::vector<ReplayTurn>& turns) {
  std::int64_t reused = 0, prompts = 0;
  for (const ReplayTurn& t : turns) reused += t.plain_reused, prompts += t.prompt_tokens;
  return prompts > 0 ? static_cast<double>(reused) / static_cast<double>(prompts) : 0;
}

// Of several runs each line says whose it is.
std::string line_name(const std::vector<ReplayRun>& runs, const ReplayRun& run, const char* how) {
  if (runs.size() == 1) return how;
  return run.compared ? run.what + ", " + how : run.what;
}

std::string requests_of(const std::vector<ReplayRun>& runs) {
  std::size_t requests = 0;
  for (const ReplayTurn& t : runs.front().turns) requests += t.ttft.size();
  return fmt::format("{}{} requests", runs.size() == 1 ? runs.front().what + ", " : "", requests);
}

std::vector<std::vector<std::string>> all_cells(const std::vector<ReplayRun>& runs) {
  std::vector<std::vector<std::string>> table;
  for (const ReplayRun& run : runs) {
    auto more = bench_replay_cells(run);
    for (auto& line : more) line.insert(line.begin(), &line == &more.front() ? "" : run.what);
    table.insert(table.end(), more.begin() + (table.empty() ? 0 : 1), more.end());
  }
  return table;
}

void plot_by_turn(const std::vector<ReplayRun>& runs, const std::string& path) {
  lab::eval::Plot p{.title = "Time to the first token as conversations grow",
                    .subtitle = requests_of(runs),
                    .x_label = "turn of the conversation",
                    .y_label = "median time to first token, ms"};
  for (const ReplayRun& run : runs) {
    lab::eval::PlotLine with{line_name(runs, run, "with reuse"), {}}, without{line_name(runs, run, "without"), {}};
    for (const ReplayTurn& t : run.turns) {
      with.points.push_back({static_cast<double>(t.turn), 1e3 * bench_replay_percentile_of(t.ttft, 0.5)});
      without.points.push_back({static_cast<double>(t.turn), 1e3 * bench_replay_percentile_of(t.plain_ttft, 0.5)});
    }
    p.lines.push_back(with);
    if (run.compared) p.lines.push_back(without);
  }
  const auto mean = [](const ReplayTurn& t) { return t.prompt_tokens / static_cast<std::int64_t>(t.ttft.size()); };
  const auto& turns = runs.front().turns;
  p.note = fmt::format("context of a request: {} tokens at turn {}, {} at turn {}", mean(turns.front()),
                       turns.front().turn, mean(turns.back()), turns.back().turn);
  write_plot(p, all_cells(runs), path);
}

// The distribution with its axes exchanged: the time by the share of requests that had their first token by then.
void plot_distribution(const std::vector<ReplayRun>& runs, const std::string& path) {
  lab::eval::Plot p{.title = "Time in which a share of the requests had their first token",
                    .subtitle = requests_of(runs) + ", all turns",
                    .x_label = "share of the requests, %",
                    .y_label = "time to first token, ms"};
  const auto add = [&](const std::string& name, const std::vector<float>& seconds) {
    lab::eval::PlotLine line{name, {}};
    for (int percent = 0; percent <= 100; percent += 5)
      line.points.push_back({static_cast<double>(percent), 1e3 * bench_replay_percentile_of(seconds, 0.01 * percent)});
    p.lines.push_back(line);
  };
  for (const ReplayRun& run : runs) {
    const ReplayTurn all = lab::overall(run.turns);
    add(line_name(runs, run, "with reuse"), all.ttft);
    if (run.compared) add(line_name(runs, run, "without"), all.plain_ttft);
  }
  write_plot(p, all_cells(runs), path);
}

void bench_replay_show(const BenchReplaySettings& s, const std::vector<ReplayRun>& runs) {
  for (const ReplayRun& run : runs) {
    if (run.turns.empty()) continue;
    if (s.json) {
      for (const ReplayTurn& t : run.turns) bench_replay_print_json(t);
      bench_replay_print_json(lab::overall(run.turns));
      continue;
    }
    if (runs.size() > 1) fmt::print("{}\n", run.what);
    print_table(bench_replay_cells(run));
  }
  const bool any = std::all_of(runs.begin(), runs.end(), [](const ReplayRun& r) { return !r.turns.empty(); });
  if (any && !s.plot.empty()) plot_by_turn(runs, s.plot);
  if (any && !s.cdf.empty()) plot_distribution(runs, s.cdf);
}

std::unique_ptr<lab::ReplayTarget> open_target(const BenchReplaySettings& s, const Flags& flags) {
  if (s.remote.url.empty() == s.engine.model.empty())
    throw Error(Code::kBadInput, "expected either --url or --model", "bench replay");
  if (s.remote.url.empty()) {
    check_unused(flags, {remote_table().title()}, "goes with --url");
    return lab::engine_target(s.engine, s.replay);
  }
  check_unused(flags, {run::engine_table().title()},
               "cannot be used with --url: how that server runs is its own affair");
  if (s.replay.restart_every > 0 || !s.replay.tiers.empty())
    throw Error(Code::kBadInput, "cannot be used with --url: what that server keeps is its own affair",
                s.replay.tiers.empty() ? "--restart-every" : "--tier");
  const client::Endpoint endpoint = endpoint_of(s.remote);
  return client::remote_target(endpoint, s.remote.model.empty() ? client::model_of(endpoint) : s.remote.model,
                               s.replay);
}

int redraw(const BenchReplaySettings& s, const Flags& flags) {
  check_unused(flags, {run::engine_table().title(), remote_table().title(), lab::replay_table().title()},
               "cannot be used with --rows, which asks nobody");
  std::vector<ReplayRun> runs;
  for (const std::string& path : s.rows)
    for (ReplayRun& run : read_replays(path)) runs.push_back(std::move(run));
  if (runs.empty()) throw Error(Code::kBadInput, "has no rows", s.rows.front());
  bench_replay_show(s, runs);
  return kSuccess;
}

int run_replay(const BenchReplaySettings& s, const Flags& flags) {
  for (const std::string& path : {s.plot, s.cdf})
    if (!path.empty()) lab::eval::check_plot_path(path);
  if (!s.rows.empty()) return redraw(s, flags);
  Interrupt interrupt;
  const auto target = open_target(s, flags);
  ProgressBar progress("replaying");
  const std::vector<ReplayTurn> turns = lab::replay(*target, s.replay, [&](std::int64_t done, std::int64_t total) {
    progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupt.requested().load(std::memory_order_relaxed);
  });
  progress.finish();
  const double in_vain = reused_in_vain(turns);
  const std::string answers = fmt::format(
      "{}, {} answers", s.remote.url.empty() ? std::filesystem::path(s.engine.model).filename().string() : s.remote.url,
      s.replay.answers);
  const ReplayRun run{s.label.empty() ? answers : s.label, turns, s.replay.compare && in_vain < 0.01};
  if (!s.out.empty()) append_replay(s.out, run);
  bench_replay_show(s, {run});
  if (in_vain >= 0.01)
    fmt::print(stderr, "no comparison: asked not to reuse anything, the server reused {:.0f} % of the tokens\n",
               100 * in_vain);
  return interrupt.requested().load(std::memory_order_relaxed) ? kFailure : kSuccess;
}

}  // namespace

Action setup_bench_replay(Flags& flags) {
  auto settings = std::make_shared<BenchReplaySettings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, remote_table(), settings->remote);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, lab::replay_table(), settings->replay);
  flags.value("--plot", settings->plot, "draw the time to the first token by turn into a .svg, .html or .png",
              {.placeholder = "FILE"});
  flags.value("--cdf", settings->cdf, "draw the distribution of the time to the first token into such a file",
              {.placeholder = "FILE"});
  flags.value("--out", settings->out, "append a row for every turn to this file, for --rows", {.placeholder = "FILE"});
  flags.value("--label", settings->label, "what the rows and pictures call this run; default: the model or URL");
  flags.values("--rows", settings->rows, -1, "ask nobody: table and pictures of the rows of these files",
               {.placeholder = "FILE"});
  flags.flag("--json", settings->json, "one object per turn, and one of all");
  config->make_optional("--model");
  config->make_optional("--conversations");
  return [settings, config, &flags] {
    if (!config->resolve()) return kSuccess;
    if (settings->rows.empty() && settings->replay.conversations.empty())
      throw Error(Code::kBadInput, "is required", "--conversations");
    settings->engine.model = local_model(settings->engine.model);
    return run_replay(*settings, flags);
  };
}

}  // namespace kvasir::cli
