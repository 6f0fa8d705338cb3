#include "base/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace kvasir {

std::int64_t raise_descriptor_limit() {
  constexpr rlim_t kEnough = 1 << 20;  // some systems have no other limit, and refuse "infinite"
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, kEnough));
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  return static_cast<std::int64_t>(std::min(limit.rlim_cur, kEnough));
}

}  // namespace kvasir
