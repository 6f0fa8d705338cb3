#include "kvasir/engine.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/guard.hpp"
#include "api/host.hpp"
#include "base/json.hpp"
#include "text/conversation.hpp"
#include "text/prompt.hpp"

namespace kvasir {
namespace {

text::Prompt prompt_of(const Engine::Impl& impl, std::string_view messages, std::string_view tools) {
  const text::ChatTemplate& chat = impl.chat();
  const auto array = [](std::string_view text, const char* name) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_array()) throw Error(Code::kBadInput, "expected a JSON array", name);
    return json;
  };
  text::Conversation c;
  c.messages = array(messages, "messages");
  if (c.messages.empty()) throw Error(Code::kBadInput, "is empty, expected at least one message", "messages");
  if (!tools.empty()) c.tools = array(tools, "tools");
  return chat.prompt(c, impl.tokenizer().control_names());
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

Reply Engine::chat(std::string_view messages, const Options& options, const OnText& on_text, std::string_view tools) {
  return api::guarded([&] {
    const api::Ask ask(impl_->scheduler_options.blend, options);
    return api::ask(*impl_, ask, text::encode_prompt(impl_->tokenizer(), prompt_of(*impl_, messages, tools)), on_text);
  });
}

std::string Engine::chat_prompt(std::string_view messages, std::string_view tools) const {
  return api::guarded([&] { return prompt_of(*impl_, messages, tools).text; });
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

void Engine::flush() {
  if (!impl_->library) return;
  std::string lost;
  for (const auto& tier : impl_->library->tiers()) {
    const store::Status written = tier->flush();
    if (!written.ok())
      lost += fmt::format("{}{}: not all was kept: {}", lost.empty() ? "" : "; ", tier->name(), written.why);
  }
  if (!lost.empty()) throw std::runtime_error(lost);
}

}  // namespace kvasir
