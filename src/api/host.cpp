#include "api/host.hpp"

#include <algorithm>

#include "api/options.hpp"
#include "base/error.hpp"
#include "kv/spec.hpp"
#include "run/calibration.hpp"
#include "run/fingerprint.hpp"
#include "text/prompt.hpp"
#include "weights/parts.hpp"

namespace kvasir {

Engine::Impl::Impl(const std::string& model, const Options& options, const OnProgress& progress) {
  engine_options.model = model;
  api::set_options(options, api::OptionTarget<run::EngineOptions>{run::engine_table(), engine_options},
                   api::OptionTarget<run::SchedulerOptions>{run::scheduler_table(), scheduler_options},
                   api::OptionTarget<run::BlendOptions>{run::blend_table(), scheduler_options.blend},
                   api::OptionTarget<run::DraftOptions>{run::draft_table(), drafts},
                   api::OptionTarget<run::PictureOptions>{run::picture_table(), picture_options},
                   api::OptionTarget<store::ReuseOptions>{store::reuse_table(), reuse});
  if (engine_options.model.empty()) throw Error(Code::kBadInput, "is empty, expected a GGUF file or a folder", "model");
  auto tiers = store::open_tiers(reuse);
  const int running = scheduler_options.running;
  const std::int64_t context = engine_options.ctx > 0 ? engine_options.ctx : run::kDefaultContext;
  const bool blends = scheduler_options.blend.reuse == "blend";
  engine_options.whole_windows = engine_options.whole_windows || blends;
  const std::int64_t pool = blends ? run::kBlendContexts * context : 0;
  run::Engine::Needs needs{.sequences = run::sequences_for(scheduler_options.blend, running),
                           .pool_tokens = pool,
                           .logits = running,
                           .drafted = run::drafted_rows(drafts, running),
                           .beside = run::drafts_memory(drafts, engine_options, running, pool)};
  needs.weights_folder = store::weights_folder(reuse);
  if (progress) needs.progress = progress;
  engine = std::make_unique<run::Engine>(engine_options, needs);
  if (!engine->tokenizer())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", engine_options.model);
  // What "auto" chooses is always the same, so that what is stored fits every later start.
  engine->choose_codecs(run::calibration_tokens(tokenizer(), engine->context()));
  if (!tiers.empty())
    library.emplace(engine->cache(), store::fingerprint_of(run::describe_cache(*engine)), std::move(tiers));
  picture_options.mmproj = run::encoder_beside(engine_options.model, picture_options.mmproj);
  if (!picture_options.mmproj.empty()) pictures.emplace(*engine, picture_options, run::tiers_of(library));
  if (drafts.wanted()) drafting.emplace(*engine, drafts, running);
  scheduler.emplace(*engine, scheduler_options, weights::model_name(engine_options.model),
                    library ? &*library : nullptr, drafting ? &*drafting : nullptr);
  const run::ModelCard& card = scheduler->card();
  const auto piece = [&](std::int32_t id) { return id >= 0 ? std::string(tokenizer().piece(id)) : std::string(); };
  if (card.chat_template.empty()) {
    chat_problem = "the model has no chat template";
  } else {
    try {
      chat_template.emplace(card.chat_template, piece(tokenizer().bos()), piece(tokenizer().eos()));
    } catch (const Error& e) {
      chat_problem = std::string("the model's chat template cannot be used: ") + e.what();
    }
  }
  info = {.name = card.name,
          .architecture = card.architecture,
          .context = card.context,
          .trained_context = card.trained_context,
          .vocabulary = card.vocabulary,
          .width = card.width,
          .parameters = card.parameters,
          .weight_bytes = card.bytes,
          .k_codec = kv::codecs_text(engine->codecs(), kv::Side::kKeys),
          .v_codec = kv::codecs_text(engine->codecs(), kv::Side::kValues),
          .kv_bytes_per_token = engine->cache().memory().bytes_per_token,
          .chats = chat_template.has_value()};
}

Engine::Impl::~Impl() = default;

const text::ChatTemplate& Engine::Impl::chat() const {
  if (!chat_template) throw Error(Code::kBadInput, chat_problem, engine_options.model);
  return *chat_template;
}

run::Pictures& Engine::Impl::picture_reader(const std::string& field, const char* what) {
  if (!pictures)
    throw Error(Code::kBadInput,
                std::string("is a ") + what +
                    ", and the engine reads none: open it with mmproj, the file of the model's encoder",
                field);
  return *pictures;
}

std::vector<std::int32_t> Engine::Impl::encode(std::string_view text, bool bos, bool special, bool behind) const {
  if (behind) return tokenizer().encode(text, {.parse_special = special, .behind_text = true});
  return text::encode_prompt(tokenizer(), text, {.add_bos = bos && tokenizer().add_bos(), .parse_special = special});
}

}  // namespace kvasir
