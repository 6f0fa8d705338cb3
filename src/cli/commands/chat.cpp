// kvasir chat -m MODEL: a conversation in the terminal, by the model's own template. With --cache-dir it goes on where
// earlier runs and servers ended.
#include <fmt/format.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/auto_codecs.hpp"
#include "cli/chat_format.hpp"
#include "cli/chat_session.hpp"
#include "cli/command.hpp"
#include "cli/config.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/line_reader.hpp"
#include "cli/models.hpp"
#include "cli/reuse_options.hpp"
#include "cli/take_sampling.hpp"
#include "cli/terminal.hpp"
#include "kv/spec.hpp"
#include "run/device_stats.hpp"
#include "run/engine.hpp"
#include "run/fingerprint.hpp"
#include "run/pictures.hpp"
#include "run/scheduler.hpp"
#include "run/weights_stats.hpp"
#include "serve/http.hpp"
#include "serve/thinking.hpp"
#include "store/library.hpp"

namespace kvasir::cli::commands_chat {
namespace {

struct ChatOptions {
  std::string system, load, chat_template;
  std::int32_t n = -1;
  bool no_thinking = false;
  bool no_figures = false;
};

const OptionTable<ChatOptions>& table() {
  using O = ChatOptions;
  static const OptionTable<O> t{
      "chat",
      {{"system", &O::system, {.help = "the system prompt", .placeholder = "TEXT"}},
       {"load", &O::load, {.help = "go on with a conversation that /save wrote", .placeholder = "FILE"}},
       {"chat_template",
        &O::chat_template,
        {.help = "a Jinja chat template in place of the model's own", .placeholder = "FILE"}},
       {"n_predict",
        &O::n,
        {.help = "most tokens of an answer; -1 is until its end or that of the context",
         .unit = "tokens",
         .letter = 'n',
         .low = -1,
         .high = 1 << 24}},
       {"no_thinking", &O::no_thinking, {.help = "ask the template for answers without reasoning"}},
       {"no_figures", &O::no_figures, {.help = "no line of figures behind an answer"}}}};
  return t;
}

struct Settings {
  ChatOptions chat;
  run::EngineOptions engine;
  run::SamplingOptions sampling;
  run::DraftOptions drafts;
  run::PictureOptions pictures;
  ReuseOptions reuse{.ram_cache = "256MiB"};
  std::function<bool(const std::string&)> given;  // options of sampling that the model's file does not decide
};

// Where a state of programs belongs (XDG base directories); "": there is no such place.
std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state && *state) return std::string(state) + "/kvasir/chat_history";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.local/state/kvasir/chat_history" : "";
}

std::string reused_from(const run::Receipt& r) {
  std::string sources;
  for (const run::Span& s : r.spans)
    if (s.source != "computed")
      sources += fmt::format("{}{} from {}", sources.empty() ? "" : ", ", s.end - s.begin, s.source);
  return sources;
}

class Terminal {
 public:
  Terminal(const Settings& settings, run::Engine& engine, run::Scheduler& scheduler, store::Library* library,
           const serve::ChatFormat& format, run::Pictures* pictures)
      : settings_(settings),
        engine_(engine),
        scheduler_(scheduler),
        library_(library),
        pictures_(pictures),
        colours_(is_terminal(stdout) && is_terminal(stderr)),
        session_(scheduler, format, request(settings), variables(settings), pictures) {
    session_.set_system(settings.chat.system);
    if (!settings.chat.load.empty()) load(settings.chat.load);
  }

  void run() {
    if (is_terminal(stdin))
      fmt::print("{}, context {} tokens, KV {}. /help lists commands; Ctrl-C stops an answer, Ctrl-D ends.\n",
                 scheduler_.card().name, engine_.context(), kv::codecs_text(engine_.codecs()));
    for (;;) {
      std::optional<std::string> line;
      {
        const Interrupt interrupt;  // at the prompt Ctrl-C ends, and what is kept is written
        LineReader& reader = reader_of(interrupt);
        line = reader.read("> ");
      }
      if (!line) break;
      const std::size_t first = line->find_first_not_of(" \t");
      if (first == std::string::npos) continue;
      try {
        if ((*line)[first] != '/') {
          const std::vector<std::string> images = std::exchange(images_, {}), sounds = std::exchange(sounds_, {});
          answer([&](const ChatEvents& events) { return session_.ask(*line, events, images, sounds); });
        } else if (!command(line->substr(first))) {
          break;
        }
      } catch (const serve::ApiException& e) {
        complain(e.what());
      } catch (const Error& e) {
        complain(e.what());
      }
    }
    if (is_terminal(stdin)) fmt::print("\n");
  }

