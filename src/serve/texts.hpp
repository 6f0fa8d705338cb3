// What bodies that carry texts have in common, whatever is made of the texts (request.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/body.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

// A string, strings, ids or arrays of ids. Throws ApiException that names the field.
std::vector<Prompt> read_texts(const Json& value, const std::string& field, std::int32_t vocabulary);

// Throws ApiException(404) where the body names another model.
void check_model(const Fields& fields, const RequestLimits& limits);

}  // namespace kvasir::serve
