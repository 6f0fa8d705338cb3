#include "lab/conversations.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/options.hpp"

namespace kvasir::lab {

std::vector<Conversation> read_conversations(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<Conversation> list;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + ", line " + std::to_string(number);
    const nlohmann::json json = parse_json(line, where);
    const char* key = json.is_object() && json.contains("messages") ? "messages" : "turns";
    if (!json.is_object() || !json.contains(key) || !json[key].is_array())
      throw Error(Code::kBadInput, "expected an object with a list \"turns\" or \"messages\"", where);
    Conversation c;
    for (const auto& m : json[key]) {
      if (!m.is_object() || !m.contains("role") || !m["role"].is_string() || !m.contains("content") ||
          !m["content"].is_string())
        throw Error(Code::kBadInput, "turn " + std::to_string(c.size()) + ": expected texts \"role\" and \"content\"",
                    where);
      c.push_back({m["role"], m["content"]});
    }
    list.push_back(std::move(c));
  }
  if (list.empty()) throw Error(Code::kBadInput, "holds no conversation", path);
  return list;
}

}  // namespace kvasir::lab
