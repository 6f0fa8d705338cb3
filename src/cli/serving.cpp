#include "cli/serving.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/host.hpp"
#include "cli/auto_codecs.hpp"
#include "cli/chat_format.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "client/hub.hpp"
#include "kv/spec.hpp"
#include "model/hparams.hpp"
#include "run/fingerprint.hpp"
#include "run/model_card.hpp"
#include "sound/encoder.hpp"
#include "store/spec.hpp"
#include "tensor/buffer.hpp"
#include "vision/encoder.hpp"
#include "weights/parts.hpp"
#include "weights/rounded_file.hpp"

namespace kvasir::cli {

const OptionTable<ServeOptions>& serve_table() {
  using O = ServeOptions;
  static const OptionTable<O> t{
      "serve",
      {{"model",
        &O::models,
        {.help = "GGUF file, folder of Hugging Face, or hf:OWNER/REPO[:QUANT] (see `kvasir pull`); given more than "
                 "once, requests name the one they mean, and it is loaded then",
         .letter = 'm',
         .placeholder = "[NAME=]FILE"}},
       {"mmproj",
        &O::encoders,
        {.help = "read pictures, with the encoder in this file or folder, which goes with the model; default the "
                 "model's own folder, if it has one; none reads none. Of several models each has its own: NAME=FILE",
         .placeholder = "[NAME=]FILE"}},
       {"memory",
        &O::memory,
        {.help = "of several models: memory for those that are loaded and for --ram-cache, such as 16GiB; default what "
                 "is free at the start",
         .placeholder = "SIZE"}},
       {"name", &O::name, {.help = "what the model is called; default: the file's name", .placeholder = "NAME"}},
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

static NamedModel parse_named(const std::string& text, const char* flag) {
  const std::size_t equals = text.find('=');
  std::error_code none;
  if (equals == std::string::npos || std::filesystem::exists(text, none)) return {"", text};
  NamedModel m{text.substr(0, equals), text.substr(equals + 1)};
  if (m.name.empty() || m.file.empty())
    throw Error(Code::kBadInput, fmt::format("expected FILE or NAME=FILE, found '{}'", text), flag);
  return m;
}

NamedModel parse_named_model(const std::string& text) { return parse_named(text, "--model"); }

// What a model is called: by -m NAME=FILE, as the hub calls it, or by its file.
static std::string name_of(const NamedModel& m) {
  return !m.name.empty() ? m.name : client::is_hub_name(m.file) ? m.file : weights::model_name(m.file);
}

// The encoder among --mmproj for the model called `name`; "": the model's own, if it has one.
static std::string encoder_for(const std::vector<std::string>& encoders, const std::string& name) {
  if (encoders == std::vector<std::string>{"none"}) return "none";
  for (const std::string& text : encoders)
    if (const NamedModel e = parse_named(text, "--mmproj"); e.name == name) return e.file;
  return {};
}

static void check_encoders(const ServeOptions& s) {
  if (s.encoders == std::vector<std::string>{"none"}) return;
  std::vector<std::string> names, taken;
  for (const std::string& text : s.models) names.push_back(name_of(parse_named_model(text)));
  for (const std::string& text : s.encoders) {
    const NamedModel e = parse_named(text, "--mmproj");
    const std::string known = fmt::format("expected NAME=FILE with one of {}", fmt::join(names, ", "));
    if (e.name.empty())
      throw Error(Code::kBadInput, fmt::format("'{}' says no model's name, {}", text, known), "--mmproj");
    if (std::find(names.begin(), names.end(), e.name) == names.end())
      throw Error(Code::kBadInput, fmt::format("'{}' names none of the models, {}", text, known), "--mmproj");
    if (std::find(taken.begin(), taken.end(), e.name) != taken.end())
      throw Error(Code::kBadInput, fmt::format("gives '{}' a second encoder, expected one", e.name), "--mmproj");
    taken.push_back(e.name);
  }
}

// Of a single model called `name`; "": by its file.
static std::string only_encoder(const std::vector<std::string>& encoders, const std::string& name) {
  if (encoders.empty()) return {};
  if (encoders.size() > 1)
    throw Error(Code::kBadInput, fmt::format("is given {} times, expected once for one model", encoders.size()),
                "--mmproj");
  const NamedModel e = parse_named(encoders.front(), "--mmproj");
  if (!e.name.empty() && e.name != name)
    throw Error(Code::kBadInput, fmt::format("is for the model '{}', and this one is called '{}'", e.name, name),
                "--mmproj");
  return e.file;
}

void settle_models(ServingOptions& options) {
  ServeOptions& s = options.serve;
  if (options.scheduler.blend.reuse == "blend") options.engine.whole_windows = true;
  const auto settle_encoder = [&] {
    if (s.encoders.empty()) return;
    const std::string name = s.name.empty() ? name_of({"", options.engine.model}) : s.name;
    options.pictures.mmproj = only_encoder(s.encoders, name);
  };
  if (s.models.empty()) return settle_encoder();
  options.engine.model.clear();
  if (s.models.size() == 1) {
    const NamedModel m = parse_named_model(s.models.front());
    if (!m.name.empty() && !s.name.empty() && m.name != s.name)
      throw Error(Code::kBadInput, fmt::format("calls the model '{}', --model calls it '{}'", s.name, m.name),
                  "--name");
    if (!m.name.empty()) s.name = m.name;
    options.engine.model = m.file;
    s.models.clear();
    return settle_encoder();
  }
  const auto refuse = [](bool given, const char* flag, const char* instead) {
    if (given) throw Error(Code::kBadInput, fmt::format("is for a server of one model; {}", instead), flag);
  };
  refuse(!s.name.empty(), "--name", "of several each is named by -m NAME=FILE");
  refuse(!s.chat_template.empty(), "--chat-template", "of several each has its own");
  refuse(!s.warm.empty(), "--warm", "of several ask POST /v1/warm with the model's name");
  check_encoders(s);
}

LoadedModel::LoadedModel(const ServingOptions& s, std::vector<std::shared_ptr<store::Tier>> tiers,
                         const Progress& progress) {
  run::is_encoder(s.engine.model) ? load_encoder(s, progress) : load(s, std::move(tiers), progress);
}

static std::string name_of(const ServingOptions& s) {
  return s.serve.name.empty() ? weights::model_name(s.engine.model) : s.serve.name;
}

static std::int64_t pool_of(const ServingOptions& s) {
  const std::int64_t ctx = s.engine.ctx > 0 ? s.engine.ctx : run::kDefaultContext;
  return s.serve.pool > 0 ? s.serve.pool : 2 * ctx;
}

void LoadedModel::load_encoder(const ServingOptions& s, const Progress& progress) {
  if (!s.pictures.mmproj.empty() && s.pictures.mmproj != "none")
    throw Error(Code::kBadInput, "the model writes no texts, expected one that does", "--mmproj");
  encoder_.emplace(s.engine, name_of(s), s.scheduler.waiting, progress);
  service_ = &*encoder_;
  if (!encoder_->tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  no_chat_ = serve::make_refusing_chat("this model reads texts and writes none: /v1/embeddings is for it");
}

static run::Beside beside(const ServingOptions& s) {
  return run::drafts_memory(s.drafts, s.engine, s.scheduler.running, pool_of(s));
}
static int sequences_of(const ServingOptions& s) { return run::sequences_for(s.scheduler.blend, s.scheduler.running); }
static int drafted_rows(const ServingOptions& s) { return run::drafted_rows(s.drafts, s.scheduler.running); }

void LoadedModel::load(const ServingOptions& s, std::vector<std::shared_ptr<store::Tier>> tiers,
                       const Progress& progress) {
  engine_ = std::make_unique<run::Engine>(s.engine, run::Engine::Needs{.sequences = sequences_of(s),
                                                                       .pool_tokens = pool_of(s),
                                                                       .logits = s.scheduler.running,
                                                                       .drafted = drafted_rows(s),
                                                                       .beside = beside(s),
                                                                       .weights_folder = weights_folder(s.reuse),
                                                                       .weights_note = print_weights_note,
                                                                       .progress = progress});
  if (!engine_->tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", s.engine.model);
  choose_codecs(*engine_);
  if (!tiers.empty())
    library_.emplace(engine_->cache(), store::fingerprint_of(run::describe_cache(*engine_)), std::move(tiers));
  if (s.drafts.wanted()) drafting_.emplace(*engine_, s.drafts, s.scheduler.running);
  run::PictureOptions pictures = s.pictures;
  pictures.mmproj = run::encoder_beside(s.engine.model, pictures.mmproj);
  if (!pictures.mmproj.empty()) pictures_.emplace(*engine_, pictures, run::tiers_of(library_));
  scheduler_.emplace(*engine_, s.scheduler, name_of(s), library_ ? &*library_ : nullptr,
                     drafting_ ? &*drafting_ : nullptr);
  service_ = &*scheduler_;
  try {
    chat_ = open_chat(scheduler_->card().chat_template, *engine_->tokenizer(), s.serve.chat_template, s.engine.model,
                      scheduler_->card().named_templates, scheduler_->card().response_template);
  } catch (const Error& e) {
    if (!s.serve.chat_template.empty()) throw;
    // The model is good for completions all the same.
    chat_problem_ = std::string(e.what()) + " (--chat-template FILE gives another one)";
    no_chat_ = serve::make_refusing_chat(chat_problem_);
  }
}

Serving::Serving(const ServingOptions& s, serve::LogWriter log) {
  serve::require_network();
  if (!s.serve.models.empty()) {
    offer_all(s, std::move(log));
    return;
  }
  std::vector<std::shared_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  if (!s.serve.warm.empty() && tiers.empty())
    throw Error(Code::kBadInput, "needs a place for what it computes: --ram-cache, --cache-dir or --tier", "--warm");
  ProgressBar loading("loading");
  only_.emplace(s, std::move(tiers), [&](std::int64_t done, std::int64_t total) {
    loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  });
  loading.finish();
  server_.emplace(s.server, only_->service(), only_->chat(), std::move(log), only_->pictures());
}

namespace {

// The card of a model that is not loaded, and what it takes when it is.
serve::Offer offer_of(const ServingOptions& s, const std::vector<std::shared_ptr<store::Tier>>& tiers) {
  auto file = weights::open_model_file(s.engine.model);
  if (!s.engine.weights.empty()) file = weights::rounded(std::move(file), s.engine.weights);
  const model::ModelSpec spec =
      model::read_spec(*file, s.engine.ctx > 0 ? s.engine.ctx : static_cast<std::int64_t>(run::kDefaultContext));
  serve::Offer offer{.card = run::card_of(spec, *file, name_of(s))};
  if (spec.causal) {
    const run::EnginePlan plan = run::plan_engine(*file, s.engine, sequences_of(s),
                                                  s.scheduler.running + drafted_rows(s), pool_of(s), beside(s));
    offer.bytes = plan.total();
    offer.card.context = plan.context;
    offer.card.running = s.scheduler.running;
    offer.card.k_codec = kv::codecs_text(plan.codecs, kv::Side::kKeys);
    offer.card.v_codec = kv::codecs_text(plan.codecs, kv::Side::kValues);
    offer.card.kv = run::kv_name(s.engine, spec);
    offer.card.kv_token = plan.cache.bytes_per_token;
    offer.card.kv_token_f16 = run::f16_bytes_per_token(s.engine, spec);
    if (s.pictures.mmproj != "none") {
      // Opened and given back: a wrong one is an error now, not when the model is wanted.
      const std::size_t before = tensor::allocated_bytes(tensor::Tag::kWeights);
      Team team(1);
      const auto encoder = run::open_encoder_for(spec, s.engine, s.pictures.mmproj, team);
      const auto sounds = run::open_sounds_for(spec, s.engine, s.pictures.mmproj, team);
      offer.vision = true;
      offer.audio = sounds != nullptr;
      offer.bytes +=
          static_cast<std::int64_t>(tensor::allocated_bytes(tensor::Tag::kWeights) - before) + s.pictures.image_memory;
    }
  } else {
    if (s.pictures.mmproj != "none")
      throw Error(Code::kBadInput, fmt::format("'{}' writes no texts, expected a model that does", name_of(s)),
                  "--mmproj");
    offer.bytes = run::Encoder::planned_bytes(s.engine, *file);
    offer.card.context = run::context_for(s.engine, spec);
    offer.card.running = 1;
    offer.card.generates = false;
  }
  offer.load = [s, tiers] { return std::make_unique<LoadedModel>(s, tiers, nullptr); };
  return offer;
}

}  // namespace

void Serving::offer_all(const ServingOptions& s, serve::LogWriter log) {
  const std::uint64_t ram = s.reuse.ram_cache == "0" ? 0 : store::parse_bytes(s.reuse.ram_cache, "--ram-cache");
  const std::uint64_t all =
      s.serve.memory.empty() ? describe_host().memory_available : store::parse_bytes(s.serve.memory, "--memory");
  if (all <= ram)
    throw Error(Code::kBadInput,
                fmt::format("is {}, and --ram-cache takes {} of it: nothing is left for models", human_bytes(all),
                            human_bytes(ram)),
                "--memory");
  budget_ = static_cast<std::int64_t>(all - ram);
  const std::vector<std::shared_ptr<store::Tier>> tiers = open_tiers(s.reuse);
  std::vector<serve::Offer> offers;
  for (const std::string& text : s.serve.models) {
    const NamedModel m = parse_named_model(text);
    ServingOptions one = s;
    one.serve.models.clear();
    one.serve.name = m.name.empty() && client::is_hub_name(m.file) ? m.file : m.name;
    one.engine.model = local_model(m.file);
    one.pictures.mmproj = run::encoder_beside(one.engine.model, encoder_for(s.serve.encoders, name_of(m)));
    if (one.pictures.mmproj.empty()) one.pictures.mmproj = "none";
    serve::Offer offer = offer_of(one, tiers);
    for (const Need& n : needs_)
      if (n.name == offer.card.name)
        throw Error(Code::kBadInput,
                    fmt::format("two models are called '{}', expected different names (-m NAME=FILE)", n.name),
                    "--model");
    needs_.push_back({offer.card.name, offer.bytes});
    offers.push_back(std::move(offer));
  }
  server_.emplace(s.server, std::move(offers), budget_, std::move(log));
}

}  // namespace kvasir::cli
