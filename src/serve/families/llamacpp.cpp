#include "serve/families/llamacpp.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/context.hpp"
#include "serve/families/parts.hpp"

namespace kvasir::serve {
namespace {

// The body of a completion of the OpenAI API that means the same, but for the prompt.
Json translated(const Fields& fields, FieldNames& names, const run::ModelSampling& model) {
  Json out{{"max_tokens", -1}};
  for (const auto& [name, preset] : {std::pair<const char*, Json>{"temperature", 0.8},
                                     {"top_k", 40},
                                     {"top_p", 0.95},
                                     {"min_p", 0.05},
                                     {"penalty_last_n", 64}})
    if (!model.values.contains(name)) out[name] = preset;
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"repeat_penalty", "repetition_penalty"}, {"repeat_last_n", "penalty_last_n"}, {"n_predict", "max_tokens"}};
  for (const auto& [name, as] : kNames)
    if (const Json* value = fields.find(name)) {
      out[as] = *value;
      names.add(as, name);
    }
  pass_own(fields, out);
  pass_sampling(fields, out);
  pass_fields(fields, out, {"max_tokens", "stop", "json_schema", "grammar", "response_format"});
  return out;
}

ApiRequest parse(const Fields& fields, const RequestLimits& limits, const Json& prompt) {
  FieldNames names;
  Json completion = translated(fields, names, limits.sampling);
  completion["prompt"] = prompt;
  ApiRequest out = names.run([&] { return parse_completion(completion, limits); });
  out.names = std::move(names);
  if (const auto n = fields.integer("n_probs", 0, INT32_MAX); n && *n > 0)
    out.warnings.emplace_back("'n_probs' does nothing in this API, /v1/completions has 'logprobs'");
  const std::string* model = fields.string("model");
  out.dialect = {{"model", model ? *model : limits.model}};
  return out;
}

class Writer final : public AnswerWriter {
 public:
  explicit Writer(const AnswerInfo& info) : request_(info.request), prompt_tokens_(info.prompt_tokens) {}

  Json whole(std::span<const Choice> choices) override {
    if (choices.size() == 1) return last(0, choices, choices[0].text.content);
    Json all = Json::array();
    for (std::size_t i = 0; i < choices.size(); ++i)
      all.push_back(last(static_cast<int>(i), choices, choices[i].text.content));
    return all;
  }
  std::string begin(int) override { return {}; }
  std::string progress(int index, const Progress& progress) override {
    if (!request_.progress) return {};
    Json out = part(index, "");
    out["prompt_progress"] = progress_json(progress);
    return sse("", out);
  }
  std::string delta(int index, const ChatDelta& text, Json) override { return sse("", part(index, text.content)); }
  std::string end(int index, std::span<const Choice> choices, bool) override {
    return sse("", last(index, choices, ""));
  }
  std::string finish(std::span<const Choice>) override { return {}; }
  std::string error(const ApiError& error) override { return sse("", error_json(error)); }

 private:
  Json part(int index, const std::string& text) const {
    return {{"index", index}, {"content", text}, {"stop", false}, {"tokens_evaluated", prompt_tokens_}};
  }

  Json last(int index, std::span<const Choice> choices, const std::string& text) const {
    const Choice& choice = choices[static_cast<std::size_t>(index)];
    const run::Outcome& o = choice.outcome;
    const run::Receipt& r = o.receipt;
    const std::vector<std::string>& stops = request_.service.request.stop;
    const bool word = o.finish == run::Finish::kStop;
    Json out{{"index", index}, {"content", text}, {"stop", true}, {"model", request_.dialect["model"]}};
    out["tokens_predicted"] = o.completion_tokens;
    out["tokens_evaluated"] = o.prompt_tokens;
    out["tokens_cached"] = o.prompt_tokens + o.completion_tokens;
    out["truncated"] = request_.shift.dropped_tokens + o.shifted_tokens > 0;
    out["stop_type"] = choice.finish == "length" ? "limit" : word ? "word" : "eos";
    const auto which = static_cast<std::size_t>(o.stopped_by);  // -1: none
    out["stopping_word"] = word && which < stops.size() ? stops[which] : "";
    const std::int64_t computed = r.computed(o.prompt_tokens);
    out["timings"] = {{"cache_n", r.reused_tokens},
                      {"prompt_n", computed},
                      {"prompt_ms", r.prefill_seconds * 1000},
                      {"prompt_per_second", rate(computed, r.prefill_seconds)},
                      {"predicted_n", o.completion_tokens},
                      {"predicted_ms", o.decode_seconds * 1000},
                      {"predicted_per_second", rate(o.decode_steps, o.decode_seconds)}};
    if (index + 1 == static_cast<int>(choices.size())) out["kvasir"] = kvasir_json(choices, request_);
    return out;
  }

  static double rate(std::int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }

  const ApiRequest& request_;
  const std::int64_t prompt_tokens_;
};

}  // namespace

ApiRequest parse_llamacpp_completion(const Json& body, const RequestLimits& limits) {
  const Fields fields(body);
  const Json* prompt = fields.find("prompt");
  if (!prompt) bad_field("prompt", "is missing", "missing_required_parameter");
  return parse(fields, limits, *prompt);
}

ApiRequest parse_llamacpp_infill(const Json& body, const RequestLimits& limits) {
  const Fields fields(body);
  Gap gap;
  const auto text = [&](const char* name) {
    const std::string* value = fields.string(name);
    return value ? *value : std::string();
  };
  if (!fields.find("input_prefix") && !fields.find("input_suffix") && !fields.find("prompt"))
    bad_field("input_prefix", "is missing, as are 'input_suffix' and 'prompt'", "missing_required_parameter");
  gap.prefix = text("input_prefix") + text("prompt");
  gap.suffix = text("input_suffix");
  const Json* extra = fields.array("input_extra");
  for (std::size_t i = 0; extra && i < extra->size(); ++i) {
    const Fields file((*extra)[i], fmt::format("input_extra[{}].", i));
    const std::string* name = file.string("filename");
    gap.files.push_back({name ? *name : "tmp", block_string(file, "text")});
  }
  ApiRequest out = parse(fields, limits, "");
  out.prompts.front().gap = std::move(gap);
  const char* given = fields.find("input_suffix")   ? "input_suffix"
                      : fields.find("input_prefix") ? "input_prefix"
                                                    : "prompt";
  out.names.add("suffix", given);
  return out;
}

std::unique_ptr<AnswerWriter> llamacpp_writer(const AnswerInfo& info) { return std::make_unique<Writer>(info); }

}  // namespace kvasir::serve
