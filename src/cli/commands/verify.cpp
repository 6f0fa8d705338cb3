// kvasir verify -m MODEL --prompts FILE: whether reuse changes answers, on somebody's own prompts. With --reuse blend:
// by how much the approximation does.
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
#include "run/blend.hpp"
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
  double tolerance = -1;
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
        {.help =
             "most that the log-probability of a token may differ; 0 asks for the same bits; -1 is 0.001, and 1 with "
             "--reuse blend",
         .unit = "nats",
         .low = -1,
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
  run::BlendOptions blend;

  bool blends() const { return blend.reuse == "blend"; }
};

void print(std::size_t number, const VerifyRow& r, double tolerance) {
  const std::int64_t a = r.approximate ? r.relocated : r.reused_first, b = r.approximate ? r.repaired : r.reused_again;
  fmt::print("{:>6} {:>8} {:>12}, {:<8} {:>10}, {:<10}", number, r.prompt_tokens, a, b, human_seconds(r.plain_ttft),
             human_seconds(r.ttft));
  if (r.differs_at >= 0) fmt::print(" token {} of the answer is another one", r.differs_at);
  if (r.difference > tolerance)
    fmt::print("{} a log-probability differs by {:.3g} nats", r.differs_at >= 0 ? "," : "", r.difference);
  fmt::print("\n");
}

void print_json(std::size_t number, const VerifyRow& r, double tolerance) {
  nlohmann::ordered_json row{{"prompt", number}, {"prompt_tokens", r.prompt_tokens}};
  if (r.approximate)
    row.update({{"relocated_tokens", r.relocated}, {"repaired_tokens", r.repaired}});
  else
    row.update({{"reused_first", r.reused_first}, {"reused_again", r.reused_again}});
  row.update({{"same", r.same(tolerance)},
              {"differs_at", r.differs_at < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(r.differs_at)},
              {"largest_difference", r.difference},
              {"plain_ttft_ms", 1e3 * r.plain_ttft},
              {"ttft_ms", 1e3 * r.ttft}});
  print_json_row(row);
}

// Of all prompts.
struct Sums {
  std::int64_t tokens = 0, reused = 0, repaired = 0, wrong = 0, other = 0;
  double largest = 0;
};

void print_exact(const Sums& s, std::size_t prompts, bool passed, const std::string& miss) {
  if (passed)
    fmt::print("PASS: answers to {} prompts are the same with reuse, which took {} of {} tokens\n", prompts, s.reused,
               s.tokens);
  else if (s.wrong > 0)
    fmt::print("FAIL: {} of {} answers differ with reuse\n", s.wrong, prompts);
  else
    fmt::print("FAIL: nothing was reused, so nothing is verified{}\n", miss.empty() ? "" : " (" + miss + ")");
}

void print_blended(const Sums& s, std::size_t prompts, double tolerance, bool passed, const std::string& why) {
  if (s.reused == 0)
    return fmt::print("FAIL: nothing was relocated, so nothing is verified{}\n", why.empty() ? "" : " (" + why + ")");
  fmt::print("{} of {} tokens were read as they had been computed at another place: an approximation\n", s.reused,
             s.tokens);
  if (passed)
    fmt::print("PASS: {} of {} answers are the same, and no log-probability differs by more than {:g} nats\n",
               static_cast<std::int64_t>(prompts) - s.other, prompts, tolerance);
  else
    fmt::print("FAIL: {} of {} answers differ by more than {:g} nats\n", s.wrong, prompts, tolerance);
}

