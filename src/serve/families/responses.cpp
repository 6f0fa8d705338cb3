#include "serve/families/responses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "serve/families/parts.hpp"
#include "serve/foreign_fields.hpp"
#include "serve/response_memory.hpp"
#include "serve/thinking.hpp"

namespace kvasir::serve {
namespace {

constexpr std::string_view kSeal = "kvasir:";

std::optional<std::string> unseal_reasoning(std::string_view sealed) {
  const std::optional<std::string> text = from_base64(sealed);
  if (!text || !text->starts_with(kSeal)) return std::nullopt;
  return text->substr(kSeal.size());
}

class ResponsesTranslation {
 public:
  ResponsesTranslation(const Json& body, const RequestLimits& limits) : fields_(body), limits_(limits) {}

  ApiRequest request() {
    for (const char* name : {"conversation", "prompt"})
      if (fields_.find(name)) unsupported(name, "is not supported, send the items as 'input'");
    if (fields_.boolean("background").value_or(false))
      unsupported("background", "is not supported, the answer comes with the request");
    read_previous();
    read_input();
    read_tools();
    read_choice();
    read_sampling();
    Json messages = messages_;
    if (const std::string* instructions = fields_.string("instructions"); instructions && !instructions->empty()) {
      messages.insert(messages.begin(), message_of("system", *instructions));
      places_.insert(places_.begin(), "instructions");
    }
    chat_["messages"] = std::move(messages);
    const FieldNames names = field_names();
    ApiRequest out = names.run([&] { return parse_chat(chat_, limits_); });
    out.names = names;
    for (std::string& note : notes_) out.notes.push_back(std::move(note));
    warn(out.warnings);
    out.dialect = dialect();
    return out;
  }

 private:
  void note(std::string text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
  }

  void read_previous() {
    const std::string* id = fields_.string("previous_response_id");
    if (!id) return;
    const auto stored = limits_.responses ? limits_.responses->find(limits_.tenant, *id) : std::nullopt;
    if (!stored)
      bad_field(
          "previous_response_id",
          fmt::format("'{}' is not stored here (see --response-memory); send the whole conversation as 'input'", *id),
          "previous_response_not_found");
    messages_ = Json::parse(stored->messages);
    places_.assign(messages_.size(), "previous_response_id");
  }

  void read_input() {
    const Json* input = fields_.find("input");
    if (!input) bad_field("input", "is missing", "missing_required_parameter");
    if (input->is_string()) {
      push(message_of("user", input->get<std::string>()), "input");
      input_.push_back({{"type", "message"},
                        {"role", "user"},
                        {"content", Json::array({{{"type", "input_text"}, {"text", *input}}})}});
      return;
    }
    if (!input->is_array())
      bad_field("input", "expected a string or an array of items, found " + shown(*input), "invalid_type");
    if (input->empty() && messages_.empty())
      bad_field("input", "is empty, expected at least one item", "invalid_value");
    for (std::size_t i = 0; i < input->size(); ++i) {
      const std::string field = fmt::format("input[{}]", i);
      read_item(Fields((*input)[i], field + "."), field);
    }
    end_assistant();
    input_ = *input;
  }

  void push(Json message, std::string field) {
    messages_.push_back(std::move(message));
    places_.push_back(std::move(field));
  }

  // What the fields of the chat are called here.
  FieldNames field_names() const {
    FieldNames names;
    names.add("messages", "input");
    for (std::size_t i = 0; i < places_.size(); ++i) names.add(fmt::format("messages[{}]", i), places_[i]);
    for (std::size_t i = 0; i < tool_places_.size(); ++i) {
      const std::string own = fmt::format("tools[{}]", i);
      names.add(own, tool_places_[i]);
      names.add(own + ".function", tool_places_[i]);
    }
    const std::size_t moved = places_.size() - messages_.size();  // by the instructions in front
    for (const std::size_t i : outputs_)
      names.add(fmt::format("messages[{}].content", i + moved), places_[i + moved] + ".output");
    names.add("max_completion_tokens", "max_output_tokens");
    names.add("tool_choice.function.name", "tool_choice.name");
    names.add("response_format", "text.format");
    names.add("response_format.json_schema", "text.format");
    return names;
  }

  void read_item(const Fields& item, const std::string& field) {
    if (assistant_.empty()) assistant_at_ = field;
    const std::string* type = item.string("type");
    if (!type || *type == "message") return read_message(item, field);
    if (*type == "reasoning") {
      if (assistant_.contains("content") || assistant_.contains("tool_calls")) end_assistant();
      add(assistant_["reasoning_content"], reasoning_of(item, field));
    } else if (*type == "function_call") {
      const std::string &id = block_string(item, "call_id"), &name = block_string(item, "name");
      assistant_["tool_calls"].push_back(call_of(id, name, block_string(item, "arguments")));
    } else if (*type == "custom_tool_call") {
      const std::string &id = block_string(item, "call_id"), &name = block_string(item, "name");
      assistant_["tool_calls"].push_back(call_of(id, name, Json{{"input", block_string(item, "input")}}));
    } else if (*type == "function_call_output" || *type == "custom_tool_call_output") {
      end_assistant();
      Json message = message_of("tool", content_of_blocks(item.find("output"), field + ".output"));
      message["tool_call_id"] = block_string(item, "call_id");
      push(std::move(message), field);
      outputs_.push_back(messages_.size() - 1);
    } else if (*type == "item_reference") {
      unsupported(item.path("type"), "'item_reference': send the item itself, or previous_response_id");
    } else {
      note(fmt::format("items of the type '{}' are left out", *type));
    }
  }

