// kvasir run -m MODEL -p TEXT|-f FILE: generate text, then the figures of the run.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/rss.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "kv/spec.hpp"
#include "run/generate.hpp"
#include "run/machine.hpp"
#include "text/json_schema.hpp"
#include "text/utf8.hpp"

namespace kvasir::cli {
namespace {

struct RunOptions {
  std::string prompt;
  std::string file;
  std::int32_t n = -1;
  std::vector<std::string> stop;
  std::vector<std::string> logit_bias;
  std::int32_t logprobs = -1;
  std::string json_schema;
  bool ignore_eos = false;
  bool no_bos = false;
  bool no_special = false;
  bool no_figures = false;
  bool json = false;
};

const OptionTable<RunOptions>& table() {
  using O = RunOptions;
  static const OptionTable<O> t{
      "run",
      {{"prompt", &O::prompt, {.help = "the text to continue", .letter = 'p', .placeholder = "TEXT"}},
       {"file", &O::file, {.help = "read the prompt from a file", .letter = 'f', .placeholder = "FILE"}},
       {"n_predict",
        &O::n,
        {.help = "most tokens to generate; -1 is until the end of the text or of the context",
         .unit = "tokens",
         .letter = 'n',
         .low = -1,
         .high = 1 << 24}},
       {"stop", &O::stop, {.help = "end before this text; may be given more than once", .placeholder = "TEXT"}},
       {"logit_bias",
        &O::logit_bias,
        {.help = "add NUMBER to a token's logit; may be given more than once", .placeholder = "ID=NUMBER"}},
       {"logprobs",
        &O::logprobs,
        {.help = "with --json: log-probability of every token and of this many alternatives; -1 is none",
         .low = -1,
         .high = 100}},
       {"json_schema",
        &O::json_schema,
        {.help = "generate JSON that conforms to the JSON Schema in this file", .placeholder = "FILE"}},
       {"ignore_eos", &O::ignore_eos, {.help = "go on when the model ends its text"}},
       {"no_bos", &O::no_bos, {.help = "do not put the model's BOS token in front"}},
       {"no_special", &O::no_special, {.help = "special tokens written in the prompt stay plain text"}},
       {"no_figures", &O::no_figures, {.help = "print the text only"}},
       {"json", &O::json, {.help = "one object with text, ids and figures"}}}};
  return t;
}

struct Settings {
  RunOptions run;
  run::EngineOptions engine;
  run::SamplingOptions sampling;
};

std::string prompt_text(const RunOptions& o) {
  if (o.prompt.empty() == o.file.empty()) throw Error(Code::kBadInput, "expected one of -p TEXT and -f FILE", "prompt");
  return o.file.empty() ? o.prompt : read_text_file(o.file);
}

std::shared_ptr<const text::Grammar> read_schema(const std::string& file) {
  if (file.empty()) return nullptr;
  const auto schema = nlohmann::ordered_json::parse(read_text_file(file), nullptr, false);
  if (schema.is_discarded()) throw Error(Code::kBadInput, "is not JSON", file);
  try {
    return text::grammar_of_schema(schema, text::Unknown::kRefuse);
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), file);
  }
}

