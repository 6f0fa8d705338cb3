// kvasir bench rag: prompts of known documents in another order.
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
#include "kv/spec.hpp"
#include "lab/eval/plot.hpp"
#include "lab/eval/statistics.hpp"
#include "lab/rag.hpp"
#include "model/relocation.hpp"

namespace kvasir::cli {
namespace {

using lab::RagRow;

struct BenchRagSettings {
  run::EngineOptions engine;
  lab::RagOptions rag;
  run::BlendOptions blend;
  std::string plot;
  bool json = false;
};

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double percentile_of(std::vector<float> values, double share) { return lab::eval::percentile(values, share); }

double median(const std::vector<float>& values) { return percentile_of(values, 0.5); }

std::string percent(std::int64_t part, std::int64_t all) {
  return all > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all)) : "-";
}

std::vector<std::vector<std::string>> cells(const std::vector<RagRow>& rows) {
  std::vector<std::vector<std::string>> table{{"", "prompts", "TTFT p50 s", "p90", "p95", "x", "reused", "relocated",
                                               "repaired", "computed", "looking ms", "mean KL", "first token",
                                               "answers", "right", "equal or as right", "worse"}};
  const double cold = rows.empty() || rows[0].ttft.empty() ? 0 : median(rows[0].ttft);
  for (const RagRow& r : rows) {
    if (r.ttft.empty()) continue;
    const double ttft = median(r.ttft);
    table.push_back(
        {r.name, std::to_string(r.asked), fmt::format("{:.3f}", ttft),
         fmt::format("{:.3f}", percentile_of(r.ttft, 0.9)), fmt::format("{:.3f}", percentile_of(r.ttft, 0.95)),
         fmt::format("{:.3f}", cold / ttft), percent(r.reused, r.prompt_tokens), percent(r.relocated, r.prompt_tokens),
         percent(r.repaired, r.prompt_tokens), percent(r.prompt_tokens - r.reused - r.relocated, r.prompt_tokens),
         fmt::format("{:.1f}", 1e3 * median(r.looking)), fmt::format("{:.4f}", mean(r.kl)),
         percent(r.same_first, r.asked), percent(r.same_answer, r.asked), percent(r.right, r.asked),
         percent(r.as_good, r.asked), percent(r.worse, r.asked)});
  }
  return table;
}

// How right answers are by the share of their prompts that was not computed.
std::vector<std::vector<std::string>> cells_by_reuse(const std::vector<RagRow>& rows) {
  std::vector<std::vector<std::string>> table{
      {"", "not computed", "prompts", "right", "right when cold", "same answer"}};
  for (const RagRow& r : rows)
    for (const lab::RagBucket& b : r.by_reuse)
      if (b.asked > 0 && &r != &rows.front())
        table.push_back({r.name, fmt::format("{:.0f} to {:.0f} %", 100 * b.from, 100 * b.from + 25),
                         std::to_string(b.asked), percent(b.right, b.asked), percent(b.cold_right, b.asked),
                         percent(b.same_answer, b.asked)});
  return table;
}

void print_json(const std::vector<RagRow>& rows) {
  for (const RagRow& r : rows) {
    if (r.ttft.empty()) continue;
    auto buckets = nlohmann::ordered_json::array();
    for (const lab::RagBucket& b : r.by_reuse)
      buckets.push_back({{"from", b.from},
                         {"prompts", b.asked},
                         {"right", b.right},
                         {"cold_right", b.cold_right},
                         {"same_answer", b.same_answer}});
    print_json_row({{"way", r.name},
                    {"prompts", r.asked},
                    {"ttft_p50_ms", 1e3 * median(r.ttft)},
                    {"ttft_p90_ms", 1e3 * percentile_of(r.ttft, 0.9)},
                    {"ttft_p95_ms", 1e3 * percentile_of(r.ttft, 0.95)},
                    {"prompt_tokens", r.prompt_tokens},
                    {"reused_tokens", r.reused},
                    {"relocated_tokens", r.relocated},
                    {"repaired_tokens", r.repaired},
                    {"looking_p50_ms", 1e3 * median(r.looking)},
                    {"mean_kl", mean(r.kl)},
                    {"same_first_token", r.same_first},
                    {"same_answer", r.same_answer},
                    {"right", r.right},
                    {"equal_or_as_right", r.as_good},
                    {"worse", r.worse},
                    {"by_reuse", std::move(buckets)},
                    {"refused", r.refused}});
  }
}

void plot(const BenchRagSettings& s, const std::vector<RagRow>& rows) {
  lab::eval::Plot p{.title = "Divergence against the time to the first token",
                    .subtitle = fmt::format("{}, {} documents of {} tokens, {}, {} prompts",
                                            std::filesystem::path(s.engine.model).filename().string(), s.rag.k,
                                            s.rag.tokens, s.rag.order, s.rag.questions),
                    .note = {},
                    .x_label = "median time to first token, s",
                    .y_label = "mean KL of the first token, nats",
                    .points = {}};
  for (const RagRow& r : rows)
    if (!r.ttft.empty() && mean(r.kl) > 0) p.points.push_back({r.name, median(r.ttft), mean(r.kl)});
  write_plot(p, cells(rows), s.plot);
}

int run_rag(BenchRagSettings& s) {
  if (!s.plot.empty()) lab::eval::check_plot_path(s.plot);
  s.engine.model = local_model(s.engine.model);
  if (s.engine.ctx == 0) s.engine.ctx = (s.rag.k + 1) * (s.rag.tokens + 16) + 512 + s.rag.answer;
  s.engine.whole_windows = true;
  Interrupt interrupt;
  // Borrowed pages, those of the check, and those of the exact store's prompt.
  run::Engine engine(s.engine, {.sequences = 3, .pool_tokens = 3LL * s.engine.ctx});
  if (!engine.tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  if (const std::string why = model::why_not_relocated(engine.model().spec(), true); !why.empty())
    throw Error(Code::kUnsupported, "text of this model is not relocated: " + why, s.engine.model);
  if (!s.json)
    fmt::print(stderr, "{}: KV {}, {} documents of {} tokens, {}\n", s.engine.model, kv::codecs_text(engine.codecs()),
               s.rag.k, s.rag.tokens, s.rag.order);
  ProgressBar progress("asking");
  const auto rows = lab::measure_rag(engine, s.rag, s.blend, [&](std::int64_t done, std::int64_t total) {
    progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupt.requested().load(std::memory_order_relaxed);
  });
  progress.finish();
  if (s.json) {
    print_json(rows);
  } else {
    print_table(cells(rows));
    fmt::print("\n");
    print_table(cells_by_reuse(rows));
  }
  for (const RagRow& r : rows)
    if (!s.json && !r.refused.empty()) fmt::print(stderr, "{}: {}\n", r.name, r.refused);
  if (!s.plot.empty()) plot(s, rows);
  return interrupt.requested().load(std::memory_order_relaxed) ? kFailure : kSuccess;
}

}  // namespace

Action setup_bench_rag(Flags& flags) {
  auto settings = std::make_shared<BenchRagSettings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, lab::rag_table(), settings->rag);
  config->add(flags, run::blend_table(), settings->blend, {"reuse", "blend_strategy", "blend_ratio"});
  flags.value("--plot", settings->plot, "draw divergence against time into a .svg, .html or .png",
              {.placeholder = "FILE"});
  flags.flag("--json", settings->json, "one object per way");
  return [settings, config] { return config->resolve() ? run_rag(*settings) : kSuccess; };
}

}  // namespace kvasir::cli
