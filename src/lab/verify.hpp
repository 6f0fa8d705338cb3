// Whether reuse changes answers: the same prompts without it and with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "run/service.hpp"

namespace kvasir::lab {

struct VerifyRow {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_first = 0, reused_again = 0;  // when the prompt came first with reuse, and when it came again
  std::int64_t differs_at = -1;                     // the first token of an answer that is another one; -1: none
  double difference = 0;                            // the largest, of log-probabilities in nats; infinite for NaN
  double plain_ttft = 0, ttft = 0;                  // seconds, without reuse and when it came again
  std::string miss;                                 // why no more was reused then

  bool same(double tolerance) const { return differs_at < 0 && difference <= tolerance; }
};

// Asks for greedy answers of at most `max_tokens` to each prompt three times: all without reuse, then all with it, then
// all of them again. `poll(done, total)` is called before each; false: Error(kCancelled).
std::vector<VerifyRow> verify(run::Service& service, std::vector<run::ServiceRequest> requests, int max_tokens,
                              const std::function<bool(std::size_t, std::size_t)>& poll);

}  // namespace kvasir::lab
