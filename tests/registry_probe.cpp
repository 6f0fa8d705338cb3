// Lists the registries of a tree in which only the entries called `skeleton` were compiled (tests/registry_test.sh).
#include <cstdio>

#include "cli/registries.hpp"

int main() {
  for (const auto& registry : kvasir::cli::registries())
    for (const auto& name : registry.names) std::printf("%s %s\n", registry.folder.c_str(), name.c_str());
}
