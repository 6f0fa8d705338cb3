#include "serve/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "run/blend.hpp"
#include "run/sampling_options.hpp"
#include "serve/answer_format.hpp"
#include "serve/body.hpp"
#include "serve/foreign_fields.hpp"
#include "serve/texts.hpp"

namespace kvasir::serve {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::size_t kLongestStop = 4096;
constexpr int kMostAlternatives = 20;
constexpr std::int32_t kCompletionTokens = 16;  // default of the OpenAI API

void read_stops(const Fields& fields, std::vector<std::string>& stops) {
  const Json* value = fields.find("stop");
  if (!value) return;
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    for (const Json& item : *value) {
      if (!item.is_string()) bad_field("stop", "expected strings, found " + shown(item), "invalid_type");
      stops.push_back(item.get<std::string>());
    }
  } else {
    bad_field("stop", "expected a string or an array of strings, found " + shown(*value), "invalid_type");
  }
  if (stops.size() > kMostStops)
    bad_field("stop", fmt::format("{} strings, expected at most {}", stops.size(), kMostStops), "invalid_value");
  for (const std::string& s : stops)
    if (s.empty() || s.size() > kLongestStop)
      bad_field("stop", fmt::format("a string of {} bytes, expected 1 to {}", s.size(), kLongestStop), "invalid_value");
}

void read_bias(const Fields& fields, std::int32_t vocabulary, std::map<std::int32_t, float>& bias) {
  const Json* value = fields.object("logit_bias");
  if (!value) return;
  for (const auto& [key, number] : value->items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocabulary)
      bad_field("logit_bias", fmt::format("key '{}', expected a token id from 0 to {}", key, vocabulary - 1),
                "invalid_value");
    if (!number.is_number()) bad_field("logit_bias", "expected numbers, found " + shown(number), "invalid_type");
    const double x = number.get<double>();
    if (!(x >= -100 && x <= 100))
      bad_field("logit_bias", fmt::format("{}, expected a number from -100 to 100", x), "invalid_value");
    bias[id] = static_cast<float>(x);
  }
}

// What the model's file recommends, else the OpenAI API's defaults: temperature 1 and every other stage off.
run::SamplingOptions read_sampling(const Fields& fields, const RequestLimits& limits) {
  run::SamplingOptions s{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .penalty_last_n = -1};
  limits.sampling.fill(s, [&](const std::string& name) { return fields.find(name) != nullptr; });
  const auto& table = run::sampling_table();
  for (std::size_t i = 0; i < table.specs().size(); ++i) {
    const OptionSpec& spec = table.specs()[i];
    const Json* value = fields.find(spec.name);
    if (!value || spec.name == "seed") continue;
    if (spec.name == "top_k" && *value == Json(-1))
      s.top_k = 0;  // is off in other servers
    else
      table.set(s, i, *fields.option(spec.name, spec), spec.name);
  }
  s.seed = fields.integer("seed", INT64_MIN, INT64_MAX).value_or(-1);
  if (s.seed < -1) s.seed &= INT64_MAX;  // -1: a new one each time
  read_bias(fields, limits.vocabulary, s.logit_bias);
  return s;
}

}  // namespace

void check_model(const Fields& fields, const RequestLimits& limits) {
  const std::string* model = fields.string("model");
  if (!model || limits.model.empty() || *model == limits.model) return;
  throw ApiException(
      {.status = 404,
       .message = fmt::format("the model '{}' does not exist, this server has '{}'", *model, limits.model),
       .param = "model",
       .code = "model_not_found"});
}

