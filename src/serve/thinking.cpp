#include "serve/thinking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/body.hpp"

namespace kvasir::serve {
namespace {

void set_default(Json& kwargs, const char* name, Json value) {
  if (!kwargs.contains(name)) kwargs[name] = std::move(value);
}

}  // namespace

void ask_thinking(Json& kwargs, bool on) {
  // Qwen, GLM and most others read the first name, DeepSeek and Granite the second.
  set_default(kwargs, "enable_thinking", on);
  set_default(kwargs, "thinking", on);
}

void ask_effort(Json& kwargs, const std::string& effort, const std::string& field) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts))
    bad_field(field, fmt::format("'{}', expected none, minimal, low, medium, high, xhigh or max", effort),
              "invalid_value");
  ask_thinking(kwargs, effort != "none");
  if (effort != "none") set_default(kwargs, "reasoning_effort", effort);
}

void bound_thinking(const ChatFormat& chat, const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                    ApiRequest& request) {
  const bool grammar = request.service.request.grammar != nullptr;
  if (request.thinking_budget < 0 || (grammar && !request.any_text)) return;  // these answers hold no thinking
  if (grammar && request.chat.calls()) {  // what ends the thinking could stand in a call
    request.warnings.emplace_back("the budget of thinking does nothing: tool_choice allows some of the tools");
    return;
  }
  const ChatFormat::ThinkingEnd end = chat.thinking_end(request.chat);
  if (!end.marks) {
    request.warnings.emplace_back(
        "the budget of thinking does nothing: the chat template does not show where thinking ends");
    return;
  }
  request.service.request.thinking = {
      .most = request.thinking_budget,
      .marks = end.marks,
      .inside = text::ends_in_reasoning(*end.marks, prompt.text),
      .closing = tokenizer.encode(end.text, {.parse_special = true, .behind_text = true})};
}

}  // namespace kvasir::serve
