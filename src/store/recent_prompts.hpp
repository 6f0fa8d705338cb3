// Prompts of late, so that a search that misses can say where a prompt differs from them.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::store {

// Any thread may call it.
class RecentPrompts {
 public:
  static constexpr std::size_t kMost = 256, kMostTokens = std::size_t{4} << 20;

  void add(std::string_view tenant, std::span<const std::int32_t> ids);

  // The one that begins most alike: how many tokens, and whether that is all of it.
  struct Nearest {
    std::int64_t tokens = 0;
    bool ends = false;
  };
  Nearest nearest(std::string_view tenant, std::span<const std::int32_t> ids) const;

 private:
  struct Prompt {
    std::string tenant;
    std::vector<std::int32_t> ids;
  };
  mutable std::mutex mutex_;
  std::deque<Prompt> prompts_;
  std::size_t tokens_ = 0;
};

}  // namespace kvasir::store