// Prints what came out; returns the exit status.
int report(const std::vector<VerifyRow>& rows, const Settings& settings) {
  const bool blends = settings.blends(), json = settings.verify.json;
  const double tolerance = settings.verify.tolerance >= 0 ? settings.verify.tolerance : blends ? 1 : 1e-3;
  if (!json)
    fmt::print("prompt   tokens  {}   time to first token without reuse, with it\n",
               blends ? "relocated, repaired" : "reused first, again");
  Sums sums;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const VerifyRow& r = rows[i];
    sums.tokens += (blends ? 1 : 2) * r.prompt_tokens;
    sums.reused += blends ? r.relocated : r.reused_first + r.reused_again;
    sums.repaired += r.repaired;
    sums.wrong += !r.same(tolerance);
    sums.other += r.differs_at >= 0;
    sums.largest = std::max(sums.largest, r.difference);
    json ? print_json(i + 1, r, tolerance) : print(i + 1, r, tolerance);
  }
  const bool passed = sums.wrong == 0 && sums.reused > 0;
  if (json) {
    nlohmann::ordered_json all{{"pass", passed}, {"prompts", rows.size()}, {"prompt_tokens", sums.tokens}};
    if (blends)
      all.update({{"approximate", true}, {"relocated_tokens", sums.reused}, {"repaired_tokens", sums.repaired}});
    else
      all["reused_tokens"] = sums.reused;
    all.update({{"differing_answers", blends ? sums.other : sums.wrong},
                {"largest_difference", sums.largest},
                {"tolerance", tolerance}});
    print_json_row(all);
  } else if (blends) {
    print_blended(sums, rows.size(), tolerance, passed, rows.back().miss);
  } else {
    print_exact(sums, rows.size(), passed, rows.back().miss);
  }
  return passed ? kSuccess : kFailure;
}

int verify_command(Settings& s) {
  if (s.blend.reuse == "off") throw Error(Code::kBadInput, "off leaves nothing to verify", "--reuse");
  s.engine.model = local_model(s.engine.model);
  std::vector<std::shared_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  if (tiers.empty())
    throw Error(Code::kBadInput, "is 0 and no other tier is named, so that nothing can be reused", "--ram-cache");
  ProgressBar loading("loading");
  const std::int64_t context = s.engine.ctx > 0 ? s.engine.ctx : run::kDefaultContext;
  s.engine.whole_windows = s.engine.whole_windows || s.blends();
  run::Engine engine(s.engine, {.sequences = run::sequences_for(s.blend, 1),
                                .pool_tokens = s.blends() ? run::kBlendContexts * context : 0,
                                .weights_folder = weights_folder(s.reuse),
                                .weights_note = print_weights_note,
                                .progress = [&](std::int64_t done, std::int64_t total) {
                                  loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                                }});
  loading.finish();
  const text::Tokenizer* tokenizer = engine.tokenizer();
  if (!tokenizer) throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  choose_codecs(engine);
  store::Library library(engine.cache(), store::fingerprint_of(run::describe_cache(engine)), std::move(tiers));
  // One waits: an answer has ended for its listener a moment before it has for the scheduler.
  run::Scheduler scheduler(engine, {.running = 1, .waiting = 1, .blend = s.blend}, weights::model_name(s.engine.model),
                           &library);
  const run::ModelCard& card = scheduler.card();
  const auto chat = open_chat(card.chat_template, *tokenizer, s.verify.chat_template, s.engine.model,
                              card.named_templates, card.response_template);
  std::vector<run::ServiceRequest> requests =
      serve::read_prompt_file(s.verify.prompts, card, *tokenizer, chat.get(), true);
  ProgressBar bar("verifying");
  Interrupt interrupt;
  const lab::VerifyPoll poll = [&](std::size_t done, std::size_t total) {
    bar.update(done, total);
    return !interrupt.requested().load(std::memory_order_relaxed);
  };
  const auto rows = (s.blends() ? lab::verify_blend : lab::verify)(scheduler, std::move(requests), s.verify.n, poll);
  bar.finish();
  return report(rows, s);
}

Action setup(Flags& flags) {
  const auto settings = std::make_shared<Settings>();
  add_options(flags, run::engine_table(), settings->engine);
  add_options(flags, table(), settings->verify);
  add_options(flags, reuse_table(), settings->reuse);
  add_options(flags, run::blend_table(), settings->blend);
  return [settings] { return verify_command(*settings); };
}

}  // namespace

const Command entry{"check that reuse does not change answers, on your own prompts", setup};

}  // namespace kvasir::cli::commands_verify
