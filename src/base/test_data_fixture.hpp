// Reference data beside the repository, for tests: recorded keys and values, vocabularies, models with their logits.
#pragma once

#include <cstdlib>
#include <string>

namespace kvasir::fixture {

// The file or folder `name` of the folder KVASIR_TEST_DATA (an environment variable; default: beside the checkout).
// Tests that need it say SKIPPED where it is not there.
inline std::string test_data(const std::string& name) {
  const char* folder = std::getenv("KVASIR_TEST_DATA");
  return std::string(folder && *folder ? folder : KVASIR_SOURCE_DIR "/../shared/data") + "/" + name;
}

}  // namespace kvasir::fixture
