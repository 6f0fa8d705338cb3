#include "kvasir/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/guard.hpp"
#include "api/host.hpp"
#include "api/options.hpp"
#include "base/json.hpp"
#include "run/embed.hpp"
#include "run/rank.hpp"
#include "run/work_json.hpp"
#include "text/conversation.hpp"
#include "text/pictures.hpp"
#include "text/prompt.hpp"

namespace kvasir {
namespace {

text::Conversation conversation_of(std::string_view messages, std::string_view tools) {
  const auto array = [](std::string_view text, const char* name) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_array()) throw Error(Code::kBadInput, "expected a JSON array", name);
    return json;
  };
  text::Conversation c;
  c.messages = array(messages, "messages");
  if (c.messages.empty()) throw Error(Code::kBadInput, "is empty, expected at least one message", "messages");
  if (!tools.empty()) c.tools = array(tools, "tools");
  text::drop_marks(c.tools);
  return c;
}

text::Prompt prompt_of(const Engine::Impl& impl, const text::Conversation& c) {
  return impl.chat().prompt(c, impl.tokenizer().control_names());
}

}  // namespace

Engine::Engine(const std::string& model, const Options& options, const OnProgress& progress)
    : impl_(api::guarded([&] { return std::make_unique<Impl>(model, options, progress); })) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

const ModelInfo& Engine::info() const { return impl_->info; }

EngineStats Engine::stats() const {
  const run::ServiceStats s = impl_->scheduler->stats();
  EngineStats out{.requests = s.requests,
                  .prompt_tokens = s.prompt_tokens,
                  .reused_tokens = s.reused_tokens,
                  .generated_tokens = s.generated_tokens,
                  .kv_bytes = s.kv_bytes,
                  .kv_budget = s.kv_budget};
  for (const run::TierStats& t : s.tiers) out.tiers.push_back({t.tier, t.bytes, t.records, t.hits, t.misses, t.errors});
  const run::DraftTotals& d = s.drafts;
  out.drafts = {.steps = d.steps,
                .tokens = d.tokens,
                .drafted = d.drafted,
                .accepted = d.accepted,
                .histogram = d.histogram,
                .draft_seconds = d.draft_seconds,
                .verify_seconds = d.verify_seconds,
                .rollback_seconds = d.rollback_seconds};
  out.hit_share = s.hit_share();
  out.prompt_tokens_per_second = s.work.prompt_rate();
  out.generated_tokens_per_second = s.work.answer_rate();
  out.batch_mean = s.work.batch();
  out.batch_most = s.work.most_answers;
  out.pages = s.pool.pages, out.pages_free = s.pool.free, out.pages_shared = s.pool.shared;
  out.json = run::work_json(s).dump();
  return out;
}

Reply Engine::generate(std::string_view prompt, const Options& options, const OnText& on_text) {
  return api::guarded([&] {
    const api::Ask ask(impl_->scheduler_options.blend, options);
    return api::ask(*impl_, ask, impl_->encode(prompt, ask.request.add_bos, ask.request.special, false), on_text);
  });
}

Reply Engine::generate(std::span<const std::int32_t> ids, const Options& options, const OnText& on_text) {
  return api::guarded([&] {
    return api::ask(*impl_, api::Ask(impl_->scheduler_options.blend, options), {ids.begin(), ids.end()}, on_text);
  });
}

Reply Engine::generate(std::span<const std::int32_t> ids, std::span<const PromptRows> rows, const Options& options,
                       const OnText& on_text) {
  return api::guarded([&] {
    std::vector<std::int32_t> prompt(ids.begin(), ids.end());
    const auto width = static_cast<std::size_t>(impl_->info.width);
    std::vector<model::RowRun> runs;
    for (const PromptRows& r : rows) {
      const auto refuse = [&](const std::string& what) {
        throw Error(Code::kBadInput, fmt::format("at {} {}", r.begin, what), "rows");
      };
      if (r.values.empty() || r.values.size() % width != 0)
        refuse(fmt::format("have {} numbers, expected rows of {}", r.values.size(), width));
      if (!std::all_of(r.values.begin(), r.values.end(), [](float x) { return std::isfinite(x); }))
        refuse("hold a number that is not finite");
      auto block = std::make_shared<const model::RowBlock>(r.values, static_cast<int>(width));
      if (r.begin < 0 || r.begin + block->count() > static_cast<std::int64_t>(ids.size()))
        refuse(fmt::format("are {}, which do not lie in the prompt of {}", block->count(), ids.size()));
      const auto place = prompt.begin() + r.begin;
      if (!std::all_of(place, place + block->count(), [](std::int32_t id) { return id == -1; }))
        refuse("stand where the prompt has tokens, expected -1");
      std::copy(block->ids().begin(), block->ids().end(), place);
      runs.push_back({r.begin, std::move(block)});
    }
    return api::ask(*impl_, api::Ask(impl_->scheduler_options.blend, options), std::move(prompt), on_text,
                    std::move(runs));
  });
}

Reply Engine::generate_images(std::string_view prompt, std::span<const std::string> images, const Options& options,
                              const OnText& on_text) {
  return api::guarded([&] {
    const api::Ask ask(impl_->scheduler_options.blend, options);
    std::vector<std::shared_ptr<const run::PromptPicture>> pictures;
    for (const std::string& image : images) {
      const std::string name = fmt::format("images[{}]", pictures.size());
      pictures.push_back(impl_->picture_reader(name).read(image, name));
    }
    if (pictures.empty()) return generate(prompt, options, on_text);
    run::PicturePrompt placed = impl_->pictures->place(
        std::string(prompt), pictures, {}, ask.request.add_bos && impl_->tokenizer().add_bos(), ask.request.special);
    return api::ask(*impl_, ask, std::move(placed.ids), on_text, std::move(placed.runs));
  });
}

