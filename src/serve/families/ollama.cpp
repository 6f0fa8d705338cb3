#include "serve/families/ollama.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "serve/context.hpp"
#include "serve/families/parts.hpp"
#include "serve/foreign_fields.hpp"
#include "serve/thinking.hpp"
#include "store/key.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr std::string_view kTag = ":latest";

// What both bodies have besides their text.
class OllamaTranslation {
 public:
  OllamaTranslation(const Json& body, const RequestLimits& limits) : fields_(body), limits_(limits) {
    const std::string* model = fields_.string("model");
    if (!model) bad_field("model", "is missing", "missing_required_parameter");
    model_ = *model;
    pass_own(fields_, chat_);
    chat_["model"] = without_tag(*model);
    chat_["stream"] = fields_.boolean("stream").value_or(true);
    if (const Json* value = fields_.find("shift")) chat_["context_shift"] = *value;
    check_foreign(fields_, ollama_foreign_fields(), warnings_);
    read_options();
    read_format();
    logprobs_ = fields_.boolean("logprobs").value_or(false);
    best_ = fields_.integer("top_logprobs", 0, 20).value_or(0);
    if (best_ > 0 && !logprobs_) bad_field("top_logprobs", "needs 'logprobs' to be true", "invalid_value");
  }

  ApiRequest chat() {
    if (const Json* images = fields_.array("images"); images && !images->empty())
      unsupported("images", "of /api/chat stand in its messages");
    const Json* messages = fields_.array("messages");
    if (!messages || messages->empty()) return loaded();
    for (std::size_t i = 0; i < messages->size(); ++i)
      read_message(Fields((*messages)[i], fmt::format("messages[{}].", i)));
    if (const Json* tools = fields_.array("tools"); tools && !tools->empty()) chat_["tools"] = *tools;
    read_think();
    return as_chat();
  }

  ApiRequest generate() {
    if (const std::string* given = fields_.string("template"); given && !given->empty())
      unsupported("template", "is not supported, start the server with --chat-template");
    if (const Json* context = fields_.array("context"); context && !context->empty())
      unsupported("context", "is not supported, use /api/chat");
    const std::string* prompt = fields_.string("prompt");
    if (!prompt || prompt->empty()) return loaded();
    const std::string* suffix = fields_.string("suffix");
    const bool gap = suffix && !suffix->empty();
    const Json* images = fields_.array("images");
    if (gap || fields_.boolean("raw").value_or(false)) {
      if (images && !images->empty()) unsupported("images", "with 'raw' or 'suffix'");
      chat_["prompt"] = *prompt;
      if (gap) chat_["suffix"] = *suffix;
      if (!chat_.contains("max_tokens")) chat_["max_tokens"] = -1;
      if (logprobs_) chat_["logprobs"] = best_;
      return finished(names_.run([&] { return parse_completion(chat_, limits_); }));
    }
    names_.add("messages", "prompt");
    if (const std::string* system = fields_.string("system"); system && !system->empty()) {
      names_.add("messages[0]", "system");
      messages_.push_back(message_of("system", *system));
    }
    names_.add(fmt::format("messages[{}]", messages_.size()), "prompt");
    messages_.push_back(message_of("user", with_images(*prompt, images, "images")));
    read_think();
    return as_chat();
  }

 private:
  ApiRequest as_chat() {
    chat_["messages"] = std::move(messages_);
    chat_["logprobs"] = logprobs_;
    if (logprobs_) chat_["top_logprobs"] = best_;
    return finished(names_.run([&] { return parse_chat(chat_, limits_); }));
  }
  ApiRequest finished(ApiRequest out) const {
    out.names = names_;
    out.logprob_items = true;
    out.warnings.insert(out.warnings.end(), warnings_.begin(), warnings_.end());
    out.dialect = {{"model", model_}};
    return out;
  }

  // A request without text loads the model, which is loaded.
  ApiRequest loaded() const {
    check_ollama_model(fields_, limits_);
    ApiRequest out;
    out.ready = {{"model", model_}, {"created_at", rfc3339_now()}};
    if (fields_.find("messages")) {
      out.ready["message"] = message_of("assistant", "");
    } else {
      out.ready["response"] = "";
    }
    out.ready["done"] = true;
    out.ready["done_reason"] = "load";
    return out;
  }

