#include "lab/verify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "run/ask.hpp"

namespace kvasir::lab {
namespace {

double ttft(const run::Receipt& r) { return r.queue_seconds + r.prefill_seconds; }

// What of `reply` is not as it was without reuse.
void compare(const run::Reply& plain, const run::Reply& reply, VerifyRow& row) {
  const std::size_t both = std::min(plain.records.size(), reply.records.size());
  std::size_t same = 0;
  for (; same < both && plain.records[same].id == reply.records[same].id; ++same) {
    const double d = std::abs(double{plain.records[same].logprob} - double{reply.records[same].logprob});
    row.difference = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(row.difference, d);
  }
  if (row.differs_at < 0 && (same < plain.records.size() || same < reply.records.size()))
    row.differs_at = static_cast<std::int64_t>(same);
}

}  // namespace

std::vector<VerifyRow> verify(run::Service& service, std::vector<run::ServiceRequest> requests, int max_tokens,
                              const std::function<bool(std::size_t, std::size_t)>& poll) {
  for (run::ServiceRequest& r : requests) {
    r.pin = false;
    r.request.max_tokens = max_tokens;
    r.request.sampling = {};
    r.request.sampling.temperature = 0;
    r.request.top_logprobs = 0;
  }
  std::vector<VerifyRow> rows(requests.size());
  std::vector<run::Reply> plain;
  for (std::size_t k = 0; k < 3 * requests.size(); ++k) {
    if (!poll(k, 3 * requests.size())) throw Error(Code::kCancelled, "stopped", "verify");
    const std::size_t round = k / requests.size(), i = k % requests.size();
    run::ServiceRequest request = requests[i];
    request.reuse = round > 0;
    run::Reply reply = run::ask(service, std::move(request));
    const run::Receipt& receipt = reply.outcome.receipt;
    VerifyRow& row = rows[i];
    if (round == 0) {
      row.prompt_tokens = reply.outcome.prompt_tokens;
      row.plain_ttft = ttft(receipt);
      plain.push_back(std::move(reply));
      continue;
    }
    (round == 1 ? row.reused_first : row.reused_again) = receipt.reused_tokens;
    row.ttft = ttft(receipt);
    row.miss = receipt.miss;
    compare(plain[i], reply, row);
  }
  return rows;
}

}  // namespace kvasir::lab