 private:
  struct CommandInfo {
    const char *name, *argument, *help;
    void (Terminal::*act)(const std::string& argument);
  };
  static std::span<const CommandInfo> commands() {
    static constexpr CommandInfo kAll[] = {
        {"/system", "TEXT", "sets the system prompt; without TEXT there is none", &Terminal::set_system},
        {"/image", "FILE", "shows the model a picture with your next message", &Terminal::add_image},
        {"/audio", "FILE", "lets the model hear a sound with your next message", &Terminal::add_sound},
        {"/save", "FILE", "writes the conversation as JSON", &Terminal::save},
        {"/load", "FILE", "reads one that /save wrote", &Terminal::load},
        {"/kv", "", "what the cache holds and what it costs", &Terminal::show_kv},
        {"/stats", "", "figures of the last answer: reuse, speed, and why no more was reused", &Terminal::show_stats},
        {"/undo", "", "forgets the last question and its answer", &Terminal::undo},
        {"/retry", "", "answers the last question again", &Terminal::retry},
        {"/help", "", "lists these", &Terminal::help},
        {"/quit", "", "ends", nullptr},
    };
    return kAll;
  }

  static run::Request request(const Settings& s) {
    run::Request r;
    r.max_tokens = s.chat.n;
    r.sampling = s.sampling;
    return r;
  }
  static Json variables(const Settings& s) {
    Json out = Json::object();
    if (s.chat.no_thinking) serve::ask_thinking(out, false);
    return out;
  }

  LineReader& reader_of(const Interrupt& interrupt) {
    if (!reader_) reader_.emplace(history_file(), interrupt.requested());
    return *reader_;
  }

  // False: the end.
  bool command(const std::string& line) {
    const std::size_t blank = std::min(line.find_first_of(" \t\n"), line.size());
    const std::string name = line.substr(0, blank);
    const std::size_t begin = std::min(line.find_first_not_of(" \t\n", blank), line.size());
    const std::string argument = line.substr(begin, line.find_last_not_of(" \t\n") + 1 - begin);
    for (const CommandInfo& info : commands()) {
      if (name != info.name) continue;
      if (!info.act) return false;
      (this->*info.act)(argument);
      return true;
    }
    complain(fmt::format("{} is not a command; /help lists them", name));
    return true;
  }

  void complain(const std::string& text) const {
    fmt::print(stderr, "kvasir: {}\n", text);
    std::fflush(stderr);
  }
  void dim(const std::string& text) const {
    std::fflush(stdout);
    fmt::print(stderr, "{}{}{}\n", colours_ ? "\x1b[2m" : "", text, colours_ ? "\x1b[0m" : "");
    std::fflush(stderr);
  }
  static void show(std::string_view text) { show_text(text); }

  void answer(const std::function<ChatAnswer(const ChatEvents&)>& ask) {
    const Interrupt interrupt;
    ProgressBar bar("prompt");
    bool thinks = false, spoke = false;
    ChatEvents events;
    events.prefill = [&](std::int64_t done, std::int64_t total) {
      if (done == total) return bar.finish();
      bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    };
    events.reasoning = [&](std::string_view text) {
      if (!colours_) return;  // only for people
      bar.finish();
      if (!std::exchange(thinks, true)) show("\x1b[2m");
      show(text);
    };
    events.content = [&](std::string_view text) {
      bar.finish();
      if (std::exchange(thinks, false)) show("\x1b[0m\n\n");
      spoke = true;
      show(text);
    };
    events.cancelled = [&] { return interrupt.requested().load(std::memory_order_relaxed); };
    last_ = ask(events);
    bar.finish();
    if (thinks) show("\x1b[0m");
    if (spoke || thinks) show("\n");
    for (const std::string& warning : last_->warnings)  // once
      if (std::find(warned_.begin(), warned_.end(), warning) == warned_.end()) complain(warned_.emplace_back(warning));
    ++answers_;
    prompt_tokens_ += last_->outcome.prompt_tokens;
    reused_tokens_ += last_->outcome.receipt.reused_tokens;
    if (!settings_.chat.no_figures) stats();
  }

