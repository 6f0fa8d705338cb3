#include "weights/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace kvasir::weights {
namespace {

constexpr std::string_view kPattern = "-00001-of-00003.gguf";  // digits stand for any digits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int number_at(std::string_view text, std::size_t at) {
  int value = 0;
  for (const char c : text.substr(at, 5)) value = value * 10 + (c - '0');
  return value;
}

}  // namespace

std::optional<PartName> parse_part_name(std::string_view path) {
  if (path.size() <= kPattern.size()) return std::nullopt;
  const std::string_view end = path.substr(path.size() - kPattern.size());
  const bool fits = std::equal(end.begin(), end.end(), kPattern.begin(),
                               [](char c, char p) { return is_digit(p) ? is_digit(c) : c == p; });
  if (!fits) return std::nullopt;
  PartName part{std::string(path.substr(0, path.size() - kPattern.size())), number_at(end, 1), number_at(end, 10)};
  if (part.number < 1 || part.number > part.count) return std::nullopt;
  return part;
}

std::string part_path(const PartName& part) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", part.prefix, part.number, part.count);
}

std::string model_name(std::string_view path) {
  if (const auto part = parse_part_name(path)) return std::filesystem::path(part->prefix).filename().string();
  return std::filesystem::path(path).stem().string();
}

}  // namespace kvasir::weights
