// Conversations replayed turn by turn, with reuse and without it, to see what reuse saves and that it changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/engine.hpp"
#include "run/service.hpp"

namespace kvasir::run {

struct Message {
  std::string role, content;
};
using Conversation = std::vector<Message>;

// One conversation per line: {"turns": [{"role", "content"}, ...]} or {"messages": [...]}. Throws Error(kBadInput) that
// names file, line and field.
std::vector<Conversation> read_conversations(const std::string& path);

struct ReplayOptions {
  std::string conversations;
  std::string answers = "recorded";  // or "generated": the model's own go into the history
  std::int32_t limit = 0;            // conversations; 0: all
  std::int32_t max_tokens = 16;      // of an answer
  std::int32_t restart_every = 0;    // conversations' turns after which tiers are closed and opened again; 0: never
  std::vector<std::string> tiers;    // as --tier of serve; none: "ram:?size=1GiB"
  bool no_compare = false;           // skip the run without reuse
};
const OptionTable<ReplayOptions>& replay_table();

// All requests that were a conversation's n-th.
struct ReplayTurn {
  int turn = 0;                         // from 1
  std::vector<float> ttft, plain_ttft;  // seconds, in the order of the conversations
  std::int64_t prompt_tokens = 0, reused_tokens = 0;
  std::int64_t reusable_tokens = 0;  // that the turn before had in its cache and this prompt begins with
  std::map<std::string, std::int64_t> tokens_by_source;
  std::int64_t prompt_only = 0;            // requests of which all reused tokens had been prompt, none generated
  std::int64_t same_bits_prompt_only = 0;  // of these
  std::int64_t same_bits = 0;              // first token's log-probabilities are those without reuse, bit for bit
  std::int64_t same_text = 0;              // the whole answer is
  double largest_difference = 0;           // of a log-probability of the first token, where tokens agree
};

// How a conversation becomes a prompt: the model's chat template, or without one lines "User: ..." and "Assistant:".
using RenderPrompt = std::function<std::string(const Conversation&)>;

// Loads the model and replays. poll(done, total) in requests; false stops early. Throws Error.
std::vector<ReplayTurn> replay(const EngineOptions& engine, const ReplayOptions& options,
                               const std::function<bool(std::int64_t, std::int64_t)>& poll);

}  // namespace kvasir::run
