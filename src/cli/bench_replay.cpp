// kvasir bench replay: conversations with reuse and without it.
#include <fmt/format.h>

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
  std::string plot;
  bool json = false;
};

double bench_replay_percentile_of(std::vector<float> values, double share) {
  return lab::eval::percentile(values, share);
}

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 1;
}

std::vector<std::vector<std::string>> bench_replay_cells(const std::vector<ReplayTurn>& turns, bool compared) {
  std::vector<std::vector<std::string>> table{{"turn", "requests", "context", "TTFT p50 ms", "p90", "p99", "without",
                                               "x", "reused", "of reusable", "same bits", "same text", "difference"}};
  for (const ReplayTurn& t : turns) {
    const auto n = static_cast<std::int64_t>(t.ttft.size());
    const double cached = bench_replay_percentile_of(t.ttft, 0.5),
                 plain = bench_replay_percentile_of(t.plain_ttft, 0.5);
    const bool bits = compared && t.same_bits >= 0;
    table.push_back(
        {std::to_string(t.turn), std::to_string(n), fmt::format("{}", t.prompt_tokens / std::max<std::int64_t>(n, 1)),
         fmt::format("{:.2f}", 1e3 * cached), fmt::format("{:.2f}", 1e3 * bench_replay_percentile_of(t.ttft, 0.9)),
         fmt::format("{:.2f}", 1e3 * bench_replay_percentile_of(t.ttft, 0.99)),
         compared ? fmt::format("{:.2f}", 1e3 * plain) : "-", compared ? fmt::format("{:.1f}", plain / cached) : "-",
         fmt::format("{:.1f} %", 100 * share(t.reused_tokens, t.prompt_tokens)),
         t.reusable_tokens < 0 ? "-" : fmt::format("{:.2f} %", 100 * share(t.reused_tokens, t.reusable_tokens)),
         bits ? fmt::format("{:.1f} %", 100 * share(t.same_bits, n)) : "-",
         compared ? fmt::format("{:.1f} %", 100 * share(t.same_text, n)) : "-",
         bits ? fmt::format("{:.1e}", t.largest_difference) : "-"});
  }
  return table;
}

void bench_replay_print_json(const std::vector<ReplayTurn>& turns) {
  for (const ReplayTurn& t : turns) {
    nlohmann::ordered_json sources = nlohmann::ordered_json::object();
    for (const auto& [source, tokens] : t.tokens_by_source) sources[source] = tokens;
    print_json_row({{"turn", t.turn},
                    {"requests", t.ttft.size()},
                    {"prompt_tokens", t.prompt_tokens},
                    {"reused_tokens", t.reused_tokens},
                    {"reusable_tokens", t.reusable_tokens},
                    {"tokens_by_source", sources},
                    {"ttft_p50_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.5)},
                    {"ttft_p90_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.9)},
                    {"ttft_p99_ms", 1e3 * bench_replay_percentile_of(t.ttft, 0.99)},
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
}

// What the server reused although it was asked not to, of the comparison's tokens: it does not know how.
double reused_in_vain(const std::vector<ReplayTurn>& turns) {
  std::int64_t reused = 0, prompts = 0;
  for (const ReplayTurn& t : turns) reused += t.plain_reused, prompts += t.prompt_tokens;
  return prompts > 0 ? static_cast<double>(reused) / static_cast<double>(prompts) : 0;
}

void bench_replay_plot(const BenchReplaySettings& s, const std::vector<ReplayTurn>& turns, bool compared) {
  lab::eval::PlotLine with{"with reuse", {}}, without{"without", {}};
  std::int64_t requests = 0;
  for (const ReplayTurn& t : turns) {
    requests += static_cast<std::int64_t>(t.ttft.size());
    with.points.push_back({static_cast<double>(t.turn), 1e3 * bench_replay_percentile_of(t.ttft, 0.5)});
    if (compared)
      without.points.push_back({static_cast<double>(t.turn), 1e3 * bench_replay_percentile_of(t.plain_ttft, 0.5)});
  }
  lab::eval::Plot p{.title = "Time to the first token as conversations grow",
                    .subtitle = fmt::format(
                        "{}, {} answers, {} requests",
                        s.remote.url.empty() ? std::filesystem::path(s.engine.model).filename().string() : s.remote.url,
                        s.replay.answers, requests),
                    .x_label = "turn of the conversation",
                    .y_label = "median time to first token, ms",
                    .lines = {with}};
  if (!turns.empty())
    p.note = fmt::format(
        "context of a request: {} tokens at turn {}, {} at turn {}",
        turns.front().prompt_tokens / static_cast<std::int64_t>(turns.front().ttft.size()), turns.front().turn,
        turns.back().prompt_tokens / static_cast<std::int64_t>(turns.back().ttft.size()), turns.back().turn);
  if (compared) p.lines.push_back(without);
  write_plot(p, bench_replay_cells(turns, compared), s.plot);
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

int run_replay(const BenchReplaySettings& s, const Flags& flags) {
  if (!s.plot.empty()) lab::eval::check_plot_path(s.plot);
  Interrupt interrupt;
  const auto target = open_target(s, flags);
  ProgressBar progress("replaying");
  const std::vector<ReplayTurn> turns = lab::replay(*target, s.replay, [&](std::int64_t done, std::int64_t total) {
    progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupt.requested().load(std::memory_order_relaxed);
  });
  progress.finish();
  const double in_vain = reused_in_vain(turns);
  const bool compared = s.replay.compare && in_vain < 0.01;
  s.json ? bench_replay_print_json(turns) : print_table(bench_replay_cells(turns, compared));
  if (in_vain >= 0.01)
    fmt::print(stderr, "no comparison: asked not to reuse anything, the server reused {:.0f} % of the tokens\n",
               100 * in_vain);
  if (!s.plot.empty()) bench_replay_plot(s, turns, compared);
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
  flags.flag("--json", settings->json, "one object per turn");
  config->make_optional("--model");
  return [settings, config, &flags] {
    if (!config->resolve()) return kSuccess;
    settings->engine.model = local_model(settings->engine.model);
    return run_replay(*settings, flags);
  };
}

}  // namespace kvasir::cli