std::vector<float> Engine::rows_of(std::span<const std::int32_t> ids) const {
  return api::guarded([&] {
    impl_->engine->check_ids(ids);
    return impl_->engine->forward().rows_of(ids);
  });
}

Reply Engine::chat(std::string_view messages, const Options& options, const OnText& on_text, std::string_view tools) {
  return api::guarded([&] {
    const api::Ask ask(impl_->scheduler_options.blend, options);
    text::Conversation c = conversation_of(messages, tools);
    const std::vector<text::PictureFile> files = text::take_pictures(c.messages);
    std::map<std::string, std::shared_ptr<const run::PromptPicture>> pictures;
    for (const text::PictureFile& file : files) {
      const bool sound = text::is_sound_mark(file.mark);
      run::Pictures& reader = impl_->picture_reader(file.field, sound ? "sound" : "picture");
      pictures[file.mark] = sound ? reader.read_sound(*file.bytes, file.field) : reader.read(*file.bytes, file.field);
    }
    const text::Prompt prompt = prompt_of(*impl_, c);
    std::vector<run::PicturePlace> places;
    for (const text::Prompt::Picture& p : prompt.pictures)
      places.push_back({p.begin, p.end, p.lead, pictures.at(p.mark)});
    const text::Tokenizer& tokenizer = impl_->tokenizer();
    run::PicturePrompt encoded;
    encoded.add(tokenizer, prompt.text, 0, places,
                {.add_bos = tokenizer.add_bos(), .parse_special = true, .plain = prompt.plain});
    return api::ask(*impl_, ask, std::move(encoded.ids), on_text, std::move(encoded.runs));
  });
}

std::string Engine::chat_prompt(std::string_view messages, std::string_view tools) const {
  return api::guarded([&] {
    text::Conversation c = conversation_of(messages, tools);
    text::take_pictures(c.messages);
    const text::Prompt prompt = prompt_of(*impl_, c);
    std::vector<text::MarkAt> places;
    for (const text::Prompt::Picture& p : prompt.pictures) places.push_back({p.begin, p.end});
    return text::without_marks(prompt.text, places);
  });
}

std::int64_t Engine::warm(std::string_view prompt, const Options& options) {
  Options one = options;
  one.emplace_back("n_predict", 1);  // a prompt is computed to choose what follows it
  return generate(prompt, one).prompt_tokens;
}

std::vector<std::int32_t> Engine::tokenize(std::string_view text, bool add_bos, bool special) const {
  return api::guarded([&] { return impl_->encode(text, add_bos, special, false); });
}

std::string Engine::detokenize(std::span<const std::int32_t> ids) const {
  return api::guarded([&] {
    impl_->engine->check_ids(ids);
    return impl_->tokenizer().decode(ids);
  });
}

namespace {

// What `f` cannot do to a tier is said of all of them together.
template <class F>
void of_tiers(Engine::Impl& impl, const char* problem, F&& f) {
  if (!impl.library) return;
  std::string lost;
  for (const auto& tier : impl.library->tiers()) {
    const store::Status done = f(*tier);
    if (!done.ok()) lost += fmt::format("{}{}: {}: {}", lost.empty() ? "" : "; ", tier->name(), problem, done.why);
  }
  if (!lost.empty()) throw std::runtime_error(lost);
}

}  // namespace

void Engine::flush() {
  of_tiers(*impl_, "not all was kept", [](store::Tier& tier) { return tier.flush(); });
}

void Engine::reset_cache() {
  of_tiers(*impl_, "not all was forgotten", [](store::Tier& tier) {
    const store::Status written = tier.flush();  // what is queued would come behind it
    return written.ok() ? tier.clear() : written;
  });
}

std::vector<Reply> Engine::generate_batch(std::span<const std::string> prompts, const Options& options) {
  std::vector<Reply> replies(prompts.size());
  std::exception_ptr thrown;
  std::mutex mutex;  // of it
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < prompts.size();) try {
        replies[i] = generate(prompts[i], options);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!thrown) thrown = std::current_exception();
        next = prompts.size();
      }
  };
  {
    const std::size_t running = static_cast<std::size_t>(impl_->scheduler_options.running);
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(running, prompts.size()); ++i) others.emplace_back(work);
    work();
  }
  if (thrown) std::rethrow_exception(thrown);
  return replies;
}

std::vector<std::vector<float>> Engine::embed(std::span<const std::string> texts, const Options& options) {
  return api::guarded([&] {
    run::EmbedOptions how;
    api::set_options(options, api::OptionTarget<run::EmbedOptions>{run::embed_table(), how});
    std::vector<std::vector<float>> vectors;
    for (const std::string& text : texts) vectors.push_back(run::embed(*impl_->scheduler, text, how).vector);
    return vectors;
  });
}

std::vector<double> Engine::rerank(const std::string& query, std::span<const std::string> documents,
                                   const Options& options) {
  return api::guarded([&] {
    run::RankOptions how;
    api::set_options(options, api::OptionTarget<run::RankOptions>{run::rank_table(), how});
    return run::rank(*impl_->scheduler, query, documents, how);
  });
}

}  // namespace kvasir
