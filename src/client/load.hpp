// Many clients at once against an OpenAI-compatible server: what they get, how fast, and whether all get their share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "client/answer_reader.hpp"

namespace kvasir::client {

struct LoadOptions {
  std::int32_t requests = 0;  // of all clients together; 0: kRequestsPerClient each
  std::int32_t prompt_tokens = 64;
  std::int32_t shared_tokens = 0;  // of them, at the beginning: the same in all prompts
  std::int32_t tokens = 64;        // of an answer
  std::string conversations;       // chats that clients play turn by turn, in place of made-up prompts
  double patience = 600;           // seconds without a byte after which a connection counts as dropped
};
const OptionTable<LoadOptions>& load_table();

inline constexpr int kRequestsPerClient = 4;

struct LoadReport {
  std::int32_t clients = 0;
  std::int64_t completed = 0, refused = 0, failed = 0, dropped = 0;
  std::map<std::string, std::int64_t> errors;  // by kind, of the refused, failed and dropped
  double seconds = 0;                          // from the first request to the last answer
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;  // of completed requests
  std::vector<float> ttft, gaps, whole, refusals;  // seconds: first text, between texts, the answer, until refused
  // Jain's index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one gets everything. Over the tokens that each
  // client got until the first of them ran out of requests, and over the tokens per second of each answer while it
  // grew.
  double client_fairness = 1, stream_fairness = 1;
  // What the server says of itself, the most that was seen: resident memory, connections, requests that ran and that
  // waited; 0 when it does not say.
  std::uint64_t memory_before = 0, memory_most = 0;
  std::int64_t connections = 0, running = 0, waiting = 0;

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(completion_tokens) / seconds : 0; }
};

// Runs `clients` clients that take requests from a common store until it is empty; each keeps one connection and sends
// its next request when it has the answer. A refused client waits as long as the server asks it to. poll(done, total)
// is called a few times a second; false ends the run with what there is. Throws Error: no server there, a bad file of
// conversations.
LoadReport run_load(const Endpoint& endpoint, const std::string& model, std::int32_t clients,
                    const LoadOptions& options, const std::function<bool(std::int64_t, std::int64_t)>& poll);

// What the server calls its (first) model. Throws Error(kIo).
std::string model_of(const Endpoint& endpoint);

double jain_index(const std::vector<double>& values);  // 1 of nothing

}  // namespace kvasir::client