namespace {

// `context_shift` is llama.cpp's word, `truncation` that of OpenAI's Responses.
void read_shift(const Fields& fields, ContextShift& shift) {
  shift.on = fields.boolean("context_shift").value_or(false);
  if (const std::string* t = fields.string("truncation")) {
    if (*t != "auto" && *t != "disabled")
      bad_field(fields.path("truncation"), fmt::format("'{}', expected 'auto' or 'disabled'", *t), "invalid_value");
    shift.on = shift.on || *t == "auto";
  }
  shift.keep = fields.integer("n_keep", -1, INT32_MAX).value_or(shift.keep);
}

// `reuse` is true (as the server has it), false, or a word; `cache_prompt` is llama.cpp's. The options of blending have
// their names, or stand in an object `blend` without their first word.
void read_reuse(const Fields& fields, run::ServiceRequest& out) {
  const Json* reuse = fields.find("reuse");
  const bool word = reuse && reuse->is_string();
  if (!word) out.reuse = fields.boolean("reuse").value_or(fields.boolean("cache_prompt").value_or(true));
  const Json* object = fields.object("blend");
  const Json none = Json::object();
  const Fields inside(object ? *object : none, "blend.");
  constexpr std::string_view kPrefix = "blend_";
  const auto& table = run::blend_table();
  run::BlendOptions how;
  std::set<std::string> given;
  for (std::size_t i = 0; i < table.specs().size(); ++i) {
    const OptionSpec& spec = table.specs()[i];
    std::optional<OptionValue> value;
    if (spec.name.starts_with(kPrefix)) value = inside.option(spec.name.substr(kPrefix.size()), spec);
    if (!value && (word || spec.name != "reuse")) value = fields.option(spec.name, spec);
    if (!value) continue;
    table.set(how, i, *value, spec.name);
    given.insert(spec.name);
  }
  run::BlendRequest& blend = out.blend;
  if (given.contains("reuse")) out.reuse = how.reuse != "off", blend.reuse = how.reuse;
  if (given.contains("blend_strategy")) blend.strategy = how.strategy;
  if (given.contains("blend_ratio")) blend.ratio = how.ratio;
  if (given.contains("blend_first_rows")) blend.first_rows = how.first_rows;
  if (given.contains("blend_check_layer")) blend.check_layer = how.check_layer;
  if (given.contains("blend_second_layer")) blend.second_layer = how.second_layer;
}

// true: all that the server has; false: none; else names.
std::optional<std::vector<std::string>> read_drafters(const Fields& fields) {
  const Json* value = fields.find("draft");
  if (!value || *value == Json(true)) return std::nullopt;
  std::vector<std::string> names;
  if (*value == Json(false)) return names;
  const auto bad = [&] {
    bad_field(fields.path("draft"), "is " + shown(*value) + ", expected true, false or an array of names of drafters",
              "invalid_value");
  };
  if (!value->is_array()) bad();
  for (const Json& name : *value) {
    if (!name.is_string()) bad();
    names.push_back(name);
  }
  return names;
}

// A text as C and Python have it, a list of such names, or llama.cpp's [{"id": 0, "scale": 0.5}]; an empty list is
// none.
std::string read_lora(const Fields& fields) {
  const Json* value = fields.find("lora");
  if (!value || value->is_null()) return {};
  if (value->is_string()) return value->get<std::string>();
  const auto refuse = [](const std::string& path, const Json& what) {
    bad_field(path,
              "is " + shown(what) + ", expected a name of an adapter, or an array of names or of {\"id\", \"scale\"}",
              "invalid_type");
  };
  if (!value->is_array()) refuse(fields.path("lora"), *value);
  std::string text;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& item = (*value)[i];
    const std::string path = fields.path("lora") + "[" + std::to_string(i) + "]";
    text += text.empty() ? "" : ",";
    if (item.is_string()) {
      text += item.get<std::string>();
    } else if (item.is_object()) {
      const Fields of(item, path + ".");
      const auto id = of.integer("id", 0, INT32_MAX);
      if (!id) bad_field(path + ".id", "is missing, expected the number of an adapter", "missing_required_parameter");
      text += fmt::format("{}={}", *id, of.number("scale", -1e30, 1e30).value_or(1));
    } else {
      refuse(path, item);
    }
  }
  return value->empty() ? "none" : text;
}

