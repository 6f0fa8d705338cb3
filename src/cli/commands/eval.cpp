// kvasir eval ppl|codec|recall|tasks|answers|mass|blend: what a compressed cache, or a choice of what to read, costs in
// quality.
#include "cli/eval.hpp"

#include <memory>
#include <vector>

#include "cli/command.hpp"
#include "cli/flags.hpp"

namespace kvasir::cli::commands_eval {
namespace {

struct Subcommand {
  const char* name;
  const char* summary;
  Action (*setup)(Flags&);
};
constexpr Subcommand kSubcommands[] = {
    {"ppl", "perplexity of a text and divergence from an f32 cache, per choice of codecs", setup_eval_ppl},
    {"codec", "signal-to-noise, score and output errors of codecs on captured keys and values", setup_eval_codec},
    {"recall", "retrieval from long prompts and agreement with an f32 cache", setup_eval_recall},
    {"mass", "attention mass that selectors hold, per budget and layer, of a model's own queries", setup_eval_mass},
    {"tasks", "questions about long texts, made or of LongBench and InfiniteBench, with their scores",
     setup_eval_tasks},
    {"answers", "greedy answers to a list of prompts beside those of an f32 cache", setup_eval_answers},
    {"blend", "what text at another place costs in quality, over shares of rows that are computed again",
     setup_eval_blend},
};

Action setup(Flags& flags) {
  flags.require_command();
  std::vector<std::pair<Flags*, Action>> subcommands;
  for (const Subcommand& p : kSubcommands) {
    Flags& sub = flags.command(p.name, p.summary);
    subcommands.emplace_back(&sub, p.setup(sub));
  }
  return [subcommands] {
    for (const auto& [sub, action] : subcommands)
      if (sub->chosen()) return action();
    return kBadUsage;
  };
}

}  // namespace

const Command entry{"measure the quality of compressed caches", setup};

}  // namespace kvasir::cli::commands_eval
