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

}  // namespace kvasir::serve
