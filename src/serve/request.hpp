// The bodies of /v1/chat/completions, /v1/completions and /v1/warm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/service.hpp"
#include "serve/chat.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

enum class Kind { kChat, kCompletion, kWarm };

struct Prompt {
  bool is_ids = false;
  std::string text;
  std::vector<std::int32_t> ids;
};

struct ApiRequest {
  Kind kind = Kind::kCompletion;
  std::vector<Prompt> prompts;  // completions
  bool is_chat = false;         // `messages` instead of prompts (warm knows both)
  ChatInput chat;
  int n = 1;  // answers to every prompt
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  bool logprobs = false;
  run::ServiceRequest service;  // all but the prompt, the tenant and the time-out
};

// What bounds a request besides the documented ranges.
struct RequestLimits {
  std::int32_t vocabulary = 0;
  int choices = 128;
  std::string model;  // the only one that may be named; "": any
};

// Throw ApiException that names the field: missing, of the wrong type, out of range, or asking for what this server
// cannot do. Unknown fields are ignored.
ApiRequest parse_chat(const Json& body, const RequestLimits& limits);
ApiRequest parse_completion(const Json& body, const RequestLimits& limits);
ApiRequest parse_warm(const Json& body, const RequestLimits& limits);

// `messages`, `tools` and what goes with them (messages.cpp).
ChatInput parse_messages(const Json& body);

}  // namespace kvasir::serve
