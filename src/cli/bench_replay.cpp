// kvasir bench replay: conversations with reuse and without it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bench.hpp"
#include "cli/eval.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/options_cli.hpp"
#include "cli/terminal.hpp"
#include "run/eval/statistics.hpp"
#include "run/replay.hpp"

namespace kvasir::cli {
namespace {

using run::ReplayTurn;

double percentile_of(std::vector<float> values, double share) { return run::eval::percentile(values, share); }

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 1;
}

void print_turns(const std::vector<ReplayTurn>& turns, bool compared) {
  std::vector<std::vector<std::string>> table{{"turn", "requests", "context", "TTFT p50 ms", "p90", "p99", "without",
                                               "x", "reused", "of reusable", "same bits", "same text", "difference"}};
  for (const ReplayTurn& t : turns) {
    const auto n = static_cast<std::int64_t>(t.ttft.size());
    const double cached = percentile_of(t.ttft, 0.5), plain = percentile_of(t.plain_ttft, 0.5);
    table.push_back(
        {std::to_string(t.turn), std::to_string(n), fmt::format("{}", t.prompt_tokens / std::max<std::int64_t>(n, 1)),
         fmt::format("{:.2f}", 1e3 * cached), fmt::format("{:.2f}", 1e3 * percentile_of(t.ttft, 0.9)),
         fmt::format("{:.2f}", 1e3 * percentile_of(t.ttft, 0.99)), compared ? fmt::format("{:.2f}", 1e3 * plain) : "-",
         compared ? fmt::format("{:.1f}", plain / cached) : "-",
         fmt::format("{:.1f} %", 100 * share(t.reused_tokens, t.prompt_tokens)),
         fmt::format("{:.2f} %", 100 * share(t.reused_tokens, t.reusable_tokens)),
         compared ? fmt::format("{:.1f} %", 100 * share(t.same_bits, n)) : "-",
         compared ? fmt::format("{:.1f} %", 100 * share(t.same_text, n)) : "-",
         compared ? fmt::format("{:.1e}", t.largest_difference) : "-"});
  }
  print_table(table);
}

void print_json(const std::vector<ReplayTurn>& turns) {
  for (const ReplayTurn& t : turns) {
    nlohmann::ordered_json sources = nlohmann::ordered_json::object();
    for (const auto& [source, tokens] : t.tokens_by_source) sources[source] = tokens;
    print_json_row({{"turn", t.turn},
                    {"requests", t.ttft.size()},
                    {"prompt_tokens", t.prompt_tokens},
                    {"reused_tokens", t.reused_tokens},
                    {"reusable_tokens", t.reusable_tokens},
                    {"tokens_by_source", sources},
                    {"ttft_p50_ms", 1e3 * percentile_of(t.ttft, 0.5)},
                    {"ttft_p90_ms", 1e3 * percentile_of(t.ttft, 0.9)},
                    {"ttft_p99_ms", 1e3 * percentile_of(t.ttft, 0.99)},
                    {"plain_ttft_p50_ms", 1e3 * percentile_of(t.plain_ttft, 0.5)},
                    {"prompt_only", t.prompt_only},
                    {"same_bits_prompt_only", t.same_bits_prompt_only},
                    {"same_bits", t.same_bits},
                    {"same_text", t.same_text},
                    {"largest_difference", t.largest_difference}});
  }
}

struct Settings {
  run::EngineOptions engine;
  run::ReplayOptions replay;
  bool json = false;
};

int run_replay(const Settings& s) {
  Interrupt interrupt;
  ProgressBar progress("replaying");
  const std::vector<ReplayTurn> turns = run::replay(s.engine, s.replay, [&](std::int64_t done, std::int64_t total) {
    progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupt.requested().load(std::memory_order_relaxed);
  });
  progress.finish();
  s.json ? print_json(turns) : print_turns(turns, !s.replay.no_compare);
  return interrupt.requested().load(std::memory_order_relaxed) ? kFailure : kSuccess;
}

}  // namespace

Action setup_bench_replay(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  add_options(app, run::engine_table(), settings->engine);
  add_options(app, run::replay_table(), settings->replay);
  app.add_flag("--json", settings->json, "one object per turn");
  return [settings] { return run_replay(*settings); };
}

}  // namespace kvasir::cli
