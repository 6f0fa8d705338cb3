#include "model/arch_metadata.hpp"

#include "base/error.hpp"

namespace kvasir::model {

bool ArchMetadata::has(std::string_view key) const { return m_.has(full(key)); }

std::int64_t ArchMetadata::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  return m_.require_int(full(key), low, high);
}

std::int64_t ArchMetadata::integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                      std::int64_t fallback) const {
  return m_.get_int(full(key), low, high).value_or(fallback);
}

double ArchMetadata::number(std::string_view key) const { return m_.require_float(full(key)); }
double ArchMetadata::number_or(std::string_view key, double fallback) const {
  return m_.get_float(full(key)).value_or(fallback);
}
bool ArchMetadata::flag_or(std::string_view key, bool fallback) const {
  return m_.get_bool(full(key)).value_or(fallback);
}
std::string ArchMetadata::text_or(std::string_view key, std::string_view fallback) const {
  return m_.get_string(full(key)).value_or(std::string(fallback));
}

int ArchMetadata::in_layer(std::string_view key, int layer, std::optional<int> fallback, int least) const {
  const std::string name = full(key);
  const weights::Value* value = m_.find(name);
  if (value == nullptr && fallback) return *fallback;
  const auto* list = value ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  if (!list) return static_cast<int>(m_.require_int(name, least, kMostNumber));
  check_count(name, list->size());
  const std::int64_t x = (*list)[static_cast<std::size_t>(layer)];
  if (x < least || x > kMostNumber)
    throw Error(Code::kBadInput,
                name + "[" + std::to_string(layer) + "] is " + std::to_string(x) + ", expected " +
                    std::to_string(least) + ".." + std::to_string(kMostNumber),
                m_.path());
  return static_cast<int>(x);
}

std::vector<std::int64_t> ArchMetadata::integers(std::string_view key, int count, std::int64_t low,
                                                 std::int64_t high) const {
  const std::vector<std::int64_t>* list = m_.get_ints(full(key));
  if (!list) bad(key, "is missing, expected an array of integers");
  if (count >= 0 && list->size() != static_cast<std::size_t>(count))
    bad(key, "has " + std::to_string(list->size()) + " elements, expected " + std::to_string(count));
  for (const std::int64_t x : *list)
    if (x < low || x > high)
      bad(key, "holds " + std::to_string(x) + ", expected " + std::to_string(low) + ".." + std::to_string(high));
  return *list;
}

bool ArchMetadata::flag_in_layer(std::string_view key, int layer) const {
  const std::string name = full(key);
  const weights::Value* value = m_.find(name);
  const auto* flags = value ? std::get_if<std::vector<bool>>(value) : nullptr;
  const auto* numbers = value ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  const std::size_t size = flags ? flags->size() : numbers ? numbers->size() : 0;
  // Some arrays have none for the blocks that predict further tokens.
  if (size != static_cast<std::size_t>(layers_) || layer >= layers_) check_count(name, size);
  const auto at = static_cast<std::size_t>(layer);
  return flags ? (*flags)[at] : (*numbers)[at] != 0;
}

double ArchMetadata::number_in_layer(const std::string& key, int layer) const {
  const weights::Value* value = m_.find(key);
  const auto* list = value ? std::get_if<std::vector<double>>(value) : nullptr;
  if (!list) return m_.require_float(key);
  check_count(key, list->size());
  return (*list)[static_cast<std::size_t>(layer)];
}

void ArchMetadata::check_count(const std::string& name, std::size_t elements) const {
  if (elements == static_cast<std::size_t>(blocks_)) return;
  throw Error(Code::kBadInput,
              name + " has " + std::to_string(elements) + " elements, expected one for each of " +
                  std::to_string(blocks_) + " layers",
              m_.path());
}

void ArchMetadata::unsupported(std::string_view key, const std::string& text) const {
  throw Error(Code::kUnsupported, full(key) + " " + text, m_.path());
}

void ArchMetadata::bad(std::string_view key, const std::string& text) const {
  throw Error(Code::kBadInput, full(key) + " " + text, m_.path());
}

}  // namespace kvasir::model
