#include "run/schedule/space.hpp"

#include <fmt/format.h>

#include "run/answer.hpp"

namespace kvasir::run {

Space space_of(const Engine& engine, const ServiceRequest& asked) {
  Space space{asked.tenant, adapter_scales(engine, asked.request)};
  if (space.adapters.empty()) return space;
  space.name += '\0';                                                                // no tenant's name has one
  for (const float scale : space.adapters) space.name += fmt::format("{} ", scale);  // the shortest that is this one
  return space;
}

}  // namespace kvasir::run