void read_common(const Fields& fields, const RequestLimits& limits, ApiRequest& out) {
  check_model(fields, limits);
  check_foreign(fields, openai_foreign_fields(), out.warnings);
  out.n = static_cast<int>(fields.integer("n", 1, limits.choices).value_or(1));
  out.stream = fields.boolean("stream").value_or(false);
  if (const Json* options = fields.object("stream_options"))
    out.include_usage = Fields(*options, "stream_options.").boolean("include_usage").value_or(false);
  run::Request& request = out.service.request;
  request.sampling = read_sampling(fields, limits);
  read_stops(fields, request.stop);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.prefix_tokens = static_cast<std::int32_t>(fields.integer("prefix_tokens", -1, 1 << 24).value_or(0));
  if (const std::string* select = fields.string("select")) request.select = *select;
  request.lora = read_lora(fields);
  read_shift(fields, out.shift);
  out.progress = fields.boolean("return_progress").value_or(false);
  read_reuse(fields, out.service);
  out.service.drafters = read_drafters(fields);
  AnswerFormat format = read_answer_format(fields, out.warnings);
  out.format = std::move(format.add);
  request.grammar = std::move(format.grammar);
}

// -1: no limit but the context, as llama.cpp has it; `n_predict` is its name.
std::int32_t read_max_tokens(const Fields& fields, std::int64_t low, std::int32_t otherwise) {
  for (const char* name : {"max_completion_tokens", "max_tokens", "n_predict"}) {
    const Json* value = fields.find(name);
    if (!value) continue;
    if (*value == Json(-1)) return -1;
    return static_cast<std::int32_t>(*fields.integer(name, low, INT32_MAX));
  }
  return otherwise;
}

// How many tokens the model may think: OpenRouter's, Anthropic's and Qwen's names.
std::int32_t read_budget(const Fields& fields) {
  std::optional<std::int64_t> budget;
  const auto read = [&](const Fields& of, const char* name) {
    if (const auto n = of.integer(name, -1, INT32_MAX)) budget = n;
  };
  read(fields, "thinking_budget");
  for (const auto& [object, name] : {std::pair{"thinking", "budget_tokens"}, {"reasoning", "max_tokens"}}) {
    const Json* value = fields.find(object);
    if (value && value->is_object()) read(Fields(*value, std::string(object) + "."), name);
  }
  return static_cast<std::int32_t>(budget.value_or(-1));
}

}  // namespace

void pass_fields(const Fields& from, Json& to, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const Json* value = from.find(name)) to[name] = *value;
}

void pass_own(const Fields& from, Json& to) {
  for (const OptionSpec& spec : run::blend_table().specs()) pass_fields(from, to, {spec.name.c_str()});
  pass_fields(from, to,
              {"model", "stream", "blend", "select", "lora", "draft", "ignore_eos", "prefix_tokens", "logit_bias",
               "cache_prompt", "context_shift", "truncation", "n_keep", "return_progress"});
}

void pass_sampling(const Fields& from, Json& to) {
  for (const OptionSpec& spec : run::sampling_table().specs()) pass_fields(from, to, {spec.name.c_str()});
}

std::vector<Prompt> read_texts(const Json& value, const std::string& field, std::int32_t vocabulary) {
  const auto of_text = [](const Json& text) { return Prompt{.text = text.get<std::string>()}; };
  const auto of_ids = [&](const Json& ids, const std::string& name) {
    return Prompt{.is_ids = true, .ids = read_ids(ids, name, vocabulary)};
  };
  if (value.is_string()) return {of_text(value)};
  if (!value.is_array())
    bad_field(field, "expected a string or an array of strings or token ids, found " + shown(value), "invalid_type");
  if (value.empty()) bad_field(field, "is empty, expected at least one text", "invalid_value");
  if (value[0].is_number()) return {of_ids(value, field)};
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    if (value[i].type() != value[0].type() || !(value[i].is_string() || value[i].is_array()))
      bad_field(name, "expected only strings or only arrays of token ids, found " + shown(value[i]), "invalid_type");
    prompts.push_back(value[i].is_string() ? of_text(value[i]) : of_ids(value[i], name));
  }
  return prompts;
}

