// Orders of columns that matrices have (weights::OrderedRows), as a specification's parts use them.
#pragma once

#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

// The order that `l` has its columns in; null: that of what it reads.
const std::vector<std::int32_t>* order_of(const Linear& l, const weights::ModelFile& file);

// The most orders among matrices that read the same: so many forms of a step's rows there are at once.
int orders_at_once(const ModelSpec& spec, const weights::ModelFile& file);

// What the orders take in memory.
std::int64_t order_bytes(const weights::ModelFile& file);

}  // namespace kvasir::model
