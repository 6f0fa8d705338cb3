// Calls in the fields of response templates.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "text/response_template.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

using Groups = std::map<std::string, std::string>;

std::string_view response_trimmed(std::string_view text) {
  text.remove_prefix(count_space(text));
  return text.substr(0, text.find_last_not_of(" \t\r\n\f\v") + 1);
}

// JSON, or nearly so.
Json loose_value(std::string_view text, const std::string& quote) {
  text = response_trimmed(text);
  if (text.empty()) return Json::object();
  if (quote.empty())
    if (Json json = Json::parse(text, nullptr, false); !json.is_discarded()) return json;
  if (text[0] != '{' && text[0] != '[') return Json(Json::value_t::discarded);
  LooseJson loose({.quote = quote});
  std::string out;
  if (!loose.convert(text, true, out)) return Json(Json::value_t::discarded);
  return Json::parse(out, nullptr, false);
}

// The value of an argument: what the tool's schema says, or what the template does.
Json argument_value(std::string_view text, const Json* schema, bool json) {
  if (schema) return Json::parse(typed_value(text, schema), nullptr, false);
  if (json)
    if (Json value = Json::parse(text, nullptr, false); !value.is_discarded()) return value;
  return Json(std::string(text));
}

class CallsReader {
 public:
  CallsReader(const ResponseField& field, const Groups& groups, const Json* tools)
      : field_(field), groups_(groups), tools_(tools) {}

  // What the field's text is, before it is brought into its form; discarded: it cannot be read.
  Json value(std::string_view text, const Json* properties) const {
    if (field_.content == "json") return loose_value(text, field_.quote);
    if (field_.content == "python-call-list") return call_list(text);
    if (field_.content == "xml-inline") return tags(text, properties);
    if (field_.content == "kv-lines") return lines(text, properties);
    return Json(std::string(response_trimmed(text)));
  }

 private:
  static const Json* schema_of(const Json* properties, const std::string& key) {
    if (!properties) return nullptr;
    const auto at = properties->find(key);
    return at == properties->end() ? nullptr : &*at;
  }

  Json tags(std::string_view text, const Json* properties) const {
    Json out = Json::object();
    for (std::size_t from = 0; from <= text.size();) {
      const auto found = field_.tag->search(text, from, true);
      if (!found.match) break;
      const auto key = found.match->groups.find("key"), value = found.match->groups.find("value");
      if (key != found.match->groups.end() && value != found.match->groups.end())
        out[key->second] = argument_value(value->second, schema_of(properties, key->second), field_.json_values);
      from = found.match->at + std::max<std::size_t>(found.match->size, 1);
    }
    return out;
  }

  Json lines(std::string_view text, const Json* properties) const {
    Json out = Json::object();
    while (!text.empty()) {
      const std::size_t end = text.find(field_.line_sep);
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == text.npos ? text.size() : end + field_.line_sep.size());
      const std::size_t sep = line.find(field_.kv_sep);
      if (sep == line.npos) continue;
      const std::string key(response_trimmed(line.substr(0, sep)));
      const std::string_view value = response_trimmed(line.substr(sep + field_.kv_sep.size()));
      out[key] = argument_value(value, schema_of(properties, key), field_.json_values);
    }
    return out;
  }

  Json call_list(std::string_view text) const {
    ToolOutput out;
    const auto parser =
        make_style_parser({.open = {"\x01"}, .middle = "(", .notation = {.call = true, .exact = false}}, tools_);
    parser->push("\x01" + std::string(response_trimmed(text)), out);
    parser->finish(out, false);
    Json all = Json::array();
    for (const ToolCall& call : out.calls)
      all.push_back({{"name", call.name}, {"arguments", Json::parse(call.arguments, nullptr, false)}});
    return out.calls.empty() ? Json(Json::value_t::discarded) : all;
  }

  const ResponseField& field_;
  const Groups& groups_;
  const Json* tools_;
};

// "{a.b}" in a transform: what stands there in `scope`.
Json transformed(const Json& transform, const Json& scope) {
  if (transform.is_structured()) {
    Json out = transform;
    for (auto& part : out) part = transformed(Json(part), scope);
    return out;
  }
  if (!transform.is_string()) return transform;
  std::string_view path = transform.get_ref<const std::string&>();
  if (path.size() < 3 || path.front() != '{' || path.back() != '}') return transform;
  path = path.substr(1, path.size() - 2);
  const Json* at = &scope;
  while (at) {
    const std::size_t dot = path.find('.');
    const auto next = at->is_object() ? at->find(std::string(path.substr(0, dot))) : at->end();
    at = at->is_object() && next != at->end() ? &*next : nullptr;
    if (dot == path.npos) break;
    path.remove_prefix(dot + 1);
  }
  return at ? *at : Json();
}

Json scope_of(const Groups& groups) {
  Json scope = Json::object();
  for (const auto& [name, text] : groups) scope[name] = text;
  return scope;
}

std::optional<ToolCall> call_of(const Json& message, const Json* tools) {
  if (!message.is_object()) return {};
  auto call = parse_call(message.dump(-1, ' ', false, Json::error_handler_t::replace), false);
  if (!call) return {};
  // What stands as text becomes what the schema says.
  const Json* properties = parameters_of(tools, call->name);
  Json arguments = Json::parse(call->arguments, nullptr, false);
  bool changed = false;
  for (auto& [key, value] : arguments.items()) {
    if (!properties || !properties->contains(key) || !value.is_string()) continue;
    const Json typed = Json::parse(typed_value(value.get<std::string>(), &(*properties)[key]), nullptr, false);
    if (typed.is_string() || typed.is_discarded()) continue;
    value = typed;
    changed = true;
  }
  if (changed) call->arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  return call;
}

}  // namespace

std::optional<std::vector<ToolCall>> read_response_calls(const ResponseField& field, std::string_view text,
                                                         const Groups& groups, const Json* tools) {
  const auto name = groups.find("name");
  const Json* properties = name == groups.end() ? nullptr : parameters_of(tools, name->second);
  const Json content = CallsReader(field, groups, tools).value(text, properties);
  if (content.is_discarded()) return {};
  Json all = Json::array();
  Json scope = scope_of(groups);
  if (field.each) {
    for (const Json& item : content.is_array() ? content : Json::array({content})) {
      Json inner = scope;
      if (item.is_object()) inner.update(item);
      all.push_back(transformed(field.transform, inner));
    }
  } else if (field.transform.is_null()) {
    all = content.is_array() ? content : Json::array({content});
  } else {
    scope["content"] = content;
    Json one = transformed(field.transform, scope);
    all = one.is_array() ? std::move(one) : Json::array({std::move(one)});
  }
  std::vector<ToolCall> calls;
  for (const Json& one : all) {
    auto call = call_of(one, tools);
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

}  // namespace kvasir::text
