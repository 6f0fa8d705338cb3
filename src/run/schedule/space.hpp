// Which requests' keys and values may meet: those of one tenant that the same adapters add to.
#pragma once

#include <string>
#include <vector>

#include "run/engine.hpp"
#include "run/service.hpp"

namespace kvasir::run {

struct Space {
  std::string name;             // of pages in the library, and of what is known of texts
  std::vector<float> adapters;  // scales, as model::Input has them
};

// Throws Error(kBadInput) for what Request::lora says that the engine does not have.
Space space_of(const Engine& engine, const ServiceRequest& asked);

}  // namespace kvasir::run
