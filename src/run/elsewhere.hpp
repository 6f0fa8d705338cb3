// What options of llama.cpp, vLLM, KVBoost and KTransformers are called here, for hints in messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir::run {

// Our flag for an option of theirs, perhaps with a value ("--draft model:FILE"), or a sentence that says why there is
// none. `name`: a flag with one or two dashes, or a key; blanks, underscores and capitals do not matter. Empty:
// unknown.
std::string_view elsewhere(std::string_view name);

// What such an option is as a key of JSON, YAML or Python, as " ('max_model_len' is 'ctx' here)"; empty: unknown.
// known: the keys that there are; empty: any.
std::string key_hint(std::string_view key, std::span<const std::string> known = {});

// The field of a request that stands for a flag of `kvasir run`; empty: requests have none.
std::string request_field(std::string_view flag);

}  // namespace kvasir::run
