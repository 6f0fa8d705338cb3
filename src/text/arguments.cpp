#include "text/arguments.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace kvasir::text {
namespace {

constexpr std::size_t kMostEnds = 32;  // places that are tried as the end of what can be read

// What closes the strings and brackets that are open at the end of `text`.
std::string closing_of(std::string_view text) {
  std::string open;
  bool quoted = false, escaped = false;
  for (const char c : text) {
    if (quoted) {
      if (!escaped && c == '"') quoted = false;
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      open += c == '{' ? '}' : ']';
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    }
  }
  std::string close = quoted ? (escaped ? "\\\"" : "\"") : "";
  return close.append(open.rbegin(), open.rend());
}

}  // namespace

Json mended_arguments(const std::string& text) {
  std::size_t tried = 0;
  for (std::size_t size = text.size(); size > 0 && tried < kMostEnds; --size) {
    const char last = text[size - 1];
    const bool may_end =
        size == text.size() || std::string_view("\"}]el0123456789").find(last) != std::string_view::npos;
    if (!may_end) continue;
    ++tried;
    const std::string_view head = std::string_view(text).substr(0, size);
    Json json = Json::parse(std::string(head) + closing_of(head), nullptr, false);
    if (json.is_object()) return json;
  }
  return Json::object();
}

Json verbatim_json(const std::string& text) {
  return Json::binary(std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string verbatim_text(const Json& json) {
  const auto& bytes = json.get_binary();
  return {bytes.begin(), bytes.end()};
}

}  // namespace kvasir::text
