// A server with all that stands behind it: the model, the places of stored pages, the scheduler.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/options.hpp"
#include "cli/reuse_options.hpp"
#include "run/encoder.hpp"
#include "run/engine.hpp"
#include "run/scheduler.hpp"
#include "serve/server.hpp"
#include "serve/template_chat.hpp"
#include "store/library.hpp"

namespace kvasir::cli {

struct ServeOptions {
  std::string name;
  std::string chat_template;
  std::string warm;
  std::int32_t pool = 0;
};
const OptionTable<ServeOptions>& serve_table();

struct ServingOptions {
  ServeOptions serve;
  ReuseOptions reuse;
  run::EngineOptions engine;
  run::SchedulerOptions scheduler;
  serve::ServerOptions server;
};

class Serving {
 public:
  // Loads the model, reserves the cache, opens the tiers, listens. Throws Error.
  Serving(const ServingOptions& options, serve::LogSink log);

  serve::Server& server() { return *server_; }
  run::Engine* engine() { return engine_.get(); }  // null: an encoder
  const run::ModelCard& card() const { return service_->card(); }
  const text::Tokenizer& tokenizer() const { return *service_->tokenizer(); }
  run::Service& service() { return *service_; }
  const serve::ChatFormat* chat() const { return chat_.get(); }  // null: none
  bool keeps() const { return library_.has_value(); }            // pages behind the end of their request
  bool chats() const { return chat_ != nullptr; }
  // Why the model's own chat template cannot be used; empty when it can, or there is none.
  const std::string& chat_problem() const { return chat_problem_; }

 private:
  void load(const ServingOptions& options);
  void load_encoder(const ServingOptions& options);

  // In the order in which they need each other.
  std::unique_ptr<run::Engine> engine_;
  std::optional<store::Library> library_;
  std::optional<run::Scheduler> scheduler_;
  std::optional<run::Encoder> encoder_;  // instead of the three
  run::Service* service_ = nullptr;      // one of the two
  std::unique_ptr<serve::TemplateChat> chat_;
  std::string chat_problem_;
  std::unique_ptr<serve::ChatFormat> no_chat_;  // says so
  std::optional<serve::Server> server_;
};

}  // namespace kvasir::cli
