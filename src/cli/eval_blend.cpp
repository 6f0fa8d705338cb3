// kvasir eval blend: the self-test of blending, over ratios.
#include <fmt/format.h>

#include <memory>

#include "base/error.hpp"
#include "cli/config.hpp"
#include "cli/eval.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "kv/spec.hpp"
#include "run/blend_gate.hpp"

namespace kvasir::cli {
namespace {

struct EvalBlendSettings {
  run::EngineOptions engine;
  run::BlendOptions blend;
  bool json = false;
};

int run_blend(EvalBlendSettings& s) {
  s.engine.model = local_model(s.engine.model);
  if (s.engine.ctx == 0) s.engine.ctx = 2048;
  s.engine.whole_windows = true;
  run::Engine engine(s.engine, {.sequences = 3, .pool_tokens = 3LL * s.engine.ctx, .logits = 16});
  const run::BlendVerdict v = run::test_blend(engine, s.blend, {0.05f, 0.15f, 0.3f, 0.5f, 1.0f});
  std::vector<std::vector<std::string>> table{{"", "computed", "mean KL", "same token"}};
  for (const run::BlendTrial& t : v.trials) {
    if (s.json)
      print_json_row(
          {{"way", t.name}, {"ratio", t.ratio}, {"computed", t.computed}, {"mean_kl", t.kl}, {"same", t.same}});
    table.push_back({t.name, fmt::format("{:.0f} %", 100 * t.computed), fmt::format("{:.4f}", t.kl),
                     fmt::format("{:.1f} %", 100 * t.same)});
  }
  if (s.json) {
    print_json_row({{"allowed", v.allowed},
                    {"ratio", v.ratio},
                    {"mean_kl", v.kl},
                    {"turned", v.turned},
                    {"why_not", v.why},
                    {"seconds", v.seconds}});
  } else {
    fmt::print("{}: KV {}\n", s.engine.model, kv::codecs_text(engine.codecs()));
    if (!v.trials.empty()) print_table(table);
    fmt::print("keys and values of the first layer at another place: {:.5f} of their squares\n", v.turned);
    v.allowed ? fmt::print("blending is allowed from ratio {:g} on\n", v.ratio)
              : fmt::print("blending is not allowed: {}\n", v.why);
  }
  return v.allowed ? kSuccess : kFailure;
}

}  // namespace

Action setup_eval_blend(Flags& flags) {
  auto settings = std::make_shared<EvalBlendSettings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, run::blend_table(), settings->blend, {"reuse", "blend_strategy"});
  flags.flag("--json", settings->json, "one object per way, and one for the verdict");
  return [settings, config] { return config->resolve() ? run_blend(*settings) : kSuccess; };
}

}  // namespace kvasir::cli
