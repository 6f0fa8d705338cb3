// kvasir bench beside: an answer beside a long prompt, and a short prompt behind it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "cli/auto_codecs.hpp"
#include "cli/bench.hpp"
#include "cli/config.hpp"
#include "cli/eval.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "lab/beside.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::cli {
namespace {

using lab::BesideRun;

struct BenchBesideSettings {
  run::EngineOptions engine;
  run::SchedulerOptions scheduler;
  lab::BesideOptions beside;
  bool json = false;
};

struct BesideStats {
  float alone = 0, beside = 0, ratio = 0, short_alone = 0, short_behind = 0;  // medians of runs
  std::vector<float> gaps_alone, gaps;                                        // of all runs
};

float median_of(const std::vector<BesideRun>& runs, const std::function<double(const BesideRun&)>& figure) {
  std::vector<float> values;
  for (const BesideRun& r : runs) values.push_back(static_cast<float>(figure(r)));
  return static_cast<float>(lab::eval::percentile(values, 0.5));
}

BesideStats stats_of(const std::vector<BesideRun>& runs) {
  BesideStats f;
  f.alone = median_of(runs, [](const BesideRun& r) { return r.alone; });
  f.beside = median_of(runs, [](const BesideRun& r) { return r.beside; });
  f.ratio = median_of(runs, [](const BesideRun& r) { return r.beside / r.alone; });
  f.short_alone = median_of(runs, [](const BesideRun& r) { return r.short_alone; });
  f.short_behind = median_of(runs, [](const BesideRun& r) { return r.short_behind; });
  for (const BesideRun& r : runs) {
    f.gaps_alone.insert(f.gaps_alone.end(), r.gaps_alone.begin(), r.gaps_alone.end());
    f.gaps.insert(f.gaps.end(), r.gaps.begin(), r.gaps.end());
  }
  return f;
}

double gap_ms(std::vector<float> gaps, double share) { return 1e3 * lab::eval::percentile(gaps, share); }

std::vector<std::string> gap_row(const char* name, const std::vector<float>& gaps, float prompt, float shorter) {
  return {name,
          std::to_string(gaps.size()),
          fmt::format("{:.0f}", gap_ms(gaps, 0.5)),
          fmt::format("{:.0f}", gap_ms(gaps, 0.95)),
          fmt::format("{:.0f}", gap_ms(gaps, 1)),
          fmt::format("{:.2f}", prompt),
          fmt::format("{:.2f}", shorter)};
}

int run_beside(BenchBesideSettings& s) {
  s.engine.model = local_model(s.engine.model);
  const std::int64_t pool = s.beside.prompt + 2LL * (s.beside.shorter + s.beside.tokens) + 1024;
  if (s.engine.ctx == 0) s.engine.ctx = s.beside.prompt + 256;
  s.scheduler.running = 3;
  ProgressBar loading("loading");
  run::Engine engine(s.engine, {.sequences = s.scheduler.running,
                                .pool_tokens = std::max<std::int64_t>(pool, s.engine.ctx),
                                .logits = s.scheduler.running,
                                .progress = [&](std::int64_t done, std::int64_t total) {
                                  loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                                }});
  loading.finish();
  choose_codecs(engine);
  Interrupt interrupt;
  ProgressBar progress("measuring");
  const auto runs = lab::measure_beside(engine, s.scheduler, s.beside, [&](std::int64_t done, std::int64_t total) {
    progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupt.requested().load(std::memory_order_relaxed);
  });
  progress.finish();
  if (runs.empty()) return kFailure;
  const BesideStats f = stats_of(runs);
  if (s.json) {
    print_json_row({{"prompt_tokens", s.beside.prompt},
                    {"answer_tokens", s.beside.tokens},
                    {"step_ms", s.scheduler.step_ms},
                    {"step_tokens", s.scheduler.step_tokens},
                    {"runs", runs.size()},
                    {"prompt_alone_s", f.alone},
                    {"prompt_beside_s", f.beside},
                    {"prompt_ratio", f.ratio},
                    {"gaps", f.gaps.size()},
                    {"gap_alone_p50_ms", gap_ms(f.gaps_alone, 0.5)},
                    {"gap_alone_p95_ms", gap_ms(f.gaps_alone, 0.95)},
                    {"gap_p50_ms", gap_ms(f.gaps, 0.5)},
                    {"gap_p95_ms", gap_ms(f.gaps, 0.95)},
                    {"gap_most_ms", gap_ms(f.gaps, 1)},
                    {"short_alone_s", f.short_alone},
                    {"short_behind_s", f.short_behind}});
  } else {
    print_table({{"", "gaps", "p50 ms", "p95", "most", "prompt s", "short prompt s"},
                 gap_row("alone", f.gaps_alone, f.alone, f.short_alone),
                 gap_row("beside each other", f.gaps, f.beside, f.short_behind)});
    fmt::print("the prompt took {:.2f} times as long\n", f.ratio);
  }
  return interrupt.requested().load(std::memory_order_relaxed) ? kFailure : kSuccess;
}

}  // namespace

Action setup_bench_beside(Flags& flags) {
  const auto settings = std::make_shared<BenchBesideSettings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, run::scheduler_table(), settings->scheduler, {"running", "waiting"});
  config->add(flags, lab::beside_table(), settings->beside);
  flags.flag("--json", settings->json, "one object with the figures");
  return [settings, config] { return config->resolve() ? run_beside(*settings) : kSuccess; };
}

}  // namespace kvasir::cli
