#include "text/schema/counts.hpp"

namespace kvasir::text {

std::string below_path(const std::string& path, std::string_view name) {
  constexpr std::size_t kMostPath = 1024;
  if (path.size() + name.size() > kMostPath) return path.size() > kMostPath ? path : path + "...";
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

void refuse_schema(const std::string& path, const std::string& why) { throw Error(Code::kBadInput, why, path); }

std::int32_t read_count(const Json& value, const std::string& path) {
  const bool whole = value.is_number() && value.get<double>() >= 0 &&
                     value.get<double>() <= static_cast<double>(kMostCount) &&
                     value.get<double>() == static_cast<double>(value.get<std::int64_t>());
  if (!whole) throw Error(Code::kBadInput, "expected an integer from 0 to " + std::to_string(kMostCount), path);
  return value.get<std::int32_t>();
}

void Counts::add(const Json* low, const Json* high, const std::string& path, const char* low_name,
                 const char* high_name) {
  std::optional<std::int32_t> own_low, own_high;
  if (low) own_low = read_count(*low, below_path(path, low_name));
  if (high) own_high = read_count(*high, below_path(path, high_name));
  if (own_low && own_high && *own_high < *own_low)
    throw Error(Code::kBadInput, std::string("is less than ") + low_name, below_path(path, high_name));
  if (own_low) least = std::max(least, *own_low);
  if (own_high) at_most(*own_high);
}

}  // namespace kvasir::text
