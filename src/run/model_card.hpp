// What a model file says of its model, for whoever serves it.
#pragma once

#include <string>

#include "model/model.hpp"
#include "run/service.hpp"

namespace kvasir::run {

// All but what the cache and the scheduler decide: context, codecs, requests at once.
ModelCard card_of(const model::ModelSpec& spec, const weights::ModelFile& file, std::string name);

}  // namespace kvasir::run