ApiRequest parse_chat(const Json& body, const RequestLimits& limits) {
  const Fields fields(body);
  ApiRequest out{.kind = Kind::kChat, .is_chat = true};
  read_common(fields, limits, out);
  out.chat = parse_messages(body, limits.pictures, limits.urls);
  out.thinking_budget = read_budget(fields);
  // Some templates tell the model.
  if (out.thinking_budget >= 0 && !out.chat.extra.contains("thinking_budget"))
    out.chat.extra["thinking_budget"] = out.thinking_budget;
  out.service.request.max_tokens = read_max_tokens(fields, 1, -1);
  out.logprobs = fields.boolean("logprobs").value_or(false);
  const auto best = fields.integer("top_logprobs", 0, kMostAlternatives);
  if (best && !out.logprobs) bad_field("top_logprobs", "needs 'logprobs' to be true", "invalid_value");
  if (out.logprobs) out.service.request.top_logprobs = static_cast<std::int32_t>(best.value_or(0));
  return out;
}

ApiRequest parse_completion(const Json& body, const RequestLimits& limits) {
  const Fields fields(body);
  ApiRequest out{.kind = Kind::kCompletion};
  read_common(fields, limits, out);
  const Json* prompt = fields.find("prompt");
  if (!prompt) bad_field("prompt", "is missing", "missing_required_parameter");
  out.prompts = read_texts(*prompt, "prompt", limits.vocabulary);
  if (out.prompts.size() * static_cast<std::size_t>(out.n) > static_cast<std::size_t>(limits.choices))
    bad_field("n",
              fmt::format("{} prompts with {} answers each, expected at most {} answers", out.prompts.size(), out.n,
                          limits.choices),
              "invalid_value");
  out.service.request.max_tokens = read_max_tokens(fields, 0, kCompletionTokens);
  out.echo = fields.boolean("echo").value_or(false);
  if (const auto best = fields.integer("logprobs", 0, kMostAlternatives)) {
    out.logprobs = true;
    out.service.request.top_logprobs = static_cast<std::int32_t>(*best);
  }
  out.service.request.prompt_logprobs = out.echo && out.logprobs;
  if (const std::string* suffix = fields.string("suffix"); suffix && !suffix->empty()) {
    for (Prompt& p : out.prompts) {
      if (p.is_ids) bad_field("suffix", "expected 'prompt' to be a text, found token ids", "invalid_value");
      p.gap = Gap{.prefix = p.text, .suffix = *suffix, .files = {}};
    }
    if (out.service.request.prompt_logprobs) unsupported("logprobs", "with 'echo' and 'suffix'");
  }
  if (const auto best_of = fields.integer("best_of", 1, limits.choices); best_of && *best_of != out.n)
    unsupported("best_of", "expected the same as 'n'");
  return out;
}

ApiRequest parse_warm(const Json& body, const RequestLimits& limits) {
  const Fields fields(body);
  ApiRequest out{.kind = Kind::kWarm};
  read_common(fields, limits, out);
  out.n = 1;
  out.stream = false;
  if (fields.find("messages")) {
    out.is_chat = true;
    out.chat = parse_messages(body, limits.pictures, limits.urls);
    // What is warmed is a beginning that other requests go on from.
    out.chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(false);
  } else {
    const char* name = fields.find("prompt") ? "prompt" : fields.find("text") ? "text" : "content";  // others' names
    const Json* prompt = fields.find(name);
    if (!prompt) bad_field("prompt", "is missing, as is 'messages'", "missing_required_parameter");
    out.prompts = read_texts(*prompt, name, limits.vocabulary);
    if (out.prompts.size() != 1) bad_field(name, "expected one prompt", "invalid_value");
  }
  out.service.request.max_tokens = 0;
  out.service.pin = fields.boolean("pin").value_or(true);
  out.service.pin_seconds = fields.number("ttl", 1, 366 * 86400.0).value_or(out.service.pin_seconds);
  return out;
}

}  // namespace kvasir::serve
