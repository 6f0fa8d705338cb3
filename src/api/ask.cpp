// A request of the C++ API, and its reply.
#include "run/ask.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <nlohmann/json.hpp>

#include "api/host.hpp"
#include "api/options.hpp"
#include "base/error.hpp"
#include "run/receipt.hpp"

namespace kvasir::api {
namespace {

// "reuse" of a request may be true, as the engine has it, or false, which is "off"; "logprobs" true, which is of no
// alternatives, or false.
Options in_words(Options options) {
  std::erase_if(options, [](const Option& o) { return o.name == "reuse" && o.value == "true"; });
  for (Option& o : options) {
    if (o.name == "reuse" && o.value == "false") o.value = "off";
    if (o.name == "logprobs" && o.value == "true") o.value = "0";
    if (o.name == "logprobs" && o.value == "false") o.value = "-1";
  }
  return options;
}

// As the server's field: without the option, and with true, all drafters.
std::optional<std::vector<std::string>> drafters_of(const std::vector<std::string>& draft) {
  if (draft.empty() || draft == std::vector<std::string>{"true"}) return std::nullopt;
  if (draft == std::vector<std::string>{"false"}) return std::vector<std::string>{};
  return draft;
}

Reply reply_of(const run::Answered& r) {
  const run::Outcome& o = r.outcome;
  Reply reply{.text = r.text,
              .ids = r.ids,
              .finish = std::string(run::name(o.finish)),
              .prompt_tokens = o.prompt_tokens,
              .seed = o.seed,
              .first_token_seconds = o.receipt.queue_seconds + o.receipt.prefill_seconds,
              .prompt_seconds = o.prompt_seconds,
              .generate_seconds = o.decode_seconds,
              .receipt = {.reused_tokens = o.receipt.reused_tokens,
                          .computed_tokens = o.receipt.computed(o.prompt_tokens),
                          .loaded_bytes = o.receipt.loaded_bytes,
                          .load_seconds = o.receipt.load_seconds,
                          .miss = o.receipt.miss,
                          .json = run::receipt_json(o).dump(-1, ' ', false, Json::error_handler_t::replace)}};
  for (const run::Span& s : o.receipt.spans) reply.receipt.spans.push_back({s.begin, s.end, s.source});
  for (const run::TokenRecord& t : r.records) {
    TokenProbability& token = reply.logprobs.emplace_back(TokenProbability{t.id, t.logprob, {}});
    for (const auto& b : t.best) token.top.push_back({b.id, b.logprob, {}});
  }
  return reply;
}

}  // namespace

Ask::Ask(const run::BlendOptions& blend_, const Options& options) : blend(blend_) {
  set_options(in_words(options), OptionTarget<run::RequestOptions>{run::request_table(), request},
              OptionTarget<run::SamplingOptions>{run::sampling_table(), sampling},
              OptionTarget<run::BlendOptions>{run::blend_table(), blend});
  for (const std::string& bias : request.logit_bias) run::add_logit_bias(sampling, bias);
  for (const Option& o : options) given.push_back(o.name);
}

Reply ask(Engine::Impl& impl, const Ask& ask, std::vector<std::int32_t> prompt, const OnText& on_text,
          std::vector<model::RowRun> runs) {
  run::ServiceRequest service;
  service.tenant = ask.request.tenant;
  service.reuse = ask.blend.reuse != "off";
  service.blend = {.reuse = ask.blend.reuse,
                   .strategy = ask.blend.strategy,
                   .ratio = ask.blend.ratio,
                   .first_rows = ask.blend.first_rows,
                   .check_layer = ask.blend.check_layer,
                   .second_layer = ask.blend.second_layer};
  service.drafters = drafters_of(ask.request.draft);
  run::Request& request = service.request;
  run::fill(request, ask.request);
  request.prompt = std::move(prompt);
  request.runs = std::move(runs);
  request.sampling = ask.sampling;
  impl.scheduler->card().sampling.fill(request.sampling, [&](const std::string& name) {
    return std::find(ask.given.begin(), ask.given.end(), name) != ask.given.end();
  });

  std::atomic<bool> cancelled = false;
  std::exception_ptr thrown;  // written before `cancelled` is, and read when the request is over
  run::Events events;
  if (on_text) {
    events.text = [&](std::string_view text) {
      if (cancelled) return;
      try {
        if (on_text(text)) return;
      } catch (...) {
        thrown = std::current_exception();
      }
      cancelled = true;
    };
    events.cancelled = [&] { return cancelled.load(); };
  }
  const run::Answered reply = run::ask(*impl.scheduler, std::move(service), events);
  if (thrown) std::rethrow_exception(thrown);
  return reply_of(reply);
}

}  // namespace kvasir::api
