#include "cli/yaml.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

#ifdef KVASIR_YAML
#include <yaml-cpp/yaml.h>
#endif

namespace kvasir::cli {

#ifdef KVASIR_YAML

namespace {

constexpr int kMostDepth = 32;
constexpr std::size_t kMostNodes = 100000;  // aliases make small texts large

template <class Number>
bool read_number(const std::string& text, nlohmann::json* to) {
  Number n{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, n);
  if (error != std::errc() || end != stop) return false;
  *to = n;
  return true;
}

nlohmann::json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // in quotes
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (bool b = false; YAML::convert<bool>::decode(node, b)) return b;
  nlohmann::json number;
  if (read_number<std::int64_t>(text, &number) || read_number<double>(text, &number)) return number;
  return text;
}

nlohmann::json to_json(const YAML::Node& node, int depth, std::size_t* nodes, const std::string& context) {
  if (depth > kMostDepth || ++*nodes > kMostNodes)
    throw Error(Code::kBadInput, "expected fewer and flatter values", context);
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return scalar(node);
    case YAML::NodeType::Sequence: {
      auto list = nlohmann::json::array();
      for (const auto& item : node) list.push_back(to_json(item, depth + 1, nodes, context));
      return list;
    }
    case YAML::NodeType::Map: {
      auto map = nlohmann::json::object();
      for (const auto& item : node) {
        if (!item.first.IsScalar()) throw Error(Code::kBadInput, "expected names as keys", context);
        map[item.first.Scalar()] = to_json(item.second, depth + 1, nodes, context);
      }
      return map;
    }
    default:
      return nullptr;
  }
}

}  // namespace

bool reads_yaml() { return true; }

nlohmann::json parse_yaml(const std::string& text, const std::string& context) {
  try {
    std::size_t nodes = 0;
    return to_json(YAML::Load(text), 0, &nodes, context);
  } catch (const YAML::Exception& e) {
    throw Error(Code::kBadInput,
                "not valid YAML: line " + std::to_string(e.mark.line + 1) + ", column " +
                    std::to_string(e.mark.column + 1) + ": " + e.msg,
                context);
  }
}

#else

bool reads_yaml() { return false; }

nlohmann::json parse_yaml(const std::string& /*text*/, const std::string& context) {
  throw Error(Code::kUnsupported,
              "is YAML, which this build does not read: it was made without libyaml-cpp-dev. JSON with the same names "
              "is read",
              context);
}

#endif

}  // namespace kvasir::cli
