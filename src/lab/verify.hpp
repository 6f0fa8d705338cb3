// Whether reuse changes answers: the same prompts without it and with it. Exact reuse may change nothing; blending
// (run/blend.hpp), which reads text as it was computed at another place, may change a little.
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
  std::string miss;                                 // why no more was reused, or relocated, then
  bool approximate = false;                         // blended: another token is no fault where it was nearly as likely
  std::int64_t relocated = 0, repaired = 0;         // tokens of a blended prompt

  bool same(double tolerance) const { return (approximate || differs_at < 0) && difference <= tolerance; }
};

// `poll(done, total)` is called before each request of these; false: Error(kCancelled).
using VerifyPoll = std::function<bool(std::size_t, std::size_t)>;

// Asks for greedy answers of at most `max_tokens` to each prompt three times: all without reuse, then all with it, then
// all of them again.
std::vector<VerifyRow> verify(run::Service& service, std::vector<run::ServiceRequest> requests, int max_tokens,
                              const VerifyPoll& poll);

// Asks for greedy answers of `max_tokens` to each prompt without reuse; then computes each with its halves exchanged,
// so that all of its text is known at another place; then asks for the answers again, blended. `difference` is that of
// the tokens of the first answer, up to and with the first one that is another one now; infinite when that one is not
// among the 20 most probable.
std::vector<VerifyRow> verify_blend(run::Service& service, std::vector<run::ServiceRequest> requests, int max_tokens,
                                    const VerifyPoll& poll);

}  // namespace kvasir::lab
