// The fields of a configuration, with errors that name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/safetensors/json_text.hpp"

namespace kvasir::weights {

// A field that is null counts as absent.
class ConfigFields {
 public:
  // Both must outlive this. `prefix` is put before names in messages ("rope_scaling.").
  ConfigFields(const FolderJson& object, const std::string& path, std::string prefix = {});

  const FolderJson* find(std::string_view name) const;
  bool is_null(std::string_view name) const;  // there, as null
  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  // Also of a list that has one number, for all layers.
  std::optional<std::int64_t> integer_if(std::string_view name, std::int64_t low, std::int64_t high) const;
  double number(std::string_view name) const;
  std::optional<double> number_if(std::string_view name) const;  // finite
  std::optional<std::string> text_if(std::string_view name) const;
  std::optional<bool> flag_if(std::string_view name) const;
  const FolderJson* object(std::string_view name) const;
  const FolderJson* array(std::string_view name) const;
  std::vector<float> floats(std::string_view name) const;  // positive and finite

  const std::string& path() const { return path_; }
  [[noreturn]] void bad(std::string_view name, const std::string& text) const;
  [[noreturn]] void unsupported(std::string_view name, const std::string& text) const;

 private:
  const FolderJson& object_;
  const std::string& path_;
  const std::string prefix_;
};

}  // namespace kvasir::weights
