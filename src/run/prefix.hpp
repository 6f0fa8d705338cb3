// A beginning of a prompt whose tokens see each other both ways, as HRM-Text reads an instruction (its `prefix_lm`). It
// is a run of rows, as a picture is one: those of its tokens, named by their ids and by what they see. So it is reused
// whole or not at all, and never taken for the same tokens that see what is before them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "run/engine.hpp"
#include "run/request.hpp"

namespace kvasir::run {

// Throws Error(kBadInput) naming "prefix_tokens" where the model cannot do it, or the prompt or a step is too short.
void check_prefix(const Engine& engine, const Request& request);

// The rows of a prefix of these tokens. `engine` must outlive them.
std::shared_ptr<const model::RowBlock> prefix_block(const Engine& engine, std::span<const std::int32_t> ids);

// The prompt with rows in place of its prefix; as it was where there is none. REQUIRES: check_prefix
void take_prefix(const Engine& engine, Request& request);

}  // namespace kvasir::run