double per_second(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

struct Figures {
  double load, prompt_rate, decode_rate, ttft, bytes_per_token, bandwidth, machine_bandwidth, kv_bytes_per_token;
  std::uint64_t resident;
};

Figures figures(run::Engine& engine, const run::Generated& g) {
  Figures f{};
  f.prompt_rate = per_second(static_cast<double>(g.prompt_tokens), g.prefill_seconds);
  f.decode_rate = per_second(static_cast<double>(g.decode_steps), g.decode_seconds);
  f.ttft = g.first_token_seconds;
  f.bytes_per_token = g.decode_steps > 0 ? g.decode_bytes / static_cast<double>(g.decode_steps) : 0;
  f.bandwidth = per_second(g.decode_bytes, g.decode_seconds);
  f.resident = process_rss().current;
  f.machine_bandwidth = run::measure_machine(engine.team(), {.quick = true}).read_bytes.median;
  f.kv_bytes_per_token = engine.cache().bytes_per_token();
  return f;
}

void print_figures(const run::Engine& engine, const run::Generated& g, const Figures& f) {
  fmt::print(stderr, "\nloading     {}\n", human_seconds(f.load));
  fmt::print(stderr, "prompt      {} tokens in {}: {}\n", g.prompt_tokens, human_seconds(g.prefill_seconds),
             human_rate(f.prompt_rate, "tokens"));
  fmt::print(stderr, "first token {}\n", human_seconds(f.ttft));
  fmt::print(stderr, "generation  {} tokens in {}: {} (finish: {}, seed {})\n", g.ids.size(),
             human_seconds(g.decode_seconds), human_rate(f.decode_rate, "tokens"), name(g.finish), g.seed);
  fmt::print(stderr, "read        {} per token, {}: {:.0f} % of the {} measured now\n",
             human_bytes(static_cast<std::uint64_t>(f.bytes_per_token)), human_bandwidth(f.bandwidth),
             100 * f.bandwidth / f.machine_bandwidth, human_bandwidth(f.machine_bandwidth));
  fmt::print(stderr, "KV cache    {} per token ({})\n", human_bytes(static_cast<std::uint64_t>(f.kv_bytes_per_token)),
             kv::codecs_text(engine.codecs()));
  if (!engine.kv_note().empty()) fmt::print(stderr, "            {}\n", engine.kv_note());
  fmt::print(stderr, "resident    {}\n", human_bytes(f.resident));
}

void print_json(const run::Engine& engine, const run::Generated& g, const Figures& f) {
  nlohmann::ordered_json row{{"text", g.text}, {"ids", g.ids}, {"finish", name(g.finish)}, {"seed", g.seed}};
  if (!g.logprobs.empty()) {
    auto& list = row["logprobs"] = nlohmann::ordered_json::array();
    for (const run::TokenRecord& r : g.logprobs) {
      nlohmann::ordered_json best = nlohmann::ordered_json::array();
      for (const auto& b : r.best) best.push_back({{"id", b.id}, {"logprob", b.logprob}});
      list.push_back({{"id", r.id}, {"logprob", r.logprob}, {"top", best}});
    }
  }
  row.update({{"prompt_tokens", g.prompt_tokens},
              {"prompt_tps", f.prompt_rate},
              {"generated_tokens", g.ids.size()},
              {"decode_tps", f.decode_rate},
              {"ttft_ms", f.ttft * 1e3},
              {"load_ms", f.load * 1e3},
              {"bytes_per_token", f.bytes_per_token},
              {"bandwidth_gbps", f.bandwidth * 1e-9},
              {"bandwidth_fraction", f.bandwidth / f.machine_bandwidth},
              {"kv_bytes_per_token", f.kv_bytes_per_token},
              {"k_codec", kv::codecs_text(engine.codecs(), kv::Side::kKeys)},
              {"v_codec", kv::codecs_text(engine.codecs(), kv::Side::kValues)},
              {"kv_note", engine.kv_note()},
              {"resident_bytes", f.resident}});
  print_json_row(row);
}

int run_command(Settings& s) {
  for (const std::string& bias : s.run.logit_bias) run::add_logit_bias(s.sampling, bias);
  const std::string text = prompt_text(s.run);
  const std::string shown = text::to_valid_utf8(text);
  const auto grammar = read_schema(s.run.json_schema);
  Interrupt interrupt;
  ProgressBar loading("loading");
  const double start = steady_seconds();
  run::Engine engine(s.engine, {.progress = [&](std::int64_t done, std::int64_t total) {
                       if (interrupt.requested().load(std::memory_order_relaxed))
                         throw Error(Code::kCancelled, "stopped while loading", s.engine.model);
                       loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                     }});
  loading.finish();
  const double load_seconds = steady_seconds() - start;
  const text::Tokenizer* tokenizer = engine.tokenizer();
  if (!tokenizer) throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  run::Request request;
  request.prompt =
      tokenizer->encode(text, {.add_bos = !s.run.no_bos && tokenizer->add_bos(), .parse_special = !s.run.no_special});
  request.max_tokens = s.run.n;
  request.sampling = s.sampling;
  request.stop = s.run.stop;
  request.top_logprobs = s.run.logprobs;
  request.ignore_eos = s.run.ignore_eos;
  request.grammar = grammar;

  ProgressBar prefill("prompt");
  run::Events events;
  events.cancelled = [&] { return interrupt.requested().load(std::memory_order_relaxed); };
  events.prefill = [&](std::int64_t done, std::int64_t total) {
    prefill.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    if (done < total) return;
    prefill.finish();
    if (!s.run.json) std::fwrite(shown.data(), 1, shown.size(), stdout), std::fflush(stdout);
  };
  if (!s.run.json)
    events.text = [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout), std::fflush(stdout);
    };
  const run::Generated g = generate(engine, request, events);
  if (!s.run.json) std::fputc('\n', stdout);
  std::fflush(stdout);
  if (s.run.json || !s.run.no_figures) {
    Figures f = figures(engine, g);
    f.load = load_seconds;
    s.run.json ? print_json(engine, g, f) : print_figures(engine, g, f);
  }
  if (g.finish == run::Finish::kNothing)
    throw Error(Code::kUnsupported, "the model's output is not a number (NaN or -inf for every token)", s.engine.model);
  return g.finish == run::Finish::kCancelled ? kFailure : kSuccess;
}

Action setup(Flags& flags) {
  auto settings = std::make_shared<Settings>();
  add_options(flags, run::engine_table(), settings->engine);
  add_options(flags, table(), settings->run);
  add_options(flags, run::sampling_table(), settings->sampling);
  return [settings] { return run_command(*settings); };
}

}  // namespace

namespace entries::commands {
extern const Command run;
const Command run{"continue a text", setup};
}  // namespace entries::commands

}  // namespace kvasir::cli
