// For tests: what can happen to a page file from outside. It has no name, but this process has it open.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvasir::kv::fixture {

// Descriptors of the nameless files that this process has open in `folder`.
inline std::vector<int> page_files(const std::string& folder) {
  const std::string real = std::filesystem::canonical(folder).string();
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string to = std::filesystem::read_symlink(entry.path(), none).string();
    if (to.starts_with(real) && to.ends_with("(deleted)")) found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

// Cuts them, or makes them longer.
inline void cut_page_files(const std::string& folder, std::int64_t bytes) {
  for (const int fd : page_files(folder))
    if (ftruncate(fd, bytes) != 0) throw std::runtime_error("ftruncate");
}

// Turns over a bit in every 512 bytes of them.
inline void spoil_page_files(const std::string& folder) {
  for (const int fd : page_files(folder)) {
    const off_t end = lseek(fd, 0, SEEK_END);
    for (off_t at = 100; at < end; at += 512) {
      unsigned char c = 0;
      if (pread(fd, &c, 1, at) != 1) throw std::runtime_error("pread");
      c ^= 4;
      if (pwrite(fd, &c, 1, at) != 1) throw std::runtime_error("pwrite");
    }
  }
}

}  // namespace kvasir::kv::fixture
