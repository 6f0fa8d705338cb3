// A server with all that stands behind it: models, the places of stored pages, schedulers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "cli/reuse_options.hpp"
#include "run/encoder.hpp"
#include "run/engine.hpp"
#include "run/pictures.hpp"
#include "run/scheduler.hpp"
#include "serve/roster.hpp"
#include "serve/server.hpp"
#include "serve/template_chat.hpp"
#include "store/library.hpp"

namespace kvasir::cli {

struct ServeOptions {
  std::vector<std::string> models;
  std::vector<std::string> encoders;
  std::string memory;
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
  run::SchedulerOptions scheduler;  // its blend counts, which is a table of its own
  run::DraftOptions drafts;
  run::PictureOptions pictures;
  serve::ServerOptions server;
};

// Of [NAME=]FILE, where FILE may be "hf:...". A text that is the path of a file is that file.
struct NamedModel {
  std::string name;  // empty: not given
  std::string file;
};
NamedModel parse_named_model(const std::string& text);

// A single model of --model becomes engine.model and serve.name, and its encoder of --mmproj pictures.mmproj; of
// several models' encoders each names its model. Throws Error for options that cannot hold for several.
void settle_models(ServingOptions& options);

// A model with its scheduler, as the server has it while it is loaded.
class LoadedModel final : public serve::Resident {
 public:
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;
  // Loads options.engine.model and reserves its cache. The tiers may be shared with other models. Throws Error.
  LoadedModel(const ServingOptions& options, std::vector<std::shared_ptr<store::Tier>> tiers, const Progress& progress);

  run::Service& service() override { return *service_; }
  const serve::ChatFormat* chat() const override { return chat_ ? chat_.get() : no_chat_.get(); }
  run::Pictures* pictures() override { return pictures_ ? &*pictures_ : nullptr; }
  run::Engine* engine() { return engine_.get(); }                           // null: an encoder
  const serve::TemplateChat* template_chat() const { return chat_.get(); }  // null: none
  // Why the model's own chat template cannot be used; empty when it can, or there is none.
  const std::string& chat_problem() const { return chat_problem_; }

 private:
  void load(const ServingOptions& options, std::vector<std::shared_ptr<store::Tier>> tiers, const Progress& progress);
  void load_encoder(const ServingOptions& options, const Progress& progress);

  // In the order in which they need each other.
  std::unique_ptr<run::Engine> engine_;
  std::optional<store::Library> library_;
  std::optional<run::Drafting> drafting_;
  std::optional<run::Pictures> pictures_;  // makes rows for the scheduler
  std::optional<run::Scheduler> scheduler_;
  std::optional<run::Encoder> encoder_;  // instead of the three
  run::Service* service_ = nullptr;      // one of the two
  std::unique_ptr<serve::TemplateChat> chat_;
  std::string chat_problem_;
  std::unique_ptr<serve::ChatFormat> no_chat_;  // says so
};

class Serving {
 public:
  // Opens the tiers and listens. One model is loaded; of several the files' headers are read, and they are loaded when
  // they are asked for. REQUIRES: settle_models. Throws Error.
  Serving(const ServingOptions& options, serve::LogWriter log);

  serve::Server& server() { return *server_; }
  LoadedModel* only() { return only_ ? &*only_ : nullptr; }  // null: there are several
  // Of several: what each takes, and the budget.
  struct Need {
    std::string name;
    std::int64_t bytes;
  };
  const std::vector<Need>& needs() const { return needs_; }
  std::int64_t budget() const { return budget_; }

 private:
  void offer_all(const ServingOptions& options, serve::LogWriter log);

  std::optional<LoadedModel> only_;
  std::vector<Need> needs_;
  std::int64_t budget_ = 0;
  std::optional<serve::Server> server_;
};

}  // namespace kvasir::cli
