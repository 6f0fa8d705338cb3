// kvasir serve -m MODEL: an OpenAI-compatible server.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "cli/chat_format.hpp"
#include "cli/command.hpp"
#include "cli/options_cli.hpp"
#include "cli/terminal.hpp"
#include "kv/spec.hpp"
#include "run/auto_kv.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "serve/server.hpp"
#include "store/open.hpp"

namespace kvasir::cli {
namespace {

struct ServeOptions {
  std::string name;
  std::string chat_template;
  std::int32_t pool = 0;
  std::string ram_cache = "1GiB";
  std::string cache_dir;
  std::string cache_size = "10GiB";
  std::vector<std::string> tiers;
};

const OptionTable<ServeOptions>& table() {
  using O = ServeOptions;
  static const OptionTable<O> t{
      "serve",
      {{"name", &O::name, {.help = "what the model is called; default: the file's name", .placeholder = "NAME"}},
       {"chat_template",
        &O::chat_template,
        {.help = "a Jinja chat template in place of the model's own", .placeholder = "FILE"}},
       {"pool",
        &O::pool,
        {.help = "KV cache of all running requests together; 0 is twice --ctx",
         .unit = "tokens",
         .low = 0,
         .high = 1 << 24}},
       {"ram_cache",
        &O::ram_cache,
        {.help = "memory for what earlier requests computed, such as 4GiB; 0 for none", .placeholder = "SIZE"}},
       {"cache_dir", &O::cache_dir, {.help = "keep it in this folder too, across restarts", .placeholder = "FOLDER"}},
       {"cache_size", &O::cache_size, {.help = "most that the folder may hold", .placeholder = "SIZE"}},
       {"tier",
        &O::tiers,
        {.help = "a further tier, such as redis:HOST:PORT; may be given more than once", .placeholder = "SPEC"}}}};
  return t;
}

struct Settings {
  ServeOptions serve;
  run::EngineOptions engine;
  run::SchedulerOptions scheduler;
  serve::ServerOptions server;
};

#ifdef KVASIR_NETWORK
std::vector<std::unique_ptr<store::Tier>> open_tiers(const ServeOptions& o) {
  std::vector<std::unique_ptr<store::Tier>> tiers;
  if (o.ram_cache != "0") tiers.push_back(store::open_tier("ram:?size=" + o.ram_cache));
  if (!o.cache_dir.empty()) tiers.push_back(store::open_tier("lmdb:" + o.cache_dir + "?size=" + o.cache_size));
  for (const std::string& spec : o.tiers) tiers.push_back(store::open_tier(spec));
  return tiers;
}

int serve_command(Settings& s) {
  if (s.engine.kv == run::kAuto)
    throw Error(Code::kBadInput,
                "is 'auto', which chooses by the first prompt; expected codecs, so that stored pages fit every run",
                "--kv");
  std::vector<std::unique_ptr<store::Tier>> tiers = open_tiers(s.serve);
  ProgressBar loading("loading");
  const std::int32_t ctx = s.engine.ctx > 0 ? s.engine.ctx : static_cast<std::int32_t>(run::kDefaultContext);
  run::Engine engine(s.engine, {.sequences = s.scheduler.running,
                                .pool_tokens = s.serve.pool > 0 ? s.serve.pool : 2 * static_cast<std::int64_t>(ctx),
                                .logits = s.scheduler.running,
                                .progress = [&](std::int64_t done, std::int64_t total) {
                                  loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                                }});
  loading.finish();
  if (!engine.tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  std::optional<store::Library> library;
  if (!tiers.empty())
    library.emplace(engine.cache(), store::fingerprint_of(run::describe_cache(engine)), std::move(tiers));
  const std::string name = s.serve.name.empty() ? std::filesystem::path(s.engine.model).stem().string() : s.serve.name;
  run::Scheduler scheduler(engine, s.scheduler, name, library ? &*library : nullptr);
  const auto chat =
      open_chat(scheduler.card().chat_template, *engine.tokenizer(), s.serve.chat_template, s.engine.model);
  serve::Server server(s.server, scheduler, chat.get(), [](std::string_view line) {
    fmt::print(stderr, "{}\n", line);
    std::fflush(stderr);
  });
  fmt::print(stderr, "{} ({}, KV {}): {}://{}:{}/v1, context {}{}\n", name, scheduler.card().architecture,
             kv::codecs_text(engine.codecs()), s.server.tls_cert.empty() ? "http" : "https", s.server.host,
             server.port(), engine.context(), chat ? "" : ", no chat template");
  if (!engine.kv_note().empty()) fmt::print(stderr, "KV cache: {}\n", engine.kv_note());
  std::fflush(stderr);
  server.run(true);
  return kSuccess;
}
#else
int serve_command(Settings&) {
  throw Error(
      Code::kUnsupported,
      "this build has no HTTP server: install libboost1.81-dev and libssl-dev (./dev setup) and build again with "
      "KVASIR_SERVER=ON",
      "serve");
}
#endif

Action setup(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  add_options(app, run::engine_table(), settings->engine);
  add_options(app, run::scheduler_table(), settings->scheduler);
  add_options(app, table(), settings->serve);
  add_options(app, serve::server_table(), settings->server);
  return [settings] { return serve_command(*settings); };
}

}  // namespace

namespace entries::commands {
extern const Command serve;
const Command serve{"answer requests over HTTP, as the OpenAI API does", setup};
}  // namespace entries::commands

}  // namespace kvasir::cli
