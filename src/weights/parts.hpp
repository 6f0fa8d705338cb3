// Models in several files: PREFIX-00001-of-00003.gguf.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir::weights {

struct PartName {
  std::string prefix;  // the path in front of "-00001-of-00003.gguf"
  int number;          // from 1 on, at most count
  int count;
};

// Nothing for a path that ends otherwise.
std::optional<PartName> parse_part_name(std::string_view path);
std::string part_path(const PartName& part);

// What a model is called by its path: the last component without its extension and without which part it is.
std::string model_name(std::string_view path);

}  // namespace kvasir::weights