  void read_options() {
    const Json empty = Json::object();
    const Json* given = fields_.object("options");
    const Fields options(given ? *given : empty, "options.");
    std::set<std::string> known{"num_predict"};
    const auto take = [&](const char* name, const char* as, Json otherwise) {
      known.insert(name);
      names_.add(as, fmt::format("options.{}", name));
      const Json* value = options.find(name);
      if (value) {
        chat_[as] = *value;
      } else if (!otherwise.is_null() && !limits_.sampling.values.contains(as)) {
        chat_[as] = std::move(otherwise);
      }
    };
    take("temperature", "temperature", 0.8);
    take("top_k", "top_k", 40);
    take("top_p", "top_p", 0.9);
    take("min_p", "min_p", nullptr);
    take("repeat_penalty", "repetition_penalty", 1.1);
    take("repeat_last_n", "penalty_last_n", 64);
    take("presence_penalty", "presence_penalty", nullptr);
    take("frequency_penalty", "frequency_penalty", nullptr);
    take("stop", "stop", nullptr);
    take("seed", "seed", nullptr);
    take("num_keep", "n_keep", nullptr);
    // Negative numbers: no limit.
    if (const auto most = options.integer("num_predict", INT32_MIN, INT32_MAX); most && *most > 0)
      chat_["max_tokens"] = *most;
    if (given)
      for (const auto& [name, value] : given->items())
        if (!known.contains(name) && !value.is_null())
          warnings_.push_back("'options." + name.substr(0, 64) + "' does nothing: it is the server's to set");
  }

  void read_format() {
    names_.add("response_format", "format");
    names_.add("response_format.json_schema.schema", "format");
    const Json* format = fields_.find("format");
    if (!format || *format == "") return;
    if (*format == "json") {
      chat_["response_format"] = {{"type", "json_object"}};
    } else if (format->is_object()) {
      chat_["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *format}}}};
    } else {
      bad_field("format", "expected 'json' or a JSON Schema, found " + shown(*format), "invalid_value");
    }
  }

  void read_think() {
    const Json* think = fields_.find("think");
    if (!think) return;
    Json& kwargs = chat_["chat_template_kwargs"] = Json::object();
    if (think->is_boolean()) {
      ask_thinking(kwargs, think->get<bool>());
    } else if (think->is_string()) {
      ask_effort(kwargs, think->get<std::string>(), "think");
    } else {
      bad_field("think", "expected true, false, 'low', 'medium' or 'high', found " + shown(*think), "invalid_type");
    }
  }

  Json with_images(const std::string& text, const Json* images, const std::string& field) {
    return content_with_images(text, images, field, names_, fmt::format("messages[{}].content", messages_.size()));
  }

  void read_message(const Fields& message) {
    const std::string& role = block_string(message, "role");
    const std::string* content = message.string("content");
    Json out = message_of(role, with_images(content ? *content : "", message.array("images"), message.path("images")));
    if (const std::string* thinking = message.string("thinking"); thinking && !thinking->empty())
      out["reasoning_content"] = *thinking;
    if (const Json* calls = message.array("tool_calls"); calls && !calls->empty()) read_calls(*calls, message, out);
    if (role == "tool") read_result(message, out);
    messages_.push_back(std::move(out));
  }

  // Calls have names and no ids here, so ids are given in order.
  void read_calls(const Json& calls, const Fields& message, Json& out) {
    if (out["content"] == "") out["content"] = nullptr;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::string field = message.path(fmt::format("tool_calls[{}]", i));
      const Fields call(calls[i], field + ".");
      const Json* function = call.object("function");
      if (!function) bad_field(call.path("function"), "is missing", "missing_required_parameter");
      const Fields body(*function, field + ".function.");
      const std::string& name = block_string(body, "name");
      const std::string* given = call.string("id");
      const std::string id = given && !given->empty() ? *given : fmt::format("call_{}", calls_++);
      const Json* arguments = body.find("arguments");
      out["tool_calls"].push_back(call_of(id, name, arguments ? *arguments : Json::object()));
      unanswered_.emplace(name, id);
    }
  }