  static void add(Json& to, const std::string& text) {
    if (text.empty()) return;
    to = to.is_string() ? to.get<std::string>() + text : text;
  }

  std::string reasoning_of(const Fields& item, const std::string& field) const {
    std::string text;
    for (const char* name : {"content", "summary"}) {
      const Json* parts = item.array(name);
      for (std::size_t i = 0; parts && i < parts->size(); ++i)
        text += block_string(Fields((*parts)[i], fmt::format("{}.{}[{}].", field, name, i)), "text");
      if (!text.empty()) return text;
    }
    const std::string* sealed = item.string("encrypted_content");
    return sealed ? unseal_reasoning(*sealed).value_or("") : "";
  }

  void read_message(const Fields& item, const std::string& field) {
    const std::string& role = block_string(item, "role");
    const Json* content = item.find("content");
    if (!content) bad_field(item.path("content"), "is missing", "missing_required_parameter");
    if (role != "assistant") {
      end_assistant();
      push(message_of(role, content_of_blocks(content, field + ".content")), field);
      return;
    }
    const std::string text = text_of(*content, field + ".content");
    if (assistant_.contains("content") || assistant_.contains("tool_calls")) end_assistant();
    assistant_["content"] = text;
  }

  // With refusals, which are what the assistant said.
  static std::string text_of(const Json& content, const std::string& field) {
    if (!content.is_array()) return text_of_blocks(&content, field);
    Json blocks = Json::array();
    for (const Json& block : content) {
      const bool refusal = block.is_object() && block.value("type", Json()) == "refusal" && block.contains("refusal");
      blocks.push_back(refusal ? Json{{"type", "text"}, {"text", block["refusal"]}} : block);
    }
    return text_of_blocks(&blocks, field);
  }

  // What the assistant thought, said and called, one after the other, is one message.
  void end_assistant() {
    if (assistant_.empty()) return;
    Json message{{"role", "assistant"}};
    const bool calls = assistant_.contains("tool_calls");
    message["content"] = assistant_.contains("content") ? assistant_["content"] : calls ? Json(nullptr) : Json("");
    if (assistant_.contains("reasoning_content") && assistant_["reasoning_content"].is_string())
      message["reasoning_content"] = assistant_["reasoning_content"];
    if (calls) message["tool_calls"] = assistant_["tool_calls"];
    push(std::move(message), assistant_at_);
    assistant_ = Json::object();
  }

  void read_tools() {
    const Json* given = fields_.array("tools");
    for (std::size_t i = 0; given && i < given->size(); ++i) read_tool((*given)[i], fmt::format("tools[{}]", i), {});
    if (!tools_.empty()) chat_["tools"] = tools_;
  }

  void read_tool(const Json& json, const std::string& field, const std::string& name_space) {
    const Fields tool(json, field + ".");
    const std::string& type = block_type(tool);
    if (type == "namespace" && name_space.empty()) {
      const Json* inner = tool.array("tools");
      for (std::size_t i = 0; inner && i < inner->size(); ++i)
        read_tool((*inner)[i], fmt::format("{}.tools[{}]", field, i), block_string(tool, "name"));
      return;
    }
    if (type != "function") return note(fmt::format("tools of the type '{}' are left out", type));
    const std::string& name = block_string(tool, "name");
    if (!name_space.empty()) namespaces_[name] = name_space;
    Json function{{"name", name}};
    if (const std::string* description = tool.string("description")) function["description"] = *description;
    if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
    if (tool.boolean("strict").value_or(false)) function["strict"] = true;
    tool_places_.push_back(field);
    tools_.push_back({{"type", "function"}, {"function", std::move(function)}});
  }

  void read_choice() {
    const Json* choice = fields_.find("tool_choice");
    if (!choice) return;
    if (!choice->is_object()) {
      chat_["tool_choice"] = *choice;  // checked with the chat
      return;
    }
    const Fields named(*choice, "tool_choice.");
    const std::string& type = block_type(named);
    if (type == "function") {
      chat_["tool_choice"] = {{"type", "function"}, {"function", {{"name", block_string(named, "name")}}}};
    } else if (type == "allowed_tools") {
      allow_tools(named);
    } else {
      unsupported("tool_choice.type", fmt::format("'{}', expected 'function' or 'allowed_tools'", type));
    }
  }

