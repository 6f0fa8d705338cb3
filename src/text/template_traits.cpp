#include "text/template_traits.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "text/conversation.hpp"

namespace kvasir::text {

namespace {

void set_missing(Json& object, const char* name, Json value) {
  if (!object.contains(name) || object[name].is_null()) object[name] = std::move(value);
}

}  // namespace

Json TemplateTraits::filled_tools(const Json& tools) const {
  Json all = tools;
  const std::function<void(Json&)> fill = [&](Json& schema) {
    if (!schema.is_object()) return;
    const auto properties = schema.find("properties");
    if (properties != schema.end() && properties->is_object()) {
      for (auto& [name, property] : properties->items()) {
        if (!property.is_object()) continue;
        if (needs.property_type) set_missing(property, "type", "string");
        if (needs.property_description) set_missing(property, "description", "");
        fill(property);
      }
    }
    if (schema.contains("items")) fill(schema["items"]);
  };
  for (Json& tool : all) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    Json& function = tool["function"];
    for (const char* name : {"description", "parameters", "strict"})  // null means left out
      if (function.contains(name) && function[name].is_null()) function.erase(name);
    if (needs.description) set_missing(function, "description", "");
    if (needs.parameters) set_missing(function, "parameters", Json::object());
    if (!function.contains("parameters") || !function["parameters"].is_object()) continue;
    Json& parameters = function["parameters"];
    if (needs.type || (needs.parameters && parameters.empty())) set_missing(parameters, "type", "object");
    if (needs.properties || needs.parameters) set_missing(parameters, "properties", Json::object());
    if (needs.required) set_missing(parameters, "required", Json::array());
    fill(parameters);
  }
  return all;
}

std::string TemplateTraits::effort(const Conversation& c) const {
  const auto words = tool_form->value->efforts;
  if (words.empty() || !c.extra.is_object()) return {};
  const auto asked = c.extra.find("reasoning_effort");
  if (asked == c.extra.end() || !asked->is_string()) return {};
  const std::string& word = asked->get_ref<const std::string&>();
  if (std::find(words.begin(), words.end(), word) != words.end()) return word;
  return std::string(word == "xhigh" || word == "max" ? words.back() : words.front());
}

std::string ProbedTemplate::render(const Json& messages, const Conversation& c, bool generation_prompt) const {
  if (!c.extra.is_object()) refuse_message("chat_template_kwargs", "expected an object");
  if (!c.tools.is_null() && !c.tools.is_array()) refuse_message("tools", "expected an array");
  Json context = c.extra;
  if (std::string known = traits.effort(c); !known.empty()) context["reasoning_effort"] = std::move(known);
  context["messages"] = messages;
  // Templates ask whether tools are defined, or none, or empty: without tools they are not defined.
  if (c.tools.is_array() && !c.tools.empty() && !context.contains(traits.tools_name))
    context[traits.shows_tools() ? traits.tools_name : "tools"] = traits.filled_tools(c.tools);
  context["add_generation_prompt"] = generation_prompt;
  context["bos_token"] = bos;
  context["eos_token"] = eos;
  return jinja.render(context, options);
}

}  // namespace kvasir::text
