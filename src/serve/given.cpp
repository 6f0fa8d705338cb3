#include "serve/given.hpp"

#include <nlohmann/json.hpp>

namespace kvasir::serve {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string() : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string text_of(const Json& message, const char* name) {
  const auto at = message.find(name);
  if (at == message.end()) return {};
  if (at->is_string()) return trimmed(at->get<std::string>());
  std::string text;
  if (at->is_array())
    for (const Json& part : *at)
      if (part.is_object()) text += part.value("text", "");
  return trimmed(text);
}

bool same_arguments(const std::string& given, const Json& back) {
  const Json wanted = Json::parse(given, nullptr, false);
  const bool text = back.is_string();
  const Json found = text             ? Json::parse(back.get_ref<const std::string&>(), nullptr, false)
                     : back.is_null() ? Json::object()
                                      : back;
  if (wanted.is_object()) return found == wanted;
  return (text && back == given) || (found.is_object() && found.empty()) ||
         (text && trimmed(back.get<std::string>()).empty());
}

}  // namespace

std::string given_message(const ChatDelta& answer) {
  Json calls = Json::array();
  for (const ToolCallDelta& call : answer.calls) calls.push_back({call.name, call.arguments, call.id});
  return dump({{"reasoning", trimmed(answer.reasoning)}, {"content", trimmed(answer.content)}, {"calls", calls}});
}

bool is_given(const std::string& given, const Json& message) {
  if (given.empty() || !message.is_object() || message.value("role", "") != "assistant") return false;
  const Json answer = Json::parse(given);
  if (text_of(message, "reasoning_content") != answer["reasoning"] || text_of(message, "content") != answer["content"])
    return false;
  const auto calls = message.find("tool_calls");
  const std::size_t count = calls != message.end() && calls->is_array() ? calls->size() : 0;
  if (count != answer["calls"].size()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Json& call = (*calls)[i];
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object()) return false;
    const Json& wanted = answer["calls"][i];
    if (function->value("name", "") != wanted[0]) return false;
    const auto arguments = function->find("arguments");
    if (!same_arguments(wanted[1].get<std::string>(), arguments == function->end() ? Json() : *arguments)) return false;
  }
  return true;
}

bool shows_given(const std::string& given, std::string_view shown, std::string_view written) {
  const Json answer = Json::parse(given);
  const auto has = [](std::string_view text, const Json& part) {
    return text.find(part.get_ref<const std::string&>()) != text.npos;
  };
  if (!has(shown, answer["reasoning"])) return false;
  const bool writes_ids = written.find("[CALL_ID]") != written.npos || written.find("\"id\"") != written.npos;
  for (const Json& call : answer["calls"])
    if (!has(shown, call[0]) || (writes_ids && has(shown, call[2]) && !has(written, call[2]))) return false;
  return true;
}

}  // namespace kvasir::serve