  void stats() const {
    const run::Outcome& o = last_->outcome;
    const double rate = o.decode_seconds > 0 ? static_cast<double>(o.decode_steps) / o.decode_seconds : 0;
    const char* end = o.finish == run::Finish::kCancelled ? ", stopped"
                      : o.finish == run::Finish::kLength  ? ", cut by -n"
                      : o.finish == run::Finish::kContext ? ", the context is full"
                                                          : "";
    dim(fmt::format("reused {} of {} tokens, first token {}, {} tokens at {}, context {} of {}{}",
                    o.receipt.reused_tokens, o.prompt_tokens,
                    human_seconds(o.receipt.queue_seconds + o.receipt.prefill_seconds), o.completion_tokens,
                    human_rate(rate, "tokens"), o.prompt_tokens + o.completion_tokens, engine_.context(), end));
    if (!o.device.name.empty()) dim("device: " + run::device_line(o.device, o.products));
    if (o.weights.any()) dim("weights: " + run::weights_line(o.weights));
    if (!o.draft.sources.empty()) dim("drafts: " + run::draft_line(o.draft));
  }

  void add_image(const std::string& file) {
    need_file(file);
    if (!pictures_) throw Error(Code::kBadInput, "needs --mmproj FILE, the model's encoder of pictures", "/image");
    std::string bytes = run::Pictures::bytes_of(file);
    pictures_->read(bytes, file);  // what is wrong with it is said now
    images_.push_back(std::move(bytes));
    dim(fmt::format("{} {} with your next message", images_.size(), images_.size() == 1 ? "picture" : "pictures"));
  }
  void add_sound(const std::string& file) {
    need_file(file);
    if (!pictures_) throw Error(Code::kBadInput, "needs --mmproj FILE, the model's encoder of sounds", "/audio");
    std::string bytes = run::Pictures::bytes_of(file);
    pictures_->read_sound(bytes, file);  // what is wrong with it is said now
    sounds_.push_back(std::move(bytes));
    dim(fmt::format("{} {} with your next message", sounds_.size(), sounds_.size() == 1 ? "sound" : "sounds"));
  }
  void set_system(const std::string& text) { session_.set_system(text); }
  void save(const std::string& file) {
    need_file(file);
    const std::string text = session_.to_json().dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    write_file(file, std::as_bytes(std::span(text)));
    dim(fmt::format("{} messages are in {}", session_.messages().size(), file));
  }
  void load(const std::string& file) {
    need_file(file);
    const Json json = Json::parse(read_text_file(file), nullptr, false);
    if (!json.is_object()) throw Error(Code::kBadInput, "is no JSON object with 'messages'", file);
    try {
      session_.load(json);
    } catch (const serve::ApiException& e) {
      throw Error(Code::kBadInput, e.what(), file);
    }
    dim(fmt::format("{} messages from {}", session_.messages().size(), file));
  }
  static void need_file(const std::string& file) {
    if (file.empty()) throw Error(Code::kBadInput, "expected the name of a file");
  }

  void show_kv(const std::string&) {
    const run::ServiceStats s = scheduler_.stats();
    dim(fmt::format("codecs {}, {} per token, pool {}", kv::codecs_text(engine_.codecs()),
                    human_bytes(static_cast<std::uint64_t>(engine_.cache().memory().bytes_per_token)),
                    human_bytes(s.kv_budget)));
    if (!engine_.kv_note().empty()) dim(engine_.kv_note());
    for (const run::TierStats& t : s.tiers)
      dim(fmt::format("{}: {} of {} in {} records, {} hits, {} misses", t.tier, human_bytes(t.bytes),
                      human_bytes(t.budget), t.records, t.hits, t.misses));
    if (!library_) dim("nothing is kept: --ram-cache is 0 and there is no --cache-dir");
  }
  void show_stats(const std::string&) {
    if (!last_) throw Error(Code::kBadInput, "nothing was answered yet");
    stats();
    const run::Receipt& r = last_->outcome.receipt;
    if (const std::string sources = reused_from(r); !sources.empty()) dim(sources);
    if (!r.miss.empty()) dim(r.miss);
    dim(fmt::format("{} answers; {} of {} tokens of their prompts were reused", answers_, reused_tokens_,
                    prompt_tokens_));
  }
  void undo(const std::string&) {
    if (!session_.undo()) throw Error(Code::kBadInput, "nothing was said yet");
    dim(fmt::format("{} messages are left", session_.messages().size()));
  }
  void retry(const std::string&) {
    answer([&](const ChatEvents& events) { return session_.retry(events); });
  }
  void help(const std::string&) {
    for (const CommandInfo& c : commands())
      fmt::print("  {:<14} {}\n", fmt::format("{} {}", c.name, c.argument), c.help);
    fmt::print("  A line that ends with \\ goes on in the next one.\n");
  }

