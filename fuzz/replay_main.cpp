// Feeds every file of the folders given to a fuzz target, without libFuzzer: the corpus as a regression test. A finding
// shows as a crash or a sanitizer's report, as in fuzzing.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Sorted, so that a failure comes at the same place every time.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

int replay(const std::string& folder) {
  const auto files = files_in(folder);
  for (const std::string& file : files) {
    std::fprintf(stderr, "%s\n", file.c_str());
    const std::string text = kvasir::read_text_file(file);
    // A copy of exactly the input's size: reading one byte more is an error that ASan sees.
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs from %s\n", files.size(), folder.c_str());
  return files.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  int status = argc > 1 ? 0 : 2;
  for (int i = 1; i < argc; ++i) {
    try {
      status |= replay(argv[i]);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", argv[i], e.what());
      status = 1;
    }
  }
  return status;
}
