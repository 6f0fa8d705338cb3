// Where a prompt leaves tails, the raw ends from which later prompts go on: at its checkpoints, places where other
// prompts may part from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "kv/cache.hpp"
#include "run/service.hpp"

namespace kvasir::run {

// Common beginnings of requests that run below this many tokens are computed again: a step does as much.
inline constexpr std::int64_t kLeastShare = 32;
// Shorter beginnings are not kept: kernels take rows by so many. The system message of Qwen's template has 22 tokens.
inline constexpr std::int64_t kLeastKept = 16;

// So far into the page of token `at` that the tail's key is that of the pages before.
std::int64_t page_start(std::int64_t at);
// The next place behind `at` where every text leaves a tail, however long it is: in the last page before a multiple of
// 1,024 tokens, so that steps which end there make it in passing. However two texts part, fewer tokens that they share
// are behind the last tail.
std::int64_t next_tail(std::int64_t at);

// As asked, else behind the first message (what the system says) and the last one, which end with a token that ends
// texts. In no order, and some may come twice.
std::vector<std::int64_t> message_checkpoints(const ServiceRequest& asked, std::span<const std::int32_t> prompt,
                                              FunctionRef<bool(std::int32_t)> ends_text);
// Prompts part where no message ends too: in front of the question behind a document. Points at two distances from the
// end, and the first of those that every text has behind the end: later ones follow it. The first `have` tokens are
// restored.
std::vector<std::int64_t> waypoints(std::int64_t prompt, std::int64_t have);
// Where pages suffice (kv::Rules::pages_suffice): the sinks, which no page has, under a key that tells texts from each
// other; and the last page, which is not sealed yet.
std::vector<std::int64_t> page_waypoints(std::int64_t prompt, std::int64_t sinks);
// Of these those that a prompt still passes, each once, the next one last; the first `have` tokens are there. With
// tails behind the prompt, too, the first of these is among them.
std::vector<std::int64_t> ahead(std::vector<std::int64_t> points, std::int64_t prompt, std::int64_t have,
                                bool tails_behind);

}  // namespace kvasir::run
