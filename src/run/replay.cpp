#include "run/replay.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "store/open.hpp"
#include "text/chat.hpp"

namespace kvasir::run {

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
         .placeholder = "SPEC"}},
       {"no_compare", &O::no_compare, {.help = "do not run every request without reuse too"}}}};
  return table;
}

std::vector<Conversation> read_conversations(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<Conversation> list;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + ", line " + std::to_string(number);
    const nlohmann::json json = parse_json(line, where);
    const char* key = json.is_object() && json.contains("messages") ? "messages" : "turns";
    if (!json.is_object() || !json.contains(key) || !json[key].is_array())
      throw Error(Code::kBadInput, "expected an object with a list \"turns\" or \"messages\"", where);
    Conversation c;
    for (const auto& m : json[key]) {
      if (!m.is_object() || !m.contains("role") || !m["role"].is_string() || !m.contains("content") ||
          !m["content"].is_string())
        throw Error(Code::kBadInput, "turn " + std::to_string(c.size()) + ": expected texts \"role\" and \"content\"",
                    where);
      c.push_back({m["role"], m["content"]});
    }
    list.push_back(std::move(c));
  }
  if (list.empty()) throw Error(Code::kBadInput, "holds no conversation", path);
  return list;
}

namespace {

class Waiter final : public Listener {
 public:
  void pieces(std::span<const Piece> pieces) override {
    for (const Piece& p : pieces) {
      if (p.token.id >= 0) tokens_.push_back(p.token);
      text_ += p.text;
    }
  }
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
    done_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }

  // After wait.
  std::vector<TokenRecord> tokens_;
  std::string text_;
  Outcome outcome_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

class Player {
 public:
  Player(const EngineOptions& engine, const ReplayOptions& options) : options_(options) {
    engine_ = std::make_unique<Engine>(engine, Engine::Needs{});
    if (!engine_->tokenizer())
      throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", engine.model);
    if (options_.tiers.empty()) options_.tiers = {"ram:?size=1GiB"};
    make_renderer();
    open();
  }

  // The tiers' contents survive as far as they are made to.
  void open() {
    scheduler_.reset();
    library_.reset();
    std::vector<std::unique_ptr<store::Tier>> tiers;
    for (const std::string& spec : options_.tiers) tiers.push_back(store::open_tier(spec));
    library_ = std::make_unique<store::Library>(engine_->cache(), store::fingerprint_of(describe_cache(*engine_)),
                                                std::move(tiers));
    scheduler_ = std::make_unique<Scheduler>(*engine_, SchedulerOptions{.running = 1}, "replay", library_.get());
  }

  // Replays turn by turn; false: stopped.
  bool play(const Conversation& recorded, std::vector<ReplayTurn>* turns, const std::function<bool()>& poll) {
    Conversation history;
    std::vector<std::int32_t> before;  // tokens whose keys and values the turn before left
    int turn = 0;
    for (const Message& message : recorded) {
      if (message.role == "assistant") {
        if (options_.answers == "recorded" || history.empty()) history.push_back(message);
        continue;
      }
      history.push_back(message);
      if (message.role != "user") continue;
      const std::vector<std::int32_t> prompt = encode(render_(history));
      if (static_cast<std::int64_t>(prompt.size()) + options_.max_tokens >= engine_->context()) return true;
      const auto cached = ask(prompt, true);
      if (static_cast<std::size_t>(++turn) > turns->size()) turns->push_back({.turn = turn});
      ReplayTurn& row = (*turns)[static_cast<std::size_t>(turn - 1)];
      count(*cached, prompt, before, &row);
      if (!options_.no_compare) compare(*cached, *ask(prompt, false), &row);
      before = prompt;
      for (const TokenRecord& t : cached->tokens_) before.push_back(t.id);
      if (options_.answers == "generated") history.push_back({"assistant", cached->text_});
      if (options_.restart_every > 0 && ++asked_ % options_.restart_every == 0) open();
      if (!poll()) return false;
    }
    return true;
  }

