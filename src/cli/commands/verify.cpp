// kvasir verify -m MODEL --prompts FILE: whether reuse changes answers, on somebody's own prompts.
#include "lab/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/auto_codecs.hpp"
#include "cli/chat_format.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/reuse_options.hpp"
#include "cli/terminal.hpp"
#include "run/engine.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "serve/prompt_file.hpp"
#include "store/library.hpp"
#include "weights/parts.hpp"

namespace kvasir::cli::commands_verify {
namespace {

using lab::VerifyRow;

struct VerifyOptions {
  std::string prompts, chat_template;
  std::int32_t n = 16;
  double tolerance = 1e-3;
  bool json = false;
};

const OptionTable<VerifyOptions>& table() {
  using O = VerifyOptions;
  static const OptionTable<O> t{
      "verify",
      {{"prompts",
        &O::prompts,
        {.help = "one per line: text, or an object with `prompt` or `messages` as of a request",
         .placeholder = "FILE",
         .required = true}},
       {"n_predict",
        &O::n,
        {.help = "most tokens of an answer", .unit = "tokens", .letter = 'n', .low = 1, .high = 1 << 20}},
       {"tolerance",
        &O::tolerance,
        {.help = "most that the log-probability of a token may differ; 0 asks for the same bits",
         .unit = "nats",
         .low = 0,
         .high = 10}},
       {"chat_template",
        &O::chat_template,
        {.help = "a Jinja chat template in place of the model's own", .placeholder = "FILE"}},
       {"json", &O::json, {.help = "one object per prompt, and one for all"}}}};
  return t;
}

struct Settings {
  run::EngineOptions engine;
  VerifyOptions verify;
  ReuseOptions reuse;
};

void print(std::size_t number, const VerifyRow& r, double tolerance) {
  fmt::print("{:>6} {:>8} {:>12}, {:<8} {:>10}, {:<10}", number, r.prompt_tokens, r.reused_first, r.reused_again,
             human_seconds(r.plain_ttft), human_seconds(r.ttft));
  if (r.differs_at >= 0)
    fmt::print(" token {} of the answer is another one", r.differs_at);
  else if (!r.same(tolerance))
    fmt::print(" a log-probability differs by {:.3g} nats", r.difference);
  fmt::print("\n");
}

void print_json(std::size_t number, const VerifyRow& r, double tolerance) {
  print_json_row({{"prompt", number},
                  {"prompt_tokens", r.prompt_tokens},
                  {"reused_first", r.reused_first},
                  {"reused_again", r.reused_again},
                  {"same", r.same(tolerance)},
                  {"differs_at", r.differs_at < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(r.differs_at)},
                  {"largest_difference", r.difference},
                  {"plain_ttft_ms", 1e3 * r.plain_ttft},
                  {"ttft_ms", 1e3 * r.ttft}});
}

// Prints what came out; returns the exit status.
int report(const std::vector<VerifyRow>& rows, const VerifyOptions& options) {
  std::int64_t tokens = 0, reused = 0, wrong = 0;
  double largest = 0;
  if (!options.json) fmt::print("prompt   tokens  reused first, again   time to first token without reuse, with it\n");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const VerifyRow& r = rows[i];
    tokens += 2 * r.prompt_tokens;
    reused += r.reused_first + r.reused_again;
    wrong += !r.same(options.tolerance);
    largest = std::max(largest, r.difference);
    options.json ? print_json(i + 1, r, options.tolerance) : print(i + 1, r, options.tolerance);
  }
  const bool passed = wrong == 0 && reused > 0;
  const std::string& miss = rows.back().miss;
  if (options.json)
    print_json_row({{"pass", passed},
                    {"prompts", rows.size()},
                    {"prompt_tokens", tokens},
                    {"reused_tokens", reused},
                    {"differing_answers", wrong},
                    {"largest_difference", largest}});
  else if (passed)
    fmt::print("PASS: answers to {} prompts are the same with reuse, which took {} of {} tokens\n", rows.size(), reused,
               tokens);
  else if (wrong > 0)
    fmt::print("FAIL: {} of {} answers differ with reuse\n", wrong, rows.size());
  else
    fmt::print("FAIL: nothing was reused, so nothing is verified{}\n", miss.empty() ? "" : " (" + miss + ")");
  return passed ? kSuccess : kFailure;
}

int verify_command(Settings& s) {
  s.engine.model = local_model(s.engine.model);
  std::vector<std::shared_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  if (tiers.empty())
    throw Error(Code::kBadInput, "is 0 and no other tier is named, so that nothing can be reused", "--ram-cache");
  ProgressBar loading("loading");
  run::Engine engine(s.engine, {.progress = [&](std::int64_t done, std::int64_t total) {
                       loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                     }});
  loading.finish();
  const text::Tokenizer* tokenizer = engine.tokenizer();
  if (!tokenizer) throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  choose_codecs(engine);
  store::Library library(engine.cache(), store::fingerprint_of(run::describe_cache(engine)), std::move(tiers));
  // One waits: an answer has ended for its listener a moment before it has for the scheduler.
  run::Scheduler scheduler(engine, {.running = 1, .waiting = 1}, weights::model_name(s.engine.model), &library);
  const run::ModelCard& card = scheduler.card();
  const auto chat =
      open_chat(card.chat_template, *tokenizer, s.verify.chat_template, s.engine.model, card.named_templates);
  std::vector<run::ServiceRequest> requests =
      serve::read_prompt_file(s.verify.prompts, card, *tokenizer, chat.get(), true);
  ProgressBar bar("verifying");
  Interrupt interrupt;
  const auto rows = lab::verify(scheduler, std::move(requests), s.verify.n, [&](std::size_t done, std::size_t total) {
    bar.update(done, total);
    return !interrupt.requested().load(std::memory_order_relaxed);
  });
  bar.finish();
  return report(rows, s.verify);
}

Action setup(Flags& flags) {
  const auto settings = std::make_shared<Settings>();
  add_options(flags, run::engine_table(), settings->engine);
  add_options(flags, table(), settings->verify);
  add_options(flags, reuse_table(), settings->reuse);
  return [settings] { return verify_command(*settings); };
}

}  // namespace

const Command entry{"check that reuse does not change answers, on your own prompts", setup};

}  // namespace kvasir::cli::commands_verify
