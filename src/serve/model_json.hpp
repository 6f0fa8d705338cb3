// The models of a server as its lists show them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/context.hpp"
#include "serve/http.hpp"
#include "serve/roster.hpp"

namespace kvasir::serve {

// All that may be named, loaded or not; of a server with one model that one.
std::vector<Roster::Entry> known_models(const Context& context);

// An element of the list of /v1/models.
Json model_json(const Context& context, const Roster::Entry& model);

}  // namespace kvasir::serve
