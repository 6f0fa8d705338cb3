// One request asked of a service, and its answer waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "run/service.hpp"

namespace kvasir::run {

struct Answered {
  std::vector<std::int32_t> ids;
  std::string text;                  // empty without a tokenizer
  std::vector<TokenRecord> records;  // one per token where log-probabilities were asked for
  std::vector<float> vector;         // where Request::pooling asks for one
  Outcome outcome;
};

// Called while the request runs: `text` and `prefill` on the service's thread, `cancelled` on the caller's.
struct Events {
  std::function<void(std::string_view)> text;               // as it is released
  std::function<void(std::int64_t, std::int64_t)> prefill;  // tokens of the prompt that are there, tokens of it
  std::function<bool()> cancelled;                          // asked every 20 ms
};

// Throws what Service::submit throws, and Error for an answer that failed: kMemory where the cache has no room for the
// prompt, kBusy after the time-out of the queue, kUnsupported where the engine failed.
Answered ask(Service& service, ServiceRequest request, const Events& events = {});

}  // namespace kvasir::run
