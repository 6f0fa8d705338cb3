// `--kv auto`: what the policy of kv/auto_policy.hpp is told about a model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kv/auto_policy.hpp"
#include "model/forward.hpp"
#include "model/model.hpp"

namespace kvasir::run {

inline constexpr const char* kAuto = "auto";
// Tokens of the first prompt that are looked at, and how many there must be: with fewer everything stays f16.
inline constexpr int kAutoTokens = 512;
inline constexpr int kAutoLeastTokens = 64;

// For models that norm queries and keys head by head: their lengths are known from the norms' weights w, E|x|^2 =
// sum w^2, so the choice needs no text. Nothing for other models.
std::optional<kv::AutoChoice> auto_from_weights(const model::Model& model, double budget);

// Runs the first kAutoTokens of `prompt` through `forward`, in a sequence of its own in `cache`, and looks at the
// queries and keys. REQUIRES: room for one more sequence of so many tokens.
kv::AutoChoice auto_from_prompt(model::Forward& forward, kv::Cache& cache, const model::ModelSpec& spec,
                                std::span<const std::int32_t> prompt, int sinks, double budget);

}  // namespace kvasir::run