  const Settings& settings_;
  run::Engine& engine_;
  run::Scheduler& scheduler_;
  store::Library* library_;
  run::Pictures* const pictures_;             // null: the model reads none
  std::vector<std::string> images_, sounds_;  // files, for the next message
  const bool colours_;
  ChatSession session_;
  std::optional<LineReader> reader_;
  std::optional<ChatAnswer> last_;
  std::vector<std::string> warned_;
  std::int64_t answers_ = 0, prompt_tokens_ = 0, reused_tokens_ = 0;
};

int chat_command(Settings& s) {
  std::setlocale(LC_CTYPE, "");  // for the line editor; nothing else here asks for a locale
  s.engine.model = local_model(s.engine.model);
  settle_drafts(s.drafts);
  std::vector<std::shared_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  ProgressBar loading("loading");
  run::Engine engine(s.engine, {.drafted = run::drafted_rows(s.drafts, 1),
                                .beside = run::drafts_memory(s.drafts, s.engine, 1),
                                .weights_folder = weights_folder(s.reuse),
                                .weights_note = print_weights_note,
                                .progress = [&](std::int64_t done, std::int64_t total) {
                                  loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                                }});
  loading.finish();
  if (!engine.tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  take_sampling(engine, s.sampling, s.given);
  choose_codecs(engine);
  std::optional<store::Library> library;
  if (!tiers.empty())
    library.emplace(engine.cache(), store::fingerprint_of(run::describe_cache(engine)), std::move(tiers));
  {
    // One waits: an answer has ended for its listener a moment before it has for the scheduler.
    std::optional<run::Drafting> drafting;
    if (s.drafts.wanted()) drafting.emplace(engine, s.drafts, 1);
    std::optional<run::Pictures> pictures;
    s.pictures.mmproj = run::encoder_beside(s.engine.model, s.pictures.mmproj);
    if (!s.pictures.mmproj.empty()) pictures.emplace(engine, s.pictures, run::tiers_of(library));
    run::Scheduler scheduler(engine, {.running = 1, .waiting = 1}, s.engine.model, library ? &*library : nullptr,
                             drafting ? &*drafting : nullptr);
    const auto format = open_chat(scheduler.card().chat_template, *engine.tokenizer(), s.chat.chat_template,
                                  s.engine.model, {}, scheduler.card().response_template);
    if (!format)
      throw Error(Code::kBadInput, "the model has no chat template; name a file that holds one with --chat-template",
                  s.engine.model);
    Terminal(s, engine, scheduler, library ? &*library : nullptr, *format, pictures ? &*pictures : nullptr).run();
  }
  if (library) write_kept(*library);
  return kSuccess;
}

Action setup(Flags& flags) {
  auto settings = std::make_shared<Settings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine);
  config->add(flags, table(), settings->chat);
  config->add(flags, run::sampling_table(), settings->sampling);
  config->add(flags, run::draft_table(), settings->drafts);
  config->add(flags, run::picture_table(), settings->pictures);
  config->add(flags, reuse_table(), settings->reuse);
  settings->given = [&config = *config](const std::string& name) { return config.given("sampling." + name); };
  return [settings, config] { return config->resolve() ? chat_command(*settings) : kSuccess; };
}

}  // namespace

const Command entry{"talk to a model in the terminal", setup};

}  // namespace kvasir::cli::commands_chat
