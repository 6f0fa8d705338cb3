// A loaded model with its cache, the places of its pages and its scheduler.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kvasir/engine.hpp"
#include "run/blend.hpp"
#include "run/engine.hpp"
#include "run/pictures.hpp"
#include "run/request_options.hpp"
#include "run/scheduler.hpp"
#include "store/library.hpp"
#include "store/reuse_options.hpp"
#include "text/chat.hpp"

namespace kvasir {

struct Engine::Impl {
  // Throws Error.
  Impl(const std::string& model, const Options& options, const OnProgress& progress);
  ~Impl();

  const text::Tokenizer& tokenizer() const { return *engine->tokenizer(); }
  // Throws Error(kBadInput) when the model has none.
  const text::ChatTemplate& chat() const;
  // Throws Error(kBadInput) naming `field` when the engine reads none.
  run::Pictures& picture_reader(const std::string& field, const char* what = "picture");
  std::vector<std::int32_t> encode(std::string_view text, bool bos, bool special, bool behind) const;

  run::EngineOptions engine_options;
  run::SchedulerOptions scheduler_options{.running = 1};
  run::DraftOptions drafts;
  run::PictureOptions picture_options;
  store::ReuseOptions reuse{.ram_cache = "256MiB"};
  // In the order in which they need each other.
  std::unique_ptr<run::Engine> engine;
  std::optional<store::Library> library;
  std::optional<run::Drafting> drafting;
  std::optional<run::Pictures> pictures;  // makes rows for the scheduler
  std::optional<run::Scheduler> scheduler;
  std::optional<text::ChatTemplate> chat_template;
  std::string chat_problem;  // why there is none
  ModelInfo info;
};

namespace api {

// A request without its prompt, and how a prompt that is text becomes ids.
struct Ask {
  // blend: what holds where the options say nothing. Throws Error(kBadInput).
  Ask(const run::BlendOptions& blend, const Options& options);
  run::RequestOptions request;
  run::SamplingOptions sampling;
  run::BlendOptions blend;
  std::vector<std::string> given;  // names of options
};

Reply ask(Engine::Impl& impl, const Ask& ask, std::vector<std::int32_t> prompt, const OnText& on_text,
          std::vector<model::RowRun> runs = {});

}  // namespace api
}  // namespace kvasir
