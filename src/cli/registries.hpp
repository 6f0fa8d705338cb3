// Every registry of this build with the names of its entries, for `kvasir registries`.
#pragma once

#include <string>
#include <vector>

namespace kvasir::cli {

struct Registry {
  std::string folder;              // "weights/quants", below src/
  std::vector<std::string> names;  // stems of its files, in alphabetical order
};

// Only folders that have entries. Defined by a source file that the build generates (cmake/registry.cmake).
std::vector<Registry> registries();

}  // namespace kvasir::cli
