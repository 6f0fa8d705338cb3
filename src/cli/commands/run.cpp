// kvasir run -m MODEL -p TEXT|-f FILE: generate text, then the figures of the run. It is a scheduler with one request,
// so with --cache-dir it has what earlier runs and servers computed.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/rss.hpp"
#include "cli/command.hpp"
#include "cli/config.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/reuse_options.hpp"
#include "cli/take_sampling.hpp"
#include "cli/terminal.hpp"
#include "kv/spec.hpp"
#include "lab/bench.hpp"
#include "lab/machine.hpp"
#include "run/answer.hpp"
#include "run/ask.hpp"
#include "run/blend.hpp"
#include "run/device_stats.hpp"
#include "run/engine.hpp"
#include "run/fingerprint.hpp"
#include "run/pictures.hpp"
#include "run/receipt.hpp"
#include "run/request_options.hpp"
#include "run/scheduler.hpp"
#include "run/weights_stats.hpp"
#include "store/library.hpp"
#include "text/prompt.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::cli::commands_run {
namespace {

// What one request says of tenants, drafters and selection stands in the engine's options here.
struct RunOptions : run::RequestOptions {
  std::string prompt;
  std::string file;
  std::vector<std::string> image, audio;
  std::string mmproj;
  bool no_bos = false;
  bool no_special = false;
  bool no_figures = false;
  bool json = false;

  bool has_files() const { return !image.empty() || !audio.empty(); }
};

const OptionTable<RunOptions>& table() {
  using O = RunOptions;
  static const OptionTable<O> t{
      "run", [] {
        std::vector<OptionTable<O>::Row> rows{
            {"prompt", &O::prompt, {.help = "the text to continue", .letter = 'p', .placeholder = "TEXT"}},
            {"file", &O::file, {.help = "read the prompt from a file", .letter = 'f', .placeholder = "FILE"}},
            {"image",
             &O::image,
             {.help = "a picture, JPEG, PNG or WebP, where the prompt says <image>, or else in front of it; may be "
                      "given more than once",
              .placeholder = "FILE"}},
            {"audio",
             &O::audio,
             {.help = "a sound, WAV, FLAC, Ogg or MP3, where the prompt says <audio>, or else in front of it; may be "
                      "given more than once",
              .placeholder = "FILE"}},
            {"mmproj",
             &O::mmproj,
             {.help = "with --image or --audio: the file or folder of the model's encoders; default the model's own "
                      "folder, if it has some",
              .placeholder = "FILE"}}};

        const auto request = run::request_rows<O>();
        rows.insert(rows.end(), request.begin(), request.end());
        const std::vector<OptionTable<O>::Row> more{
            {"no_bos", &O::no_bos, {.help = "do not put the model's BOS token in front"}},
            {"no_special", &O::no_special, {.help = "special tokens written in the prompt stay plain text"}},
            {"no_figures", &O::no_figures, {.help = "print the text only"}},
            {"json", &O::json, {.help = "one object with text, ids and figures"}}};
        rows.insert(rows.end(), more.begin(), more.end());
        return rows;
      }()};
  return t;
}

struct Settings {
  RunOptions run;
  run::EngineOptions engine;
  run::SamplingOptions sampling;
  run::DraftOptions drafts;
  ReuseOptions reuse{.ram_cache = "0"};
  run::BlendOptions blend;
  std::function<bool(const std::string&)> given;  // options of sampling that the model's file does not decide

  bool blends() const { return blend.reuse == "blend"; }
};

std::string prompt_text(const RunOptions& o) {
  if (!o.prompt.empty() && !o.file.empty())
    throw Error(Code::kBadInput, "expected one of -p TEXT and -f FILE, found both", "prompt");
  if (o.prompt.empty() && o.file.empty())
    throw Error(Code::kBadInput, "is empty or not given, expected -p TEXT or -f FILE with some text", "prompt");
  std::string text = o.file.empty() ? o.prompt : read_text_file(o.file);
  if (text.empty()) throw Error(Code::kBadInput, "is empty, expected a prompt", o.file);
  return text;
}

// The option holds a schema, or the name of a file with one.
std::shared_ptr<const text::Grammar> grammar_of(const std::string& option) {
  const std::size_t first = option.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || option[first] == '{') return run::read_schema(option, "--json-schema");
  return run::read_schema(read_text_file(option), option);
}