  void read_result(const Fields& message, Json& out) {
    const std::string* id = message.string("tool_call_id");
    const std::string* name = message.string("tool_name");
    if (!name) name = message.string("name");
    if (name) out["name"] = *name;
    const auto call = name ? unanswered_.find(*name) : unanswered_.begin();
    if (id && !id->empty()) {
      out["tool_call_id"] = *id;
    } else if (call != unanswered_.end()) {
      out["tool_call_id"] = call->second;
      unanswered_.erase(call);
    }
  }

  const Fields fields_;
  const RequestLimits& limits_;
  std::string model_;
  Json chat_ = Json::object(), messages_ = Json::array();
  std::multimap<std::string, std::string> unanswered_;  // calls: name, id; of one name in order
  int calls_ = 0;
  bool logprobs_ = false;
  std::int64_t best_ = 0;
  FieldNames names_;
  std::vector<std::string> warnings_;
};

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e9)); }

class OllamaWriter final : public AnswerWriter {
 public:
  OllamaWriter(const AnswerInfo& info, bool chat) : request_(info.request), chat_(chat) {}

  Json whole(std::span<const Choice> choices) override {
    Json out = last(choices, choices.front().text);
    if (const Json& logprobs = choices.front().logprobs; !logprobs.is_null()) out["logprobs"] = logprobs["content"];
    return out;
  }

  std::string_view content_type() const override { return "application/x-ndjson"; }
  std::string begin(int) override { return {}; }
  // Arguments are objects here: a call is said when it is complete.
  std::string delta(int, const ChatDelta& text, Json logprobs) override {
    ChatDelta now{.content = text.content, .reasoning = text.reasoning, .calls = {}};
    for (const ToolCallDelta& call : text.calls) {
      if (!call.name.empty()) {
        if (!call_.name.empty()) now.calls.push_back(std::move(call_));
        call_ = call;
      } else {
        call_.arguments += call.arguments;
      }
    }
    if (now.empty() && logprobs.is_null()) return {};
    Json out = chunk(now, false);
    if (!logprobs.is_null()) out["logprobs"] = std::move(logprobs["content"]);
    return line(out);
  }
  std::string end(int, std::span<const Choice> choices, bool) override {
    std::string out;
    if (!call_.name.empty()) out = line(chunk({.content = {}, .reasoning = {}, .calls = {call_}}, false));
    return out + line(last(choices, {}));
  }
  std::string finish(std::span<const Choice>) override { return {}; }
  std::string error(const ApiError& error) override { return line(ollama_error(error)); }
  std::string keep_alive() override { return line(chunk({}, false)); }

 private:
  static std::string line(const Json& json) { return dump(json) + "\n"; }

  Json chunk(const ChatDelta& text, bool done) const {
    Json out{{"model", request_.dialect["model"]}, {"created_at", rfc3339_now()}};
    if (!chat_) {
      out["response"] = text.content;
      if (!text.reasoning.empty()) out["thinking"] = text.reasoning;
    } else {
      Json message = message_of("assistant", text.content);
      if (!text.reasoning.empty()) message["thinking"] = text.reasoning;
      for (const ToolCallDelta& call : text.calls) {
        Json arguments = Json::parse(call.arguments, nullptr, false);
        if (!arguments.is_object()) arguments = Json::object();
        message["tool_calls"].push_back(
            {{"id", call.id}, {"function", {{"index", call.index}, {"name", call.name}, {"arguments", arguments}}}});
      }
      out["message"] = std::move(message);
    }
    out["done"] = done;
    return out;
  }

