#include "lab/replay.hpp"

#include <algorithm>
#include <cmath>

namespace kvasir::lab {

const OptionTable<ReplayOptions>& replay_table() {
  using O = ReplayOptions;
  static const OptionTable<O> table{
      "replay",
      {{"conversations",
        &O::conversations,
        {.help = "one JSON object per line with its turns: role and content", .placeholder = "FILE", .required = true}},
       {"answers",
        &O::answers,
        {.help = "what the next turn finds as the answer before it", .choices = {"recorded", "generated"}}},
       {"limit", &O::limit, {.help = "conversations; 0 is all of them", .low = 0, .high = 1 << 24}},
       {"max_tokens", &O::max_tokens, {.help = "of an answer", .unit = "tokens", .low = 1, .high = 1 << 20}},
       {"restart_every",
        &O::restart_every,
        {.help = "requests after which all tiers are closed and opened again; 0 is never", .low = 0, .high = 1 << 24}},
       {"tier",
        &O::tiers,
        {.help = "where pages are kept, such as lmdb:FOLDER; may be given more than once; default ram:?size=1GiB",
         .alias = "--tiers",
         .placeholder = "SPEC"}},
       {"compare", &O::compare, {.help = "run every request without reuse, too"}}}};
  return table;
}

namespace {

class Player {
 public:
  Player(ReplayTarget& target, const ReplayOptions& options) : target_(target), options_(options) {}

  // Replays turn by turn; false: stopped.
  bool play(const Conversation& recorded, std::vector<ReplayTurn>* turns, const std::function<bool()>& poll) {
    Conversation history;
    int turn = 0;
    for (const Message& message : recorded) {
      if (message.role == "assistant") {
        if (options_.answers == "recorded" || history.empty()) history.push_back(message);
        continue;
      }
      history.push_back(message);
      if (message.role != "user") continue;
      const auto cached = target_.ask(history, ++turn, true);
      if (!cached) return true;
      if (static_cast<std::size_t>(turn) > turns->size()) turns->push_back({.turn = turn});
      ReplayTurn& row = (*turns)[static_cast<std::size_t>(turn - 1)];
      count(*cached, &row);
      if (options_.compare)
        if (const auto plain = target_.ask(history, turn, false)) compare(*cached, *plain, &row);
      if (options_.answers == "generated") history.push_back({"assistant", cached->text});
      if (options_.restart_every > 0 && ++asked_ % options_.restart_every == 0) target_.reopen();
      if (!poll()) return false;
    }
    return true;
  }

 private:
  static void count(const ReplayAnswer& answer, ReplayTurn* row) {
    row->ttft.push_back(static_cast<float>(answer.ttft));
    row->seconds.push_back(static_cast<float>(answer.seconds));
    row->load.push_back(static_cast<float>(answer.load_seconds));
    row->loaded_bytes += answer.loaded_bytes;
    row->prompt_tokens += answer.prompt_tokens;
    row->reused_tokens += answer.reused_tokens;
    row->prompt_only += answer.prompt_only;
    for (const auto& [source, tokens] : answer.tokens_by_source) row->tokens_by_source[source] += tokens;
    row->reusable_tokens = answer.reusable_tokens < 0 ? -1 : row->reusable_tokens + answer.reusable_tokens;
  }

  static void compare(const ReplayAnswer& cached, const ReplayAnswer& plain, ReplayTurn* row) {
    row->plain_ttft.push_back(static_cast<float>(plain.ttft));
    row->plain_reused += plain.reused_tokens;
    row->same_text += cached.text == plain.text && cached.tokens.size() == plain.tokens.size();
    if (!cached.has_tokens) {
      row->same_bits = -1;
      return;
    }
    if (cached.tokens.empty() || plain.tokens.empty()) {
      const bool both = cached.tokens.empty() && plain.tokens.empty();
      row->same_bits += both;
      row->same_bits_prompt_only += both && cached.prompt_only;
      return;
    }
    const auto& a = cached.tokens[0].best;
    const auto& b = plain.tokens[0].best;
    bool equal = a.size() == b.size();
    double difference = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      equal = equal && a[i].id == b[i].id && a[i].logprob == b[i].logprob;
      if (a[i].id == b[i].id)
        difference = std::max(difference, std::abs(static_cast<double>(a[i].logprob) - b[i].logprob));
    }
    row->largest_difference = std::max(row->largest_difference, difference);
    row->above_milli += difference > 1e-3;
    row->same_bits += equal;
    row->same_bits_prompt_only += equal && cached.prompt_only;
  }

  ReplayTarget& target_;
  const ReplayOptions options_;
  std::int64_t asked_ = 0;
};

}  // namespace

ReplayTurn overall(const std::vector<ReplayTurn>& turns) {
  ReplayTurn all;
  const auto append = [](std::vector<float>& to, const std::vector<float>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (const ReplayTurn& t : turns) {
    append(all.ttft, t.ttft), append(all.plain_ttft, t.plain_ttft);
    append(all.seconds, t.seconds), append(all.load, t.load);
    all.prompt_tokens += t.prompt_tokens;
    all.reused_tokens += t.reused_tokens;
    all.reusable_tokens =
        all.reusable_tokens < 0 || t.reusable_tokens < 0 ? -1 : all.reusable_tokens + t.reusable_tokens;
    for (const auto& [source, tokens] : t.tokens_by_source) all.tokens_by_source[source] += tokens;
    all.loaded_bytes += t.loaded_bytes;
    all.same_bits = all.same_bits < 0 || t.same_bits < 0 ? -1 : all.same_bits + t.same_bits;
    all.prompt_only += t.prompt_only;
    all.same_bits_prompt_only += t.same_bits_prompt_only;
    all.same_text += t.same_text;
    all.largest_difference = std::max(all.largest_difference, t.largest_difference);
    all.above_milli += t.above_milli;
    all.plain_reused += t.plain_reused;
  }
  return all;
}

std::vector<ReplayTurn> replay(ReplayTarget& target, const ReplayOptions& options,
                               const std::function<bool(std::int64_t, std::int64_t)>& poll) {
  std::vector<Conversation> conversations = read_conversations(options.conversations);
  if (options.limit > 0 && static_cast<std::size_t>(options.limit) < conversations.size())
    conversations.resize(static_cast<std::size_t>(options.limit));
  std::int64_t total = 0, done = 0;
  for (const Conversation& c : conversations)
    total += std::count_if(c.begin(), c.end(), [](const Message& m) { return m.role == "user"; });
  Player player(target, options);
  std::vector<ReplayTurn> turns;
  for (const Conversation& c : conversations)
    if (!player.play(c, &turns, [&] { return poll(++done, total); })) break;
  return turns;
}

}  // namespace kvasir::lab
