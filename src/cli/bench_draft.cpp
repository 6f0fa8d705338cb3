// kvasir bench draft: generation with drafters beside generation without, turn by turn in one process.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "cli/auto_codecs.hpp"
#include "cli/bench.hpp"
#include "cli/chat_format.hpp"
#include "cli/config.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "run/ask.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "serve/prompt_file.hpp"
#include "store/library.hpp"
#include "store/open.hpp"

namespace kvasir::cli {
namespace {

struct Options {
  std::vector<std::string> draft, file;
  std::int32_t draft_tokens = 8;
  bool draft_always = false;
  std::int32_t n = 200;
  std::int32_t runs = 1;
  bool reuse = false;
  bool json = false;
};

const OptionTable<Options>& bench_draft_table() {
  using O = Options;
  static const OptionTable<O> t{
      "draft bench",
      {{"draft",
        &O::draft,
        {.help = "drafters to measure, as in `kvasir run`; several that are asked in order are joined by +: "
                 "lookup+model:FILE. May be given more than once",
         .placeholder = "NAMES"}},
       {"file",
        &O::file,
        {.help =
             "prompts, one per line: JSON of a chat or plain text (as `kvasir serve --warm` reads). Files are shown "
             "apart; may be given more than once",
         .letter = 'f',
         .placeholder = "FILE"}},
       {"draft_tokens",
        &O::draft_tokens,
        {.help = "most draft tokens in one step", .unit = "tokens", .low = 1, .high = run::kMostDraft}},
       {"draft_always", &O::draft_always, {.help = "compute unlikely draft tokens, too"}},
       {"n_predict",
        &O::n,
        {.help = "tokens of an answer at most", .unit = "tokens", .letter = 'n', .low = 2, .high = 1 << 20}},
       {"runs", &O::runs, {.help = "times that every prompt is answered", .low = 1, .high = 100}},
       {"reuse",
        &O::reuse,
        {.help = "every choice of drafters has a store in memory, and every prompt is answered twice: the second time "
                 "it is restored"}},
       {"json", &O::json, {.help = "a JSON object per file and drafter"}}}};
  return t;
}

struct BenchDraftSettings {
  Options bench;
  run::EngineOptions engine;
};

// One way to draft, and what it did to a file.
struct Way {
  std::string name;
  std::unique_ptr<run::Drafting> drafting;  // null: without drafts
  std::unique_ptr<store::Library> library;  // with --reuse
  std::int64_t reused = 0;                  // tokens of prompts
  double seconds = 0, prompt_seconds = 0;
  std::int64_t tokens = 0, different = 0;
  run::DraftStats stats;
  void clear() {
    seconds = prompt_seconds = 0;
    tokens = different = reused = 0;
    stats = {};
  }
};

void add(run::DraftStats& to, const run::DraftStats& from) {
  to.steps += from.steps, to.tokens += from.tokens, to.drafted += from.drafted, to.accepted += from.accepted;
  for (std::size_t i = 0; i < to.drafted_at.size(); ++i)
    to.drafted_at[i] += from.drafted_at[i], to.accepted_at[i] += from.accepted_at[i];
  to.draft_seconds += from.draft_seconds;
  to.verify_seconds += from.verify_seconds;
  to.rollback_seconds += from.rollback_seconds;
}

std::vector<std::int32_t> answer(run::Engine& engine, Way& way, run::ServiceRequest request) {
  run::Scheduler scheduler(engine, {.running = 1, .waiting = 1}, "bench", way.library.get(), way.drafting.get());
  const run::Answered reply = run::ask(scheduler, std::move(request));
  way.seconds += reply.outcome.decode_seconds;
  way.prompt_seconds += reply.outcome.prompt_seconds;
  way.tokens += reply.outcome.completion_tokens - 1;
  way.reused += reply.outcome.receipt.reused_tokens;
  add(way.stats, reply.outcome.draft);
  return reply.ids;
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> list;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('+', begin), names.size());
    list.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

// `names` with files that stand for drafters without their folders.
std::string shown(const std::string& names) {
  std::string text;
  for (const std::string& name : split(names)) {
    if (!text.empty()) text += '+';
    const std::size_t colon = name.find(':'), slash = name.find_last_of('/');
    text += slash == std::string::npos ? name : name.substr(0, colon + 1) + name.substr(slash + 1);
  }
  return text;
}

void show(const std::string& file, const Way& way, const Way& plain, bool json) {
  const double rate = static_cast<double>(way.tokens) / way.seconds;
  const double ratio = rate / (static_cast<double>(plain.tokens) / plain.seconds);
  const run::DraftStats& f = way.stats;
  if (json) {
    nlohmann::ordered_json row{{"file", file}, {"draft", way.name}, {"tokens", way.tokens},
                               {"tps", rate},  {"ratio", ratio},    {"different_answers", way.different}};
    if (way.library) row["reused_tokens"] = way.reused;
    if (way.drafting) row["figures"] = run::draft_json(f);
    return print_json_row(row);
  }
  const double accepted = f.drafted > 0 ? 100 * static_cast<double>(f.accepted) / static_cast<double>(f.drafted) : 0;
  fmt::print("{:24.24}  {:24}  {:>6}  {:>8.2f}  {:>6.2f}  {:>8.2f}  {:>5.0f} %  {:>9}\n", file, shown(way.name),
             way.tokens, rate, ratio, way.drafting ? f.tokens_per_step() : 1.0, accepted,
             way.different == 0 ? "equal" : "DIFFERENT");
}

int bench_draft(BenchDraftSettings& s) {
  if (s.bench.draft.empty()) throw Error(Code::kBadInput, "is required: a drafter to measure", "--draft");
  if (s.bench.file.empty()) throw Error(Code::kBadInput, "is required: a file of prompts", "--file");
  s.engine.model = local_model(s.engine.model);
  ProgressBar loading("loading");
  run::Beside beside;
  for (const std::string& names : s.bench.draft) {
    run::DraftOptions options{split(names)};
    settle_drafts(options);
    const run::Beside one = run::drafts_memory(options, s.engine, 1);
    beside.weights += one.weights;
    beside.others += one.others;
  }
  run::Engine engine(
      s.engine,
      {.drafted = s.bench.draft_tokens, .beside = beside, .progress = [&](std::int64_t done, std::int64_t total) {
         loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
       }});
  loading.finish();
  if (!engine.tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  choose_codecs(engine);
  std::vector<Way> ways(1);
  ways[0].name = "none";
  for (const std::string& names : s.bench.draft) {
    run::DraftOptions options{split(names), s.bench.draft_tokens, s.bench.draft_always};
    settle_drafts(options);
    ways.push_back({names, std::make_unique<run::Drafting>(engine, options, 1)});
  }
  if (s.bench.reuse)
    for (Way& way : ways)
      way.library = std::make_unique<store::Library>(
          engine.cache(), store::fingerprint_of(run::describe_cache(engine)),
          std::vector<std::shared_ptr<store::Tier>>{store::open_tier("ram:?size=256MiB", {})});
  run::ModelCard card;
  std::unique_ptr<serve::TemplateChat> chat;
  {
    run::Scheduler scheduler(engine, {.running = 1, .waiting = 1}, s.engine.model);
    card = scheduler.card();
    chat = open_chat(card.chat_template, *engine.tokenizer(), "", s.engine.model);
  }
  std::vector<std::vector<run::ServiceRequest>> prompts;  // of every file, read before anything is printed
  for (const std::string& file : s.bench.file)
    prompts.push_back(serve::read_prompt_file(file, card, *engine.tokenizer(), chat.get(), true));
  if (!s.bench.json)
    fmt::print("{:24}  {:24}  {:>6}  {:>8}  {:>6}  {:>8}  {:>7}  {:>9}\n", "prompts", "drafters", "tokens", "tokens/s",
               "ratio", "per step", "right", "answers");
  Interrupt interrupt;
  const auto stopped = [&] { return interrupt.requested().load(std::memory_order_relaxed); };
  for (std::size_t at = 0; at < prompts.size(); ++at) {
    for (Way& way : ways) way.clear();
    for (int run = 0; run < s.bench.runs && !stopped(); ++run)
      for (run::ServiceRequest& r : prompts[at]) {
        r.request.max_tokens = s.bench.n;
        r.request.sampling.temperature = 0;
        std::vector<std::int32_t> wanted;
        for (Way& way : ways) {
          if (stopped()) return kFailure;
          for (int time = 0; time < (way.library ? 2 : 1); ++time) {
            const std::vector<std::int32_t> ids = answer(engine, way, r);
            if (wanted.empty()) wanted = ids;
            way.different += ids != wanted;
            if (way.library) way.library->tiers()[0]->flush();
          }
        }
      }
    const std::string& file = s.bench.file[at];
    const std::string stem = file.substr(file.find_last_of('/') + 1);
    for (const Way& way : ways) show(stem, way, ways[0], s.bench.json);
  }
  return std::all_of(ways.begin(), ways.end(), [](const Way& w) { return w.different == 0; }) ? kSuccess : kFailure;
}

}  // namespace

Action setup_bench_draft(Flags& flags) {
  const auto settings = std::make_shared<BenchDraftSettings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, bench_draft_table(), settings->bench);
  return [settings, config] { return config->resolve() ? bench_draft(*settings) : kSuccess; };
}

}  // namespace kvasir::cli