double per_second(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

struct Stats {
  double load = 0, choose = 0;  // seconds before the request
  double prompt_rate, prompt_seconds, decode_rate, ttft, bytes_per_token, bandwidth;
  std::optional<double> machine_bandwidth;  // bytes/s; without, `unmeasured` says why
  std::string unmeasured;
  double kv_bytes_per_token;
  std::uint64_t resident;
  // Share of memory's bandwidth. None when that isn't known, or when more came than memory gives: from caches.
  std::optional<double> share() const {
    if (!machine_bandwidth || bandwidth > *machine_bandwidth) return std::nullopt;
    return bandwidth / *machine_bandwidth;
  }
};

// load, choose: seconds that loading and choosing codecs took.
Stats stats(run::Engine& engine, const run::Answered& reply, double load, double choose) {
  const run::Outcome& o = reply.outcome;
  Stats f{.load = load, .choose = choose};
  const auto computed = static_cast<double>(o.receipt.computed(o.prompt_tokens));
  f.prompt_seconds = choose + o.prompt_seconds;
  f.prompt_rate = per_second(computed, f.prompt_seconds - o.receipt.load_seconds);
  f.decode_rate = per_second(static_cast<double>(o.decode_steps), o.decode_seconds);
  f.ttft = choose + o.receipt.queue_seconds + o.receipt.prefill_seconds;
  f.bytes_per_token = o.decode_steps > 0 ? o.decode_bytes / static_cast<double>(o.decode_steps) : 0;
  f.bandwidth = per_second(o.decode_bytes, o.decode_seconds);
  f.resident = process_rss().current;
  try {
    f.machine_bandwidth = lab::measure_reads(engine.team(), engine.model().matrices()).median;
  } catch (const Error& error) {  // the answer is there: no memory left to measure with doesn't spoil it
    if (error.code() != Code::kMemory) throw;
    f.unmeasured = error.what();
  }
  f.kv_bytes_per_token = engine.cache().memory().bytes_per_token;
  return f;
}

// What was reused, from where, and why no more.
void print_receipt(const run::Outcome& o) {
  const run::Receipt& r = o.receipt;
  std::string sources;
  for (const run::Span& s : r.spans)
    if (s.source != "computed")
      sources += fmt::format("{}{} from {}", sources.empty() ? ": " : ", ", s.end - s.begin, s.source);
  fmt::print(stderr, "reused      {} of {} tokens{}", r.reused_tokens, o.prompt_tokens, sources);
  if (r.loaded_bytes > 0) fmt::print(stderr, "; {} in {}", human_bytes(r.loaded_bytes), human_seconds(r.load_seconds));
  fmt::print(stderr, "\n");
  if (r.blend.asked && !r.blend.refused.empty()) fmt::print(stderr, "            not blended: {}\n", r.blend.refused);
  if (r.blend.asked && r.blend.refused.empty())
    fmt::print(stderr, "blended     {} tokens from other places, {} of such computed again; an approximation\n",
               r.blend.relocated_tokens, r.blend.repaired_tokens);
  if (r.state_bytes > 0) fmt::print(stderr, "states      {}\n", human_bytes(r.state_bytes));
  if (!r.miss.empty()) fmt::print(stderr, "            {}\n", r.miss);
}

void print_choices(const char* label, const std::string& what, const kv::SelectionStats::Layer& t) {
  const auto steps = static_cast<double>(t.chosen);
  fmt::print(stderr, "{}{}{:.0f} of {:.0f} tokens read per layer and head", label, what, t.read / steps,
             t.seen / steps);
  if (t.measured > 0)
    fmt::print(stderr, "; measured {} times: {:.1f} % of the attention mass, at least {:.1f} %", t.measured,
               100 * t.mass / static_cast<double>(t.measured), 100 * t.least);
  if (t.dense > 0) fmt::print(stderr, "; {} times too little, so everything was read", t.dense);
  fmt::print(stderr, "\n");
}

void print_selection(const run::Receipt& r) {
  if (r.select.empty()) return;
  const auto answer = r.selection.total(), prompt = r.selection.prompt_total();
  if (answer.chosen + prompt.chosen == 0) return fmt::print(stderr, "selection   {}: everything was read\n", r.select);
  if (prompt.chosen > 0) print_choices("selection   ", r.select + ", prompt: ", prompt);
  if (answer.chosen > 0) print_choices("selection   ", r.select + ": ", answer);
}

void print_stats(run::Engine& engine, const run::Answered& g, const Stats& f, bool keeps) {
  const run::Outcome& o = g.outcome;
  fmt::print(stderr, "\nloading     {}\n", human_seconds(f.load));
  fmt::print(stderr, "prompt      {} tokens{} in {}: {}\n", o.prompt_tokens,
             o.receipt.computed(o.prompt_tokens) < o.prompt_tokens
                 ? fmt::format(", {} of them computed,", o.receipt.computed(o.prompt_tokens))
                 : "",
             human_seconds(f.prompt_seconds), human_rate(f.prompt_rate, "tokens"));
  if (keeps) print_receipt(o);
  fmt::print(stderr, "first token {}\n", human_seconds(f.ttft));
  fmt::print(stderr, "generation  {} tokens in {}: {} (finish: {}, seed {})\n", g.ids.size(),
             human_seconds(o.decode_seconds), human_rate(f.decode_rate, "tokens"), name(o.finish), o.seed);
  if (!o.draft.sources.empty()) fmt::print(stderr, "drafts      {}\n", run::draft_line(o.draft));
  if (o.weights.any()) fmt::print(stderr, "weights     {}\n", run::weights_line(o.weights));
  fmt::print(stderr, "read        {} per token, {}: {}\n", human_bytes(static_cast<std::uint64_t>(f.bytes_per_token)),
             human_bandwidth(f.bandwidth),
             f.share()             ? fmt::format("{:.0f} % of the {} measured now", 100 * *f.share(),
                                                 human_bandwidth(*f.machine_bandwidth))
             : f.machine_bandwidth ? "the processor's caches hold it, faster than memory"
                                   : f.unmeasured);
  fmt::print(stderr, "KV cache    {} per token ({})\n", human_bytes(static_cast<std::uint64_t>(f.kv_bytes_per_token)),
             kv::codecs_text(engine.codecs()));
  if (!engine.kv_note().empty()) fmt::print(stderr, "            {}\n", engine.kv_note());
  if (const std::string note = run::positions_note(engine.model().spec()); !note.empty())
    fmt::print(stderr, "context     {}\n", note);
  print_selection(o.receipt);
  if (const kv::DiskStats disk = engine.cache().stats().disk; *disk.how)
    fmt::print(stderr, "disk        {}\n", lab::disk_line(disk));
  if (!o.device.name.empty()) fmt::print(stderr, "device      {}\n", run::device_line(o.device, o.products));
  fmt::print(stderr, "resident    {}\n", human_bytes(f.resident));
}

void print_json(const run::Engine& engine, const run::Answered& g, const Stats& f) {
  const run::Outcome& o = g.outcome;
  nlohmann::ordered_json row{{"text", g.text}, {"ids", g.ids}, {"finish", name(o.finish)}, {"seed", o.seed}};
  if (!g.records.empty()) {
    auto& list = row["logprobs"] = nlohmann::ordered_json::array();
    for (const run::TokenRecord& r : g.records) {
      nlohmann::ordered_json best = nlohmann::ordered_json::array();
      for (const auto& b : r.best) best.push_back({{"id", b.id}, {"logprob", b.logprob}});
      list.push_back({{"id", r.id}, {"logprob", r.logprob}, {"top", best}});
    }
  }
  row.update({{"prompt_tokens", o.prompt_tokens},
              {"prompt_tps", f.prompt_rate},
              {"generated_tokens", g.ids.size()},
              {"decode_tps", f.decode_rate},
              {"ttft_ms", f.ttft * 1e3},
              {"load_ms", f.load * 1e3},
              {"bytes_per_token", f.bytes_per_token},
              {"bandwidth_gbps", f.bandwidth * 1e-9},
              {"bandwidth_fraction", f.share() ? nlohmann::ordered_json(*f.share()) : nlohmann::ordered_json()},
              {"kv_bytes_per_token", f.kv_bytes_per_token},
              {"k_codec", kv::codecs_text(engine.codecs(), kv::Side::kKeys)},
              {"v_codec", kv::codecs_text(engine.codecs(), kv::Side::kValues)},
              {"kv_note", engine.kv_note()},
              {"resident_bytes", f.resident},
              {"receipt", run::receipt_json(o)}});
  print_json_row(row);
}

run::ServiceRequest request_of(const Settings& s, const text::Tokenizer& tokenizer, const std::string& text,
                               run::Pictures* pictures, std::shared_ptr<const text::Grammar> grammar) {
  run::ServiceRequest service;
  run::Request& request = service.request;
  run::fill(request, s.run);
  const bool add_bos = !s.run.no_bos && tokenizer.add_bos(), special = !s.run.no_special;
  if (pictures) {
    std::vector<std::shared_ptr<const run::PromptPicture>> files;
    for (const std::string& file : s.run.image) files.push_back(pictures->read(run::Pictures::bytes_of(file), file));
    std::vector<std::shared_ptr<const run::PromptPicture>> sounds;
    for (const std::string& file : s.run.audio)
      sounds.push_back(pictures->read_sound(run::Pictures::bytes_of(file), file));
    run::PicturePrompt prompt = pictures->place(text, files, sounds, add_bos, special);
    request.prompt = std::move(prompt.ids);
    request.runs = std::move(prompt.runs);
  } else {
    request.prompt = text::encode_prompt(tokenizer, text, {.add_bos = add_bos, .parse_special = special});
  }
  request.sampling = s.sampling;
  request.grammar = std::move(grammar);
  return service;
}

// Asks and shows the answer as it comes.
run::Answered answer(run::Service& service, run::ServiceRequest request, const std::string& prompt, bool json,
                     const Interrupt& interrupt) {
  const auto show = [json](std::string_view piece) {
    if (!json) show_text(piece);
  };
  ProgressBar bar("prompt");
  bool shown = false;
  const auto show_prompt = [&] {
    bar.finish();
    if (!std::exchange(shown, true)) show(prompt);
  };
  const run::Answered reply =
      ask(service, std::move(request),
          {.text = show,
           .prefill =
               [&](std::int64_t done, std::int64_t total) {
                 bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                 if (done == total) show_prompt();
               },
           .cancelled = [&] { return interrupt.requested().load(std::memory_order_relaxed); }});
  show_prompt();  // it was interrupted before
  show("\n");
  std::fflush(stdout);
  return reply;
}

int run_command(Settings& s) {
  s.engine.model = local_model(s.engine.model);
  settle_drafts(s.drafts);
  for (const std::string& bias : s.run.logit_bias) run::add_logit_bias(s.sampling, bias);
  const std::string text = prompt_text(s.run);
  if (s.run.has_files()) s.run.mmproj = run::encoder_beside(s.engine.model, s.run.mmproj);
  if (s.run.has_files() && s.run.mmproj.empty())
    throw s.run.image.empty() ? Error(Code::kBadInput, "needs --mmproj FILE, the model's encoder of sounds", "audio")
                              : Error(Code::kBadInput, "needs --mmproj FILE, the model's encoder of pictures", "image");
  const auto grammar = grammar_of(std::exchange(s.run.json_schema, {}));
  std::vector<std::shared_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  Interrupt interrupt;
  ProgressBar loading("loading");
  const double start = steady_seconds();
  const std::int64_t context = s.engine.ctx > 0 ? s.engine.ctx : run::kDefaultContext;
  s.engine.whole_windows = s.engine.whole_windows || s.blends();
  run::Engine engine(s.engine, {.sequences = run::sequences_for(s.blend, 1),
                                .pool_tokens = s.blends() ? run::kBlendContexts * context : 0,
                                .drafted = run::drafted_rows(s.drafts, 1),
                                .beside = run::drafts_memory(s.drafts, s.engine, 1),
                                .weights_folder = weights_folder(s.reuse),
                                .weights_note = print_weights_note,
                                .progress = [&](std::int64_t done, std::int64_t total) {
                                  if (interrupt.requested().load(std::memory_order_relaxed))
                                    throw Error(Code::kCancelled, "stopped while loading", s.engine.model);
                                  loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                                }});
  loading.finish();
  double load_seconds = steady_seconds() - start;
  if (!engine.tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  take_sampling(engine, s.sampling, s.given);
  std::optional<run::Pictures> pictures;  // makes rows while the prompt is computed
  if (s.run.has_files()) pictures.emplace(engine, run::PictureOptions{.mmproj = s.run.mmproj}, tiers);
  run::ServiceRequest request = request_of(s, *engine.tokenizer(), text, pictures ? &*pictures : nullptr, grammar);
  run::check_request(engine, request.request);

  const double choosing = steady_seconds();
  std::vector<std::int32_t> tokens = request.request.prompt;
  std::erase_if(tokens, [](std::int32_t id) { return id < 0; });  // rows of pictures and sounds
  engine.choose_codecs(tokens);  // before the library: what is stored is of these codecs
  const double chosen = steady_seconds();
  std::optional<store::Library> library;
  if (!tiers.empty())
    library.emplace(engine.cache(), store::fingerprint_of(run::describe_cache(engine)), std::move(tiers));
  std::optional<run::Drafting> drafting;
  if (s.drafts.wanted()) drafting.emplace(engine, s.drafts, 1);
  load_seconds += steady_seconds() - chosen;
  run::Answered reply;
  {
    run::Scheduler scheduler(engine, {.running = 1, .waiting = 0, .blend = s.blend}, s.engine.model,
                             library ? &*library : nullptr, drafting ? &*drafting : nullptr);
    reply = answer(scheduler, std::move(request), unicode::to_valid_utf8(text), s.run.json, interrupt);
  }
  if (library) write_kept(*library);
  if (s.run.json || !s.run.no_figures) {
    const Stats f = stats(engine, reply, load_seconds, chosen - choosing);
    s.run.json ? print_json(engine, reply, f) : print_stats(engine, reply, f, library.has_value());
  }
  const run::Finish finish = reply.outcome.finish;
  if (finish == run::Finish::kNothing)
    throw Error(Code::kUnsupported, "the model's output is not a number (NaN or -inf for every token)", s.engine.model);
  return finish == run::Finish::kCancelled ? kFailure : kSuccess;
}

Action setup(Flags& flags) {
  auto settings = std::make_shared<Settings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, table(), settings->run);
  config->add(flags, run::sampling_table(), settings->sampling);
  config->add(flags, run::draft_table(), settings->drafts);
  config->add(flags, reuse_table(), settings->reuse, {"ram_cache"});
  config->add(flags, run::blend_table(), settings->blend);
  settings->given = [&config = *config](const std::string& name) { return config.given("sampling." + name); };
  return [settings, config] { return config->resolve() ? run_command(*settings) : kSuccess; };
}

}  // namespace

const Command entry{"continue a text", setup};

}  // namespace kvasir::cli::commands_run
