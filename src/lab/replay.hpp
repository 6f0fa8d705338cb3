// Replays conversations turn by turn, with reuse and without. Shows how much time reuse saves, and that it does not
// change the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "lab/conversations.hpp"
#include "run/engine.hpp"
#include "run/request.hpp"

namespace kvasir::lab {

struct ReplayOptions {
  std::string conversations;
  std::string answers = "recorded";  // or "generated": the model's own go into the history
  std::int32_t limit = 0;            // conversations; 0: all
  std::int32_t max_tokens = 16;      // of an answer
  std::int32_t restart_every = 0;    // conversations' turns after which tiers are closed and opened again; 0: never
  std::vector<std::string> tiers;    // as --tier of serve; none: "ram:?size=1GiB"
  bool compare = true;               // with a run without reuse
};
const OptionTable<ReplayOptions>& replay_table();

struct ReplayAnswer {
  std::string text;
  double ttft = 0;     // seconds
  double seconds = 0;  // of the whole answer
  std::int64_t prompt_tokens = 0, reused_tokens = 0;
  // Leading tokens of this prompt that the turn before had in its cache; -1: not known.
  std::int64_t reusable_tokens = -1;
  std::map<std::string, std::int64_t> tokens_by_source;
  double load_seconds = 0;  // of ttft: fetching and restoring what is reused
  std::uint64_t loaded_bytes = 0;
  bool prompt_only = false;  // all reused tokens were prompt, none was generated; valid if has_tokens
  bool has_tokens = false;   // `tokens` is known
  std::vector<run::TokenRecord> tokens;
};

// What answers: an engine, or a server somewhere.
class ReplayTarget {
 public:
  virtual ~ReplayTarget() = default;
  // Answers the last message of `history`; nothing if that does not fit into the context. Without `reuse` everything is
  // computed, and nothing is kept. `turn` counts from 1; the turns of a conversation come in order. Throws Error.
  virtual std::optional<ReplayAnswer> ask(const Conversation& history, int turn, bool reuse) = 0;
  virtual void reopen() = 0;  // closes all tiers and opens them again
};

// Loads the model.
std::unique_ptr<ReplayTarget> engine_target(const run::EngineOptions& engine, const ReplayOptions& options);

// The requests of all conversations in one turn.
struct ReplayTurn {
  int turn = 0;                         // from 1; 0: all of them
  std::vector<float> ttft, plain_ttft;  // seconds, in the order of the conversations
  std::int64_t prompt_tokens = 0, reused_tokens = 0;
  std::int64_t reusable_tokens = 0;  // see ReplayAnswer; -1: not known
  std::map<std::string, std::int64_t> tokens_by_source;
  std::vector<float> seconds;      // of whole answers
  std::vector<float> load;         // seconds for fetching and restoring, part of each ttft
  std::uint64_t loaded_bytes = 0;  // of all requests
  std::int64_t same_bits = 0;    // first token's log-probabilities are those without reuse, bit for bit; -1: not known
  std::int64_t prompt_only = 0;  // requests that reused no generated token
  std::int64_t same_bits_prompt_only = 0;  // of these
  std::int64_t same_text = 0;              // the whole answer is
  double largest_difference = 0;           // of a log-probability of the first token, where tokens agree
  std::int64_t above_milli = 0;            // requests where it is above 0.001
  std::int64_t plain_reused = 0;           // tokens reused in runs without reuse; above 0 plain_ttft means nothing
};

// All requests of some turns together.
ReplayTurn overall(const std::vector<ReplayTurn>& turns);

// poll(done, total) in requests; false stops early. Throws Error.
std::vector<ReplayTurn> replay(ReplayTarget& target, const ReplayOptions& options,
                               const std::function<bool(std::int64_t, std::int64_t)>& poll);

}  // namespace kvasir::lab
