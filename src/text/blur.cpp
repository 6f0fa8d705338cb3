#include "text/blur.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "text/arguments.hpp"

namespace kvasir::text {
namespace {

constexpr const char* kBlanks = " \t\r\n\f\v";

// Another character in as many bytes.
std::string_view other_character(std::string_view text, std::size_t at) {
  constexpr std::string_view kOthers[][2] = {
      {"~", "#"}, {"\u00a4", "\u00a7"}, {"\u203b", "\u2021"}, {"\U0001f700", "\U0001f701"}};
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  const auto& others = kOthers[size - 1];
  return text.substr(at, size) == others[0] ? others[1] : others[0];
}

}  // namespace

bool blur_names(std::string& text, const SpecialMatcher& names, bool edges) {
  std::vector<std::size_t> places;
  for (std::size_t from = 0;;) {
    const auto match = names.next(text, from);
    if (match.id < 0) break;
    places.push_back(match.begin);
    from = match.begin + 1;
  }
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t end = text.find_last_not_of(kBlanks) + 1;
  if (edges && first < end) {
    const std::string_view core = std::string_view(text).substr(first, end - first);
    if (names.ended_at_begin(core) > 0) places.push_back(first);
    if (const std::size_t n = names.begun_at_end(core); n > 0) places.push_back(end - n);
  }
  if (places.empty()) return false;
  std::string blurred = text;
  for (const std::size_t at : places) {
    const std::string_view other = other_character(text, at);
    if (at + other.size() <= text.size()) blurred.replace(at, other.size(), other);
  }
  text = std::move(blurred);
  return true;
}

bool blur_names(nlohmann::ordered_json& json, const SpecialMatcher& names, bool is_message) {
  if (json.is_string()) return blur_names(json.get_ref<std::string&>(), names);
  if (json.is_binary()) {
    std::string text = verbatim_text(json);
    const bool found = blur_names(text, names);
    json = verbatim_json(text);
    return found;
  }
  bool found = false;
  if (json.is_array())
    for (nlohmann::ordered_json& item : json) found |= blur_names(item, names);
  if (!json.is_object()) return found;
  bool keys = false;
  for (auto& [key, value] : json.items()) {
    std::string name = key;
    keys |= blur_names(name, names);
    if (is_message && key == "role" && value.is_string())
      found |= blur_names(value.get_ref<std::string&>(), names, false);
    else
      found |= blur_names(value, names);
  }
  if (!keys) return found;
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (auto& [key, value] : json.items()) {
    std::string name = key;
    blur_names(name, names);
    out[name] = std::move(value);
  }
  json = std::move(out);
  return true;
}

}  // namespace kvasir::text