  Json last(std::span<const Choice> choices, const ChatDelta& text) const {
    const Choice& choice = choices.front();
    const run::Outcome& o = choice.outcome;
    const run::Receipt& r = o.receipt;
    Json out = chunk(text, true);
    out["done_reason"] = choice.finish == "length" ? "length" : "stop";
    out["total_duration"] = nanoseconds(r.queue_seconds + r.prefill_seconds + o.decode_seconds);
    out["load_duration"] = nanoseconds(r.queue_seconds);
    out["prompt_eval_count"] = o.prompt_tokens;
    out["prompt_eval_cached_count"] = r.reused_tokens;
    out["prompt_eval_duration"] = nanoseconds(r.prefill_seconds);
    out["eval_count"] = o.completion_tokens;
    out["eval_duration"] = nanoseconds(o.decode_seconds);
    out["kvasir"] = kvasir_json(choices, request_);
    return out;
  }

  const ApiRequest& request_;
  const bool chat_;
  ToolCallDelta call_;  // that is still being written
};

// "7.6B", "494M", as Ollama writes sizes.
std::string parameter_size(std::uint64_t n) {
  const auto x = static_cast<double>(n);
  return n >= 1'000'000'000 ? fmt::format("{:.1f}B", x / 1e9) : fmt::format("{:.2f}M", x / 1e6);
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

// Clients tell models apart by it. It is no hash of a file, which would have to be read for it.
std::string digest_of(const run::ModelCard& card) {
  return store::to_hex(store::root_key(store::fingerprint_of(fmt::format(
      "{}\n{}\n{}\n{}\n{}", card.name, card.architecture, card.parameters, card.bytes, card.quantization))));
}

}  // namespace

ApiRequest parse_ollama_chat(const Json& body, const RequestLimits& limits) {
  return OllamaTranslation(body, limits).chat();
}
ApiRequest parse_ollama_generate(const Json& body, const RequestLimits& limits) {
  return OllamaTranslation(body, limits).generate();
}

std::unique_ptr<AnswerWriter> ollama_chat_writer(const AnswerInfo& info) {
  return std::make_unique<OllamaWriter>(info, true);
}
std::unique_ptr<AnswerWriter> ollama_generate_writer(const AnswerInfo& info) {
  return std::make_unique<OllamaWriter>(info, false);
}

std::string check_ollama_model(const Fields& fields, const RequestLimits& limits) {
  const std::string* model = fields.string("model");
  if (!model) bad_field("model", "is missing", "missing_required_parameter");
  if (!limits.model.empty() && without_tag(*model) != limits.model)
    throw ApiException({.status = 404, .message = fmt::format("model '{}' not found", *model), .param = "model"});
  return *model;
}

// Clients look for Ollama's words where a model is missing.
Json ollama_error(const ApiError& error) {
  std::string message = unicode::to_valid_utf8(error.message);
  constexpr std::string_view kOurs = "does not exist";
  if (const std::size_t at = message.find(kOurs); error.code == "model_not_found" && at != message.npos) {
    message.replace(at, kOurs.size(), "not found");
    if (message.starts_with("the ")) message.erase(0, 4);
  }
  return {{"error", std::move(message)}};
}

std::string without_tag(const std::string& model) {
  return model.ends_with(kTag) ? model.substr(0, model.size() - kTag.size()) : model;
}

Json ollama_details(const run::ModelCard& card) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", card.architecture},
          {"families", Json::array({card.architecture})},
          {"parameter_size", parameter_size(card.parameters)},
          {"quantization_level", upper(card.quantization)}};
}

Json ollama_capabilities(const Roster::Entry& model) {
  Json all = Json::array({"completion"});
  if (model.tools) all.push_back("tools");
  if (model.thinking) all.push_back("thinking");
  if (model.vision) all.push_back("vision");
  return all;
}

Json ollama_model(const Context& context, const run::ModelCard& card) {
  const std::string name = card.name + std::string(kTag);
  return {{"name", name},
          {"model", name},
          {"modified_at", rfc3339(static_cast<double>(context.created))},
          {"size", card.bytes},
          {"digest", digest_of(card)},
          {"details", ollama_details(card)}};
}

std::string rfc3339(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(std::floor(unix_seconds));
  const auto micro = static_cast<int>((unix_seconds - std::floor(unix_seconds)) * 1e6);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(whole), micro);
}

std::string rfc3339_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return rfc3339(std::chrono::duration<double>(now).count());
}

}  // namespace kvasir::serve