  void allow_tools(const Fields& choice) {
    const Json* allowed = choice.array("tools");
    if (!allowed) bad_field(choice.path("tools"), "is missing", "missing_required_parameter");
    Json kept = Json::array();  // tools of other types are left out
    for (const Json& tool : tools_) {
      const auto same = [&](const Json& a) {
        return a.is_object() && a.value("name", Json()) == tool["function"]["name"];
      };
      if (std::any_of(allowed->begin(), allowed->end(), same)) kept.push_back({{"name", tool["function"]["name"]}});
    }
    const std::string* given = choice.string("mode");
    const std::string mode = given ? *given : "auto";
    if (kept.empty() && mode == "required") bad_field(choice.path("tools"), "names none of the tools", "invalid_value");
    chat_["tool_choice"] =
        kept.empty() ? Json("none")
                     : Json{{"type", "allowed_tools"}, {"allowed_tools", {{"mode", mode}, {"tools", std::move(kept)}}}};
  }

  void read_sampling() {
    pass_own(fields_, chat_);
    pass_sampling(fields_, chat_);
    pass_fields(fields_, chat_, {"stop", "parallel_tool_calls", "chat_template_kwargs"});
    const auto best = fields_.integer("top_logprobs", 0, 20);
    if (best || includes("message.output_text.logprobs")) {
      chat_["logprobs"] = true;
      chat_["top_logprobs"] = best.value_or(0);
    }
    if (const Json* most = fields_.find("max_output_tokens")) chat_["max_completion_tokens"] = *most;
    if (const Json* reasoning = fields_.object("reasoning")) {
      const Fields wanted(*reasoning, "reasoning.");
      if (const Json* budget = wanted.find("max_tokens")) chat_["reasoning"] = {{"max_tokens", *budget}};
      Json& kwargs = chat_["chat_template_kwargs"];
      if (kwargs.is_null()) kwargs = Json::object();
      if (const std::string* effort = wanted.string("effort"); effort && kwargs.is_object())
        ask_effort(kwargs, *effort, "reasoning.effort");
    }
    const Json* text = fields_.object("text");
    const Json* format = text ? Fields(*text, "text.").object("format") : nullptr;
    if (!format) return;
    const Fields wanted(*format, "text.format.");
    const std::string& type = block_type(wanted);
    if (type != "json_schema") {
      chat_["response_format"] = {{"type", type}};
      return;
    }
    Json schema = Json::object();
    for (const char* name : {"name", "description", "schema", "strict"})
      if (const Json* value = wanted.find(name)) schema[name] = *value;
    chat_["response_format"] = {{"type", type}, {"json_schema", std::move(schema)}};
  }

  bool includes(std::string_view what) const {
    const Json* include = fields_.array("include");
    return include && std::find(include->begin(), include->end(), Json(what)) != include->end();
  }

  // What is asked for and does not hold.
  void warn(std::vector<std::string>& warnings) const {
    check_foreign(fields_, responses_foreign_fields(), warnings);
    if (const Json* v = fields_.find("max_tool_calls"); v && !v->is_null())
      warnings.push_back("'max_tool_calls' does nothing: the client makes all calls");
    if (fields_.boolean("store").value_or(false) && !limits_.responses)
      warnings.push_back("'store' does nothing: this server keeps no responses (--response-memory)");
  }

  Json dialect() {
    const bool store = fields_.boolean("store").value_or(true) && limits_.responses;
    Json response = Json::object();
    const auto echo = [&](const char* name, Json otherwise) {
      const Json* value = fields_.find(name);
      response[name] = value ? *value : std::move(otherwise);
    };
    echo("instructions", nullptr);
    echo("max_output_tokens", nullptr);
    echo("metadata", Json::object());
    echo("model", limits_.model);
    echo("parallel_tool_calls", true);
    echo("previous_response_id", nullptr);
    echo("prompt_cache_key", nullptr);
    echo("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
    response["store"] = store;
    echo("temperature", limits_.sampling.get("temperature", 1.0));
    echo("text", {{"format", {{"type", "text"}}}});
    echo("tool_choice", "auto");
    echo("tools", Json::array());
    echo("top_p", limits_.sampling.get("top_p", 1.0));
    echo("truncation", "disabled");
    echo("user", nullptr);
    Json out{{"response", std::move(response)}, {"store", store}, {"namespaces", std::move(namespaces_)}};
    out["encrypted"] = includes("reasoning.encrypted_content");
    if (store) {
      out["messages"] = std::move(messages_);
      out["input"] = std::move(input_);
    }
    return out;
  }

  const Fields fields_;
  const RequestLimits& limits_;
  Json messages_ = Json::array(), input_ = Json::array();
  Json assistant_ = Json::object();                // the assistant's message that items are added to
  std::vector<std::string> places_, tool_places_;  // the client's names of the messages and tools
  std::vector<std::size_t> outputs_;               // of the messages, results of tools
  std::string assistant_at_;
  Json tools_ = Json::array(), namespaces_ = Json::object();
  Json chat_ = Json::object();
  std::vector<std::string> notes_;
};

}  // namespace

ApiRequest parse_responses(const Json& body, const RequestLimits& limits) {
  return ResponsesTranslation(body, limits).request();
}

std::string seal_reasoning(std::string_view text) { return to_base64(std::string(kSeal) + std::string(text)); }

}  // namespace kvasir::serve
