#include "cli/serving.hpp"

#include "base/error.hpp"
#include "cli/auto_codecs.hpp"
#include "cli/chat_format.hpp"
#include "cli/terminal.hpp"
#include "run/fingerprint.hpp"
#include "weights/parts.hpp"

namespace kvasir::cli {

const OptionTable<ServeOptions>& serve_table() {
  using O = ServeOptions;
  static const OptionTable<O> t{
      "serve",
      {{"name", &O::name, {.help = "what the model is called; default: the file's name", .placeholder = "NAME"}},
       {"chat_template",
        &O::chat_template,
        {.help = "a Jinja chat template in place of the model's own", .placeholder = "FILE"}},
       {"warm",
        &O::warm,
        {.help = "compute the prompts of this file before the first request: one per line, text or a body of /v1/warm",
         .placeholder = "FILE"}},
       {"pool",
        &O::pool,
        {.help = "KV cache of all running requests together; 0 is twice --ctx",
         .unit = "tokens",
         .low = 0,
         .high = 1 << 24}}}};
  return t;
}

Serving::Serving(const ServingOptions& s, serve::LogSink log) {
  serve::require_network();
  run::is_encoder(s.engine.model) ? load_encoder(s) : load(s);
  server_.emplace(s.server, *service_, chat_ ? chat_.get() : no_chat_.get(), std::move(log));
}

void Serving::load_encoder(const ServingOptions& s) {
  ProgressBar loading("loading");
  const std::string name = s.serve.name.empty() ? weights::model_name(s.engine.model) : s.serve.name;
  encoder_.emplace(s.engine, name, s.scheduler.waiting, [&](std::int64_t done, std::int64_t total) {
    loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  });
  service_ = &*encoder_;
  loading.finish();
  if (!encoder_->tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  no_chat_ = serve::make_refusing_chat("this model reads texts and writes none: /v1/embeddings is for it");
}

void Serving::load(const ServingOptions& s) {
  std::vector<std::unique_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  if (!s.serve.warm.empty() && tiers.empty())
    throw Error(Code::kBadInput, "needs a place for what it computes: --ram-cache, --cache-dir or --tier", "--warm");
  ProgressBar loading("loading");
  const std::int32_t ctx = s.engine.ctx > 0 ? s.engine.ctx : static_cast<std::int32_t>(run::kDefaultContext);
  engine_ = std::make_unique<run::Engine>(
      s.engine, run::Engine::Needs{.sequences = s.scheduler.running,
                                   .pool_tokens = s.serve.pool > 0 ? s.serve.pool : 2 * static_cast<std::int64_t>(ctx),
                                   .logits = s.scheduler.running,
                                   .progress = [&](std::int64_t done, std::int64_t total) {
                                     loading.update(static_cast<std::uint64_t>(done),
                                                    static_cast<std::uint64_t>(total));
                                   }});
  loading.finish();
  if (!engine_->tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  choose_codecs(*engine_);
  if (!tiers.empty())
    library_.emplace(engine_->cache(), store::fingerprint_of(run::describe_cache(*engine_)), std::move(tiers));
  const std::string name = s.serve.name.empty() ? weights::model_name(s.engine.model) : s.serve.name;
  scheduler_.emplace(*engine_, s.scheduler, name, library_ ? &*library_ : nullptr);
  service_ = &*scheduler_;
  try {
    chat_ = open_chat(scheduler_->card().chat_template, *engine_->tokenizer(), s.serve.chat_template, s.engine.model,
                      scheduler_->card().named_templates);
  } catch (const Error& e) {
    if (!s.serve.chat_template.empty()) throw;
    // The model is good for completions all the same.
    chat_problem_ = std::string(e.what()) + " (--chat-template FILE gives another one)";
    no_chat_ = serve::make_refusing_chat(chat_problem_);
  }
}

}  // namespace kvasir::cli
