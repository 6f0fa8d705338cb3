#include "lab/verify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "run/ask.hpp"

namespace kvasir::lab {
namespace {

double ttft(const run::Receipt& r) { return r.queue_seconds + r.prefill_seconds; }

constexpr std::int32_t kBest = 20;  // alternatives of a token among which the other answer's is looked for

double distance(double a, double b) {
  const double d = std::abs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

// What of `reply` is not as it was without reuse.
void compare(const run::Answered& plain, const run::Answered& reply, VerifyRow& row) {
  const std::size_t both = std::min(plain.records.size(), reply.records.size());
  std::size_t same = 0;
  for (; same < both && plain.records[same].id == reply.records[same].id; ++same)
    row.difference =
        std::max(row.difference, distance(double{plain.records[same].logprob}, double{reply.records[same].logprob}));
  if (row.differs_at >= 0 || (same == plain.records.size() && same == reply.records.size())) return;
  row.differs_at = static_cast<std::int64_t>(same);
  if (!row.approximate || same == both) return;
  const auto& best = reply.records[same].best;
  const auto at = std::find_if(best.begin(), best.end(), [&](auto& b) { return b.id == plain.records[same].id; });
  row.difference = at == best.end()
                       ? std::numeric_limits<double>::infinity()
                       : std::max(row.difference, distance(double{plain.records[same].logprob}, double{at->logprob}));
}

// As they are asked: greedily, once a round.
void prepare(std::vector<run::ServiceRequest>& requests, int max_tokens) {
  for (run::ServiceRequest& r : requests) {
    r.pin = false;
    r.request.max_tokens = max_tokens;
    r.request.sampling = {};
    r.request.sampling.temperature = 0;
    r.request.top_logprobs = 0;
  }
}

// Request `k` of three rounds: the round, and the number in it.
struct Turn {
  std::size_t round, i;
};
Turn turn_of(std::size_t k, std::size_t requests, const VerifyPoll& poll) {
  if (!poll(k, 3 * requests)) throw Error(Code::kCancelled, "stopped", "verify");
  return {k / requests, k % requests};
}

// All but the first token, which may be BOS, with the halves exchanged.
void exchange_halves(std::vector<std::int32_t>& ids) {
  const auto size = static_cast<std::ptrdiff_t>(ids.size());
  std::rotate(ids.begin() + 1, ids.begin() + 1 + size / 2, ids.end());
}

}  // namespace

std::vector<VerifyRow> verify(run::Service& service, std::vector<run::ServiceRequest> requests, int max_tokens,
                              const VerifyPoll& poll) {
  prepare(requests, max_tokens);
  std::vector<VerifyRow> rows(requests.size());
  std::vector<run::Answered> plain;
  for (std::size_t k = 0; k < 3 * requests.size(); ++k) {
    const auto [round, i] = turn_of(k, requests.size(), poll);
    run::ServiceRequest request = requests[i];
    request.reuse = round > 0;
    run::Answered reply = run::ask(service, std::move(request));
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

std::vector<VerifyRow> verify_blend(run::Service& service, std::vector<run::ServiceRequest> requests, int max_tokens,
                                    const VerifyPoll& poll) {
  prepare(requests, max_tokens);
  std::vector<VerifyRow> rows(requests.size());
  std::vector<run::Answered> plain;
  for (std::size_t k = 0; k < 3 * requests.size(); ++k) {
    const auto [round, i] = turn_of(k, requests.size(), poll);
    run::ServiceRequest request = requests[i];
    request.request.top_logprobs = kBest;
    request.request.ignore_eos = true;  // equal lengths: an end is no token that could be compared
    request.reuse = round > 0;
    request.blend.reuse = round == 1 ? "exact" : "blend";
    if (round == 1) {
      exchange_halves(request.request.prompt);
      request.request.max_tokens = 1;
      request.checkpoints.clear(), request.partings.clear();
    }
    run::Answered reply = run::ask(service, std::move(request));
    if (round == 1) continue;
    const run::Receipt& receipt = reply.outcome.receipt;
    VerifyRow& row = rows[i];
    if (round == 0) {
      row.approximate = true;
      row.prompt_tokens = reply.outcome.prompt_tokens;
      row.plain_ttft = ttft(receipt);
      plain.push_back(std::move(reply));
      continue;
    }
    row.relocated = receipt.blend.relocated_tokens;
    row.repaired = receipt.blend.repaired_tokens;
    row.ttft = ttft(receipt);
    row.miss = receipt.blend.refused;
    compare(plain[i], reply, row);
  }
  return rows;
}

}  // namespace kvasir::lab
