#include "serve/families/anthropic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/families/billing_line.hpp"
#include "serve/families/parts.hpp"
#include "serve/foreign_fields.hpp"
#include "serve/thinking.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr double kShortPin = 300, kLongPin = 3600;  // seconds: the API's two lives of a cache entry

class Translation {
 public:
  Translation(const Json& body, const RequestLimits& limits) : fields_(body), limits_(limits) {}

  ApiRequest request() {
    std::vector<std::string> warnings;
    check_foreign(fields_, messages_foreign_fields(), warnings);
    read_system();
    read_messages();
    read_tools();
    read_sampling();
    ApiRequest out = names_.run([&] { return parse_chat(chat_, limits_); });
    out.names = std::move(names_);
    if (continues_) {
      out.chat.continue_last = true;
      out.chat.add_generation_prompt = false;
    }
    out.service.pin = pin_seconds_ > 0;
    if (out.service.pin) out.service.pin_seconds = pin_seconds_;
    for (std::string& note : notes_) out.notes.push_back(std::move(note));
    out.warnings.insert(out.warnings.end(), warnings.begin(), warnings.end());
    const std::string* model = fields_.string("model");
    out.dialect = {{"model", model ? *model : limits_.model}};
    return out;
  }

 private:
  void note(std::string text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
  }

  void push(Json message, const std::string& field) {
    names_.add(fmt::format("messages[{}]", messages_.size()), field);
    messages_.push_back(std::move(message));
  }

  void read_cache_control(const Fields& block) {
    const Json* control = block.object("cache_control");
    if (!control) return;
    const std::string* ttl = Fields(*control, block.path("cache_control.")).string("ttl");
    pin_seconds_ = std::max(pin_seconds_, ttl && *ttl == "1h" ? kLongPin : kShortPin);
  }
  void read_cache_controls(const Json* content, const std::string& field) {
    if (!content || !content->is_array()) return;
    for (std::size_t i = 0; i < content->size(); ++i)
      read_cache_control(Fields((*content)[i], fmt::format("{}[{}].", field, i)));
  }

  void read_system() {
    const Json* system = fields_.find("system");
    if (!system) return;
    read_cache_controls(system, "system");
    std::string text = text_of_blocks(system, "system");
    if (!limits_.keep_billing_line && settle_billing_line(text))
      note("the changing digits of the billing line in the system prompt are read as zeros (see --keep-billing-line)");
    if (!text.empty()) push(message_of("system", std::move(text)), "system");
  }

  void read_messages() {
    const Json* messages = fields_.array("messages");
    if (!messages) bad_field("messages", "is missing", "missing_required_parameter");
    if (messages->empty()) bad_field("messages", "is empty, expected at least one message", "invalid_value");
    for (std::size_t i = 0; i < messages->size(); ++i) {
      const std::string field = fmt::format("messages[{}]", i);
      const Fields message((*messages)[i], field + ".");
      const std::string& role = block_string(message, "role");
      const Json* content = message.find("content");
      if (!content) bad_field(message.path("content"), "is missing", "missing_required_parameter");
      read_cache_control(message);
      read_cache_controls(content, field + ".content");
      if (role == "assistant") {
        read_assistant(*content, field);
      } else if (role == "user") {
        read_user(*content, field);
      } else if (role == "system" || role == "developer") {  // agents send some between turns: they stay there
        push(message_of("system", text_of_blocks(content, field + ".content")), field);
      } else {
        bad_field(message.path("role"), fmt::format("'{}', expected 'user', 'assistant' or 'system'", role),
                  "invalid_value");
      }
    }
    const Json& last = messages_.back();
    continues_ = last["role"] == "assistant" && !last.contains("tool_calls");
  }

