// kvasir serve -m MODEL: an OpenAI-compatible server.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/clock.hpp"
#include "base/descriptors.hpp"
#include "cli/command.hpp"
#include "cli/config.hpp"
#include "cli/flags.hpp"
#include "cli/models.hpp"
#include "cli/serving.hpp"
#include "cli/terminal.hpp"
#include "client/hub.hpp"
#include "kv/spec.hpp"
#include "run/ask.hpp"
#include "serve/prompt_file.hpp"

namespace kvasir::cli::commands_serve {
namespace {

// Computes the prompts of --warm; the socket listens already, so clients wait and are not refused.
void warm(LoadedModel& model, const std::string& file) {
  std::vector<run::ServiceRequest> requests =
      serve::read_prompt_file(file, model.service().card(), *model.service().tokenizer(),
                              model.template_chat() ? model.chat() : nullptr, false, model.pictures());
  ProgressBar bar("warming");
  const double start = steady_seconds();
  std::int64_t tokens = 0, reused = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    bar.update(i, requests.size());
    const run::Outcome outcome = run::ask(model.service(), std::move(requests[i])).outcome;
    tokens += outcome.prompt_tokens;
    reused += outcome.receipt.reused_tokens;
    if (outcome.receipt.pin_error.empty()) continue;
    bar.erase();
    fmt::print(stderr, "{}: prompt {} is not pinned: {}\n", file, i + 1, outcome.receipt.pin_error);
  }
  bar.finish();
  fmt::print(stderr, "warmed: prompts {}, tokens {}, of them reused {}, in {}\n", requests.size(), tokens, reused,
             human_seconds(steady_seconds() - start));
}

void describe(LoadedModel& model, const std::string& url) {
  const run::ModelCard& card = model.service().card();
  run::Engine* const engine = model.engine();
  fmt::print(stderr, "{} ({}, {}): {}, context {}{}\n", card.name, card.architecture,
             engine ? "KV " + kv::codecs_text(engine->codecs()) : "embeddings only", url, card.context,
             model.template_chat() || !engine ? "" : ", no chat template");
  if (card.trained_context > 0 && card.context > card.trained_context)
    fmt::print(stderr, "the context is longer than the {} tokens that the model was trained for (see --ctx)\n",
               card.trained_context);
  if (const std::string note = model.service().tokenizer()->note(); !note.empty())
    fmt::print(stderr, "vocabulary: {}\n", note);
  if (!card.sampling.note.empty()) fmt::print(stderr, "sampling: {}\n", card.sampling.note);
  if (!model.chat_problem().empty()) fmt::print(stderr, "chats are refused: {}\n", model.chat_problem());
  if (const std::string note = engine ? run::positions_note(engine->model().spec()) : ""; !note.empty())
    fmt::print(stderr, "the context ends: {}\n", note);
  if (engine && !engine->kv_note().empty()) fmt::print(stderr, "KV cache: {}\n", engine->kv_note());
}

void describe(const Serving& several, const std::string& url) {
  fmt::print(stderr, "{} models, loaded on demand: {}, memory for them {}\n", several.needs().size(), url,
             human_bytes(static_cast<std::uint64_t>(several.budget())));
  for (const Serving::Need& n : several.needs())
    fmt::print(stderr, "  {}: takes {}{}\n", n.name, human_bytes(static_cast<std::uint64_t>(n.bytes)),
               n.bytes > several.budget() ? ", more than there is: requests to it are refused" : "");
}

int serve_command(const ServingOptions& s) {
  constexpr int kOtherFiles = 64;  // model, tiers, log
  if (const std::int64_t files = raise_descriptor_limit(); files < s.server.max_connections + kOtherFiles)
    fmt::print(stderr, "at most {} connections at once: this process may not have more files open (ulimit -n)\n",
               std::max<std::int64_t>(files - kOtherFiles, 0));
  Serving serving(s, [](std::string_view line) {
    fmt::print(stderr, "{}\n", line);
    std::fflush(stderr);
  });
  const std::string url = fmt::format("{}://{}:{}/v1", s.server.tls_cert.empty() ? "http" : "https", s.server.host,
                                      serving.server().port());
  if (LoadedModel* model = serving.only()) {
    describe(*model, url);
    if (!s.serve.warm.empty()) warm(*model, s.serve.warm);
  } else {
    describe(serving, url);
  }
  std::fflush(stderr);
  serving.server().run(true);
  return kSuccess;
}

struct Settings {
  explicit Settings(Flags& flags) : config(flags) {
    config.add(flags, run::engine_table(), serving.engine, {"model"});
    config.add(flags, run::scheduler_table(), serving.scheduler);
    config.add(flags, run::blend_table(), serving.scheduler.blend);
    config.add(flags, run::draft_table(), serving.drafts);
    config.add(flags, run::picture_table(), serving.pictures, {"mmproj"});
    config.add(flags, serve_table(), serving.serve);
    config.add(flags, reuse_table(), serving.reuse);
    config.add(flags, serve::server_table(), serving.server);
    config.settle([this] { settle_models(serving); });
  }
  ServingOptions serving;
  Config config;
};

Action setup(Flags& flags) {
  const auto settings = std::make_shared<Settings>(flags);
  return [settings] {
    if (!settings->config.resolve()) return kSuccess;
    ServingOptions& options = settings->serving;
    if (options.serve.models.empty() && options.engine.model.empty())
      throw Error(Code::kBadInput, "is required, here or as engine.model or serve.model in --config", "--model");
    serve::require_network();  // before a model is downloaded
    if (options.serve.name.empty() && client::is_hub_name(options.engine.model))
      options.serve.name = options.engine.model;
    options.engine.model = local_model(options.engine.model);
    settle_drafts(options.drafts);
    return serve_command(options);
  };
}

}  // namespace

const Command entry{"answer requests over HTTP, as the OpenAI API does", setup};

}  // namespace kvasir::cli::commands_serve