 private:
  void make_renderer() {
    const auto source = engine_->model().file().metadata().get_string("tokenizer.chat_template");
    if (!source) {
      render_ = [](const Conversation& c) {
        std::string text;
        for (const Message& m : c)
          text += (m.role == "user" ? "User: " : m.role == "assistant" ? "Assistant: " : "") + m.content + "\n";
        return text + "Assistant:";
      };
      return;
    }
    const text::Tokenizer& t = *engine_->tokenizer();
    const auto piece = [&](std::int32_t id) { return id >= 0 ? std::string(t.piece(id)) : std::string(); };
    bos_ = piece(t.bos());
    auto chat = std::make_shared<text::ChatTemplate>(*source, bos_, piece(t.eos()));
    render_ = [chat](const Conversation& c) {
      text::Conversation conversation;
      for (const Message& m : c) conversation.messages.push_back({{"role", m.role}, {"content", m.content}});
      return chat->render(conversation);
    };
  }

  std::vector<std::int32_t> encode(const std::string& text) const {
    const text::Tokenizer& t = *engine_->tokenizer();
    const bool has_bos = !bos_.empty() && text.starts_with(bos_);
    return t.encode(text, {.add_bos = t.add_bos() && !has_bos, .parse_special = true});
  }

  std::shared_ptr<Waiter> ask(const std::vector<std::int32_t>& prompt, bool reuse) {
    ServiceRequest r;
    r.request.prompt = prompt;
    r.request.max_tokens = options_.max_tokens;
    r.request.sampling.temperature = 0;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    auto waiter = std::make_shared<Waiter>();
    scheduler_->submit(std::move(r), waiter);
    waiter->wait();
    if (waiter->outcome_.failure != Failure::kNone) throw Error(Code::kUnsupported, waiter->outcome_.error, "replay");
    return waiter;
  }

  static float ttft(const Outcome& o) {
    return static_cast<float>(o.receipt.queue_seconds + o.receipt.prefill_seconds);
  }

  static void count(const Waiter& answer, const std::vector<std::int32_t>& prompt,
                    const std::vector<std::int32_t>& before, ReplayTurn* row) {
    const Receipt& receipt = answer.outcome_.receipt;
    row->ttft.push_back(ttft(answer.outcome_));
    row->prompt_tokens += static_cast<std::int64_t>(prompt.size());
    row->reused_tokens += receipt.reused_tokens;
    for (const Span& s : receipt.spans) row->tokens_by_source[s.source] += s.end - s.begin;
    // The last generated token has no keys and values yet, and the last of the prompt has to be computed.
    const std::size_t most = std::min(before.empty() ? 0 : before.size() - 1, prompt.size() - 1);
    const auto differ =
        std::mismatch(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(most), before.begin());
    row->reusable_tokens += differ.first - prompt.begin();
  }

  static void compare(const Waiter& cached, const Waiter& plain, ReplayTurn* row) {
    row->plain_ttft.push_back(ttft(plain.outcome_));
    row->same_text += cached.text_ == plain.text_ && cached.tokens_.size() == plain.tokens_.size();
    if (cached.tokens_.empty() || plain.tokens_.empty()) {
      row->same_bits += cached.tokens_.empty() && plain.tokens_.empty();
      return;
    }
    const auto& a = cached.tokens_[0].best;
    const auto& b = plain.tokens_[0].best;
    bool equal = a.size() == b.size();
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      equal = equal && a[i].id == b[i].id && a[i].logprob == b[i].logprob;
      if (a[i].id == b[i].id)
        row->largest_difference =
            std::max(row->largest_difference, std::abs(static_cast<double>(a[i].logprob) - b[i].logprob));
    }
    row->same_bits += equal;
  }

  ReplayOptions options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<store::Library> library_;
  std::unique_ptr<Scheduler> scheduler_;
  RenderPrompt render_;
  std::string bos_;
  std::int64_t asked_ = 0;
};

}  // namespace

std::vector<ReplayTurn> replay(const EngineOptions& engine, const ReplayOptions& options,
                               const std::function<bool(std::int64_t, std::int64_t)>& poll) {
  std::vector<Conversation> conversations = read_conversations(options.conversations);
  if (options.limit > 0 && static_cast<std::size_t>(options.limit) < conversations.size())
    conversations.resize(static_cast<std::size_t>(options.limit));
  std::int64_t total = 0, done = 0;
  for (const Conversation& c : conversations)
    total += std::count_if(c.begin(), c.end(), [](const Message& m) { return m.role == "user"; });
  Player player(engine, options);
  std::vector<ReplayTurn> turns;
  for (const Conversation& c : conversations)
    if (!player.play(c, &turns, [&] { return poll(++done, total); })) break;
  return turns;
}

}  // namespace kvasir::run
