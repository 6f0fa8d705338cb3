// Options of selection: which blocks of a long context generated tokens read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "run/engine.hpp"
#include "run/service.hpp"

namespace kvasir::run {

std::vector<OptionTable<EngineOptions>::Row> selection_rows();

// --select with the options beside it as parameters, as select/spec.hpp reads them.
std::string selection_of(const EngineOptions& options);

// The section "long_context" of KTransformers' configuration as options of the table "engine". Throws Error(kBadInput)
// for keys that it does not have there, and for values of another type.
nlohmann::json ktransformers_options(const nlohmann::json& section);

// What a request's choices did: for receipts.
nlohmann::ordered_json selection_stats_json(const kv::SelectionStats::Layer& stats);
nlohmann::ordered_json selection_json(const Receipt& receipt);

}  // namespace kvasir::run