  void read_user(const Json& content, const std::string& message) {
    const std::string field = message + ".content";
    if (!content.is_array()) {
      push(message_of("user", text_of_blocks(&content, field)), message);
      return;
    }
    std::string text;            // so far, or what follows the last one of `parts`
    Json parts = Json::array();  // of a message with pictures, and what their fields are called
    std::vector<std::string> places;
    bool open = true;  // the text so far is to become a message, even when empty
    const auto end_text = [&](const std::string& at) {
      if (text.empty()) return;
      parts.push_back({{"type", "text"}, {"text", std::exchange(text, {})}});
      places.push_back(at);
    };
    const auto flush = [&] {
      open = false;
      if (parts.empty()) {
        if (!text.empty()) push(message_of("user", std::exchange(text, {})), message);
        return;
      }
      end_text(field);
      for (std::size_t i = 0; i < places.size(); ++i)
        names_.add(fmt::format("messages[{}].content[{}]", messages_.size(), i), places[i]);
      push(message_of("user", std::exchange(parts, Json::array())), message);
      places.clear();
    };
    for (std::size_t i = 0; i < content.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", field, i);
      const Fields block(content[i], at + ".");
      const std::string& type = block_type(block);
      if (type == "text") {
        text += block_string(block, "text");
      } else if (type == "document") {
        text += document(block);
      } else if (type == "image") {
        end_text(field);
        parts.push_back(picture_part(block));
        places.push_back(at);
      } else if (type == "tool_result") {
        flush();
        Json result = message_of("tool", content_of_blocks(block.find("content"), at + ".content"));
        result["tool_call_id"] = block_string(block, "tool_use_id");
        push(std::move(result), at);
      } else if (is_sound(type) || type == "audio") {
        unsupported(
            block.path("type"),
            fmt::format("'{}': this API has no sounds, send them to /v1/chat/completions as input_audio", type));
      } else {
        unsupported(block.path("type"), fmt::format("'{}', expected text, image, document or tool_result", type));
      }
    }
    if (open && text.empty() && parts.empty()) push(message_of("user", ""), message);
    flush();
  }

  static std::string document(const Fields& block) {
    const Json* source = block.object("source");
    if (!source) bad_field(block.path("source"), "is missing", "missing_required_parameter");
    const Fields inner(*source, block.path("source."));
    const std::string& type = block_type(inner);
    if (type == "text") return block_string(inner, "data");
    if (type == "content") return text_of_blocks(inner.find("content"), inner.path("content"));
    unsupported(inner.path("type"), fmt::format("'{}', expected 'text' or 'content'", type));
  }

  void read_assistant(const Json& content, const std::string& at) {
    const std::string field = at + ".content";
    Json message = message_of("assistant", "");
    std::string text, reasoning;
    Json calls = Json::array();
    if (!content.is_array()) text = text_of_blocks(&content, field);
    for (std::size_t i = 0; content.is_array() && i < content.size(); ++i) {
      const Fields block(content[i], fmt::format("{}[{}].", field, i));
      const std::string& type = block_type(block);
      if (type == "text") {
        text += block_string(block, "text");
      } else if (type == "thinking") {
        reasoning += block_string(block, "thinking");
      } else if (type == "tool_use") {
        const Json* input = block.object("input");
        const std::string &id = block_string(block, "id"), &name = block_string(block, "name");
        calls.push_back(call_of(id, name, input ? *input : Json::object()));
      } else {  // what the API's own servers did or hid; it has no text for this model
        note(fmt::format("blocks of the type '{}' are left out", type));
      }
    }
    if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
    message["content"] = text.empty() && !calls.empty() ? Json(nullptr) : Json(std::move(text));
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    push(std::move(message), at);
  }

  void read_tools() {
    chat_["messages"] = std::move(messages_);
    Json tools = Json::array();
    if (const Json* given = fields_.array("tools"))
      for (std::size_t i = 0; i < given->size(); ++i) {
        const Fields tool((*given)[i], fmt::format("tools[{}].", i));
        read_cache_control(tool);
        const std::string* type = tool.string("type");
        if (type && *type != "custom") {
          note(fmt::format("tools of the type '{}' are left out", *type));
          continue;
        }
        Json function{{"name", block_string(tool, "name")}};
        if (const std::string* description = tool.string("description")) function["description"] = *description;
        if (const Json* schema = tool.object("input_schema")) function["parameters"] = *schema;
        if (tool.boolean("strict").value_or(false)) function["strict"] = true;
        const std::string own = fmt::format("tools[{}]", tools.size());
        names_.add(own, fmt::format("tools[{}]", i));
        names_.add(own + ".function.name", fmt::format("tools[{}].name", i));
        names_.add(own + ".function.parameters", fmt::format("tools[{}].input_schema", i));
        tools.push_back({{"type", "function"}, {"function", std::move(function)}});
      }
    const bool any = !tools.empty();
    if (any) chat_["tools"] = std::move(tools);
    read_choice(any);
  }

