// Whether what a model computed of a text can be read at another place of another text.
#pragma once

#include <string>

#include "model/spec.hpp"

namespace kvasir::model {

// Empty when keys can be read at another place by turning the queries (kv/borrow.hpp), in every layer; else why not: a
// sentence that names the first layer that does not allow it. whole_windows: as kv::CacheOptions has it.
std::string why_not_relocated(const ModelSpec& spec, bool whole_windows);
bool has_windows(const ModelSpec& spec);  // some layer does

// The first layer from `first` on that has keys and values of its own, -1: none. Rows can be compared there
// (run/blend.hpp). Those of layer 0 follow from token and position alone.
int check_layer(const ModelSpec& spec, int first);

}  // namespace kvasir::model
