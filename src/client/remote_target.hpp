// Replays against a server, ours or another, over its OpenAI API.
#pragma once

#include <memory>
#include <string>

#include "client/answer_reader.hpp"
#include "lab/replay.hpp"

namespace kvasir::client {

// Times are the client's: from the request to the first text. Reuse is what the server says in
// usage.prompt_tokens_details.cached_tokens; requests that shall not reuse carry "reuse": false (Kvasir) and
// "cache_prompt": false (llama.cpp's server). Throws Error(kIo): no such server.
std::unique_ptr<lab::ReplayTarget> remote_target(const Endpoint& endpoint, const std::string& model,
                                                 const lab::ReplayOptions& options);

}  // namespace kvasir::client
