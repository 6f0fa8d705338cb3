// kvasir serve -m MODEL: an OpenAI-compatible server.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/descriptors.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/serving.hpp"
#include "kv/spec.hpp"

namespace kvasir::cli {
namespace {

int serve_command(const ServingOptions& s) {
  constexpr int kOtherFiles = 64;  // model, tiers, log
  if (const std::int64_t files = raise_descriptor_limit(); files < s.server.max_connections + kOtherFiles)
    fmt::print(stderr, "at most {} connections at once: this process may not have more files open (ulimit -n)\n",
               std::max<std::int64_t>(files - kOtherFiles, 0));
  Serving serving(s, [](std::string_view line) {
    fmt::print(stderr, "{}\n", line);
    std::fflush(stderr);
  });
  fmt::print(stderr, "{} ({}, KV {}): {}://{}:{}/v1, context {}{}\n", serving.card().name, serving.card().architecture,
             kv::codecs_text(serving.engine().codecs()), s.server.tls_cert.empty() ? "http" : "https", s.server.host,
             serving.server().port(), serving.engine().context(), serving.chats() ? "" : ", no chat template");
  if (const run::ModelCard& card = serving.card(); card.trained_context > 0 && card.context > card.trained_context)
    fmt::print(stderr, "the context is longer than the {} tokens that the model was trained for (see --ctx)\n",
               card.trained_context);
  if (const std::string note = serving.engine().tokenizer()->note(); !note.empty())
    fmt::print(stderr, "vocabulary: {}\n", note);
  if (!serving.chat_problem().empty()) fmt::print(stderr, "chats are refused: {}\n", serving.chat_problem());
  if (!serving.engine().kv_note().empty()) fmt::print(stderr, "KV cache: {}\n", serving.engine().kv_note());
  std::fflush(stderr);
  serving.server().run(true);
  return kSuccess;
}

Action setup(Flags& flags) {
  auto settings = std::make_shared<ServingOptions>();
  add_options(flags, run::engine_table(), settings->engine);
  add_options(flags, run::scheduler_table(), settings->scheduler);
  add_options(flags, serve_table(), settings->serve);
  add_options(flags, reuse_table(), settings->reuse);
  add_options(flags, serve::server_table(), settings->server);
  return [settings] { return serve_command(*settings); };
}

}  // namespace

namespace entries::commands {
extern const Command serve;
const Command serve{"answer requests over HTTP, as the OpenAI API does", setup};
}  // namespace entries::commands

}  // namespace kvasir::cli
