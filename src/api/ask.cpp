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
#include "text/json_schema.hpp"

namespace kvasir::api {
namespace {

const OptionTable<RequestOptions>& request_table() {
  using O = RequestOptions;
  static const OptionTable<O> t{
      "request",
      {{"n_predict",
        &O::n_predict,
        {.help = "most tokens to generate; -1 is until the end of the text or of the context",
         .unit = "tokens",
         .low = -1,
         .high = 1 << 24}},
       {"stop", &O::stop, {.help = "end before this text; may be given more than once"}},
       {"logit_bias", &O::logit_bias, {.help = "ID=NUMBER is added to a token's logit; may be given more than once"}},
       {"json_schema", &O::json_schema, {.help = "a JSON Schema that the answer conforms to"}},
       {"tenant", &O::tenant, {.help = "whose cache it is"}},
       {"select", &O::select, {.help = "which blocks the answer's tokens read, as the engine's option of that name"}},
       {"draft",
        &O::draft,
        {.help = "the engine's drafters that guess for it: true is all, false none, a name one; may be given more than "
                 "once"}},
       {"logprobs", &O::logprobs, {.help = "log-probability of every token of the answer"}},
       {"ignore_eos", &O::ignore_eos, {.help = "go on when the model ends its text"}},
       {"add_bos", &O::add_bos, {.help = "put the model's BOS token in front of a text, where the model wants one"}},
       {"special", &O::special, {.help = "special tokens written in a text are read as such"}}}};
  return t;
}

// "reuse" of a request may be true, as the engine has it, or false, which is "off".
Options in_words(Options options) {
  std::erase_if(options, [](const Option& o) { return o.name == "reuse" && o.value == "true"; });
  for (Option& o : options)
    if (o.name == "reuse" && o.value == "false") o.value = "off";
  return options;
}

// As the server's field: without the option, and with true, all drafters.
std::optional<std::vector<std::string>> drafters_of(const std::vector<std::string>& draft) {
  if (draft.empty() || draft == std::vector<std::string>{"true"}) return std::nullopt;
  if (draft == std::vector<std::string>{"false"}) return std::vector<std::string>{};
  return draft;
}

std::shared_ptr<const text::Grammar> grammar_of(const std::string& schema) {
  if (schema.empty()) return nullptr;
  const auto json = nlohmann::ordered_json::parse(schema, nullptr, false);
  if (json.is_discarded()) throw Error(Code::kBadInput, "is not JSON", "json_schema");
  try {
    return text::grammar_of_schema(json, text::Unknown::kRefuse);
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), "json_schema");
  }
}

Reply reply_of(const run::Reply& r) {
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
  for (const run::TokenRecord& t : r.records) reply.logprobs.push_back({t.id, t.logprob});
  return reply;
}

}  // namespace

Ask::Ask(const run::BlendOptions& blend_, const Options& options) : blend(blend_) {
  set_options(in_words(options), OptionTarget<RequestOptions>{request_table(), request},
              OptionTarget<run::SamplingOptions>{run::sampling_table(), sampling},
              OptionTarget<run::BlendOptions>{run::blend_table(), blend});
  for (const std::string& bias : request.logit_bias) run::add_logit_bias(sampling, bias);
  for (const Option& o : options) given.push_back(o.name);
}

Reply ask(Engine::Impl& impl, const Ask& ask, std::vector<std::int32_t> prompt, const OnText& on_text) {
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
  request.prompt = std::move(prompt);
  request.max_tokens = ask.request.n_predict;
  request.sampling = ask.sampling;
  impl.scheduler->card().sampling.fill(request.sampling, [&](const std::string& name) {
    return std::find(ask.given.begin(), ask.given.end(), name) != ask.given.end();
  });
  request.stop = ask.request.stop;
  request.select = ask.request.select;
  request.top_logprobs = ask.request.logprobs ? 0 : -1;
  request.ignore_eos = ask.request.ignore_eos;
  request.grammar = grammar_of(ask.request.json_schema);

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
  const run::Reply reply = run::ask(*impl.scheduler, std::move(service), events);
  if (thrown) std::rethrow_exception(thrown);
  return reply_of(reply);
}

}  // namespace kvasir::api