  void read_choice(bool any_tool) {
    const Json* choice = fields_.object("tool_choice");
    if (!choice) return;
    const Fields fields(*choice, "tool_choice.");
    const std::string& type = block_type(fields);
    if (fields.boolean("disable_parallel_tool_use").value_or(false)) chat_["parallel_tool_calls"] = false;
    if (type == "tool") {
      chat_["tool_choice"] = {{"type", "function"}, {"function", {{"name", block_string(fields, "name")}}}};
    } else if (type == "any") {
      chat_["tool_choice"] = "required";
    } else if (type == "none") {
      chat_["tool_choice"] = "none";
    } else if (type != "auto") {
      bad_field("tool_choice.type", fmt::format("'{}', expected auto, any, tool or none", type), "invalid_value");
    } else if (any_tool) {
      chat_["tool_choice"] = "auto";
    }
  }

  void read_sampling() {
    pass_own(fields_, chat_);
    pass_sampling(fields_, chat_);
    pass_fields(fields_, chat_, {"max_tokens", "chat_template_kwargs"});
    if (const Json* stops = fields_.array("stop_sequences"); stops && !stops->empty()) chat_["stop"] = *stops;
    for (const auto& [own, given] : {std::pair{"stop", "stop_sequences"},
                                     {"tool_choice.function.name", "tool_choice.name"},
                                     {"response_format.json_schema.schema", "output_format.schema"}})
      names_.add(own, given);
    Json& kwargs = chat_["chat_template_kwargs"];
    if (kwargs.is_null()) kwargs = Json::object();
    if (!kwargs.is_object()) return;  // refused by whoever reads the chat
    if (const Json* thinking = fields_.object("thinking")) {
      const std::string& type = block_type(Fields(*thinking, "thinking."));
      if (type != "enabled" && type != "disabled" && type != "adaptive" && type != "between_tools")
        bad_field("thinking.type", fmt::format("'{}', expected enabled, adaptive, between_tools or disabled", type),
                  "invalid_value");
      ask_thinking(kwargs, type != "disabled");
      if (type == "enabled") chat_["thinking"] = *thinking;  // its budget
    }
    const Json* format = fields_.object("output_format");
    if (const Json* config = fields_.object("output_config")) {
      const Fields output(*config, "output_config.");
      if (const std::string* effort = output.string("effort")) ask_effort(kwargs, *effort, "output_config.effort");
      if (const Json* inner = output.object("format")) format = inner;
    }
    if (!format) return;
    const Fields wanted(*format, "output_format.");
    if (block_type(wanted) != "json_schema") bad_field("output_format.type", "expected 'json_schema'", "invalid_value");
    const Json* schema = wanted.object("schema");
    if (!schema) bad_field("output_format.schema", "is missing", "missing_required_parameter");
    chat_["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
  }

  const Fields fields_;
  const RequestLimits& limits_;
  Json messages_ = Json::array();
  Json chat_ = Json::object();
  FieldNames names_;
  std::vector<std::string> notes_;
  double pin_seconds_ = 0;
  bool continues_ = false;
};

std::string_view type_of(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return error.status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ApiRequest parse_anthropic(const Json& body, const RequestLimits& limits) {
  return Translation(body, limits).request();
}

Json anthropic_error(const ApiError& error) {
  Json inner{{"type", type_of(error)}, {"message", unicode::to_valid_utf8(error.message)}};
  if (!error.param.empty()) inner["param"] = error.param;
  if (!error.code.empty()) inner["code"] = error.code;
  return {{"type", "error"}, {"error", std::move(inner)}};
}

}  // namespace kvasir::serve
