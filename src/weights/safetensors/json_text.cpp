#include "weights/safetensors/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::weights {
namespace {

constexpr int kDeepest = 64;

// Python writes Infinity and NaN, which JSON has not (time_step_limit of Mamba-2's models): a number as large as
// numbers get, and null. Texts stay as they are.
std::string without_python_numbers(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"Infinity", "1e308"}, {"NaN", "null"}};
  std::string out;
  bool inside = false;  // of a text
  for (std::size_t i = 0; i < text.size();) {
    const auto* word = inside ? std::end(kWords)
                              : std::find_if(std::begin(kWords), std::end(kWords),
                                             [&](const auto& w) { return text.substr(i).starts_with(w.first); });
    if (word != std::end(kWords)) {
      out += word->second;
      i += word->first.size();
      continue;
    }
    if (text[i] == '"') inside = !inside;
    if (inside && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    out += text[i++];
  }
  return out;
}

}  // namespace

FolderJson parse_folder_json(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> open;  // keys of the objects around
  const auto check = [&](int depth, FolderJson::parse_event_t event, FolderJson& parsed) {
    using Event = FolderJson::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kDeepest) throw Error(Code::kBadInput, fmt::format("nests deeper than {} levels", kDeepest), path);
    }
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second)
      throw Error(Code::kBadInput, fmt::format("the key '{}' stands twice in an object", parsed.get<std::string>()),
                  path);
    return true;
  };
  std::string plain;
  if (text.find("Infinity") != text.npos || text.find("NaN") != text.npos) text = plain = without_python_numbers(text);
  try {
    FolderJson json = FolderJson::parse(text, check);
    if (!json.is_object()) throw Error(Code::kBadInput, "expected a JSON object", path);
    return json;
  } catch (const FolderJson::exception& e) {
    // Behind the library's own name and number; it says line and column.
    const std::string what = e.what();
    const std::size_t end = what.find("] ");
    throw Error(Code::kBadInput, "is no JSON: " + (end == std::string::npos ? what : what.substr(end + 2)), path);
  }
}

FolderJson read_folder_json(const std::string& path, std::uint64_t most) {
  const MappedFile file(path);
  if (file.bytes().size() > most)
    throw Error(Code::kBadInput, fmt::format("has {} bytes, expected at most {}", file.bytes().size(), most), path);
  return parse_folder_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace kvasir::weights
