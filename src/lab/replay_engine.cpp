// Replays on an engine of this process, through the scheduler and the library that a server would use.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <unordered_set>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "lab/replay.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "store/open.hpp"
#include "text/conversation.hpp"
#include "text/prompt.hpp"

namespace kvasir::lab {
namespace {

class Waiter final : public run::Listener {
 public:
  void pieces(std::span<const run::Piece> pieces) override {
    for (const run::Piece& p : pieces) {
      if (p.token.id >= 0) tokens_.push_back(p.token);
      text_ += p.text;
    }
  }
  void done(const run::Outcome& outcome) override {
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
  std::vector<run::TokenRecord> tokens_;
  std::string text_;
  run::Outcome outcome_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

class EngineTarget final : public ReplayTarget {
 public:
  EngineTarget(const run::EngineOptions& engine, const ReplayOptions& options) : options_(options) {
    engine_ = std::make_unique<run::Engine>(engine, run::Engine::Needs{});
    if (!engine_->tokenizer())
      throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", engine.model);
    if (options_.tiers.empty()) options_.tiers = {"ram:?size=1GiB"};
    make_encoder();
    reopen();
  }

  // The tiers' contents survive as far as they are made to.
  void reopen() override {
    scheduler_.reset();
    library_.reset();
    std::vector<std::shared_ptr<store::Tier>> tiers;
    for (const std::string& spec : options_.tiers) tiers.push_back(store::open_tier(spec));
    library_ = std::make_unique<store::Library>(engine_->cache(), store::fingerprint_of(run::describe_cache(*engine_)),
                                                std::move(tiers));
    scheduler_ =
        std::make_unique<run::Scheduler>(*engine_, run::SchedulerOptions{.running = 1}, "replay", library_.get());
  }

  std::optional<ReplayAnswer> ask(const Conversation& history, int turn, bool reuse) override {
    const std::vector<std::int32_t> prompt = encode_(history);
    if (static_cast<std::int64_t>(prompt.size()) + options_.max_tokens >= engine_->context()) return std::nullopt;
    if (turn == 1 && reuse) before_.clear();
    const auto answer = run(prompt, reuse);
    const run::Receipt& receipt = answer->outcome_.receipt;
    ReplayAnswer out{.text = answer->text_,
                     .ttft = receipt.queue_seconds + receipt.prefill_seconds,
                     .seconds = receipt.queue_seconds + receipt.prefill_seconds + answer->outcome_.decode_seconds,
                     .prompt_tokens = static_cast<std::int64_t>(prompt.size()),
                     .reused_tokens = receipt.reused_tokens,
                     .reusable_tokens = reusable(prompt),
                     .load_seconds = receipt.load_seconds,
                     .loaded_bytes = receipt.loaded_bytes,
                     .prompt_only = !reuses_generated(prompt, receipt.reused_tokens),
                     .has_tokens = true,
                     .tokens = answer->tokens_};
    for (const run::Span& s : receipt.spans) out.tokens_by_source[s.source] += s.end - s.begin;
    if (reuse) {
      before_ = prompt;
      for (const run::TokenRecord& t : answer->tokens_) before_.push_back(t.id);
      remember_generated(before_, prompt.size());
    }
    return out;
  }

 private:
  // The last generated token has no keys and values yet, and the last of the prompt has to be computed.
  std::int64_t reusable(const std::vector<std::int32_t>& prompt) const {
    const std::size_t most = std::min(before_.empty() ? 0 : before_.size() - 1, prompt.size() - 1);
    const auto differ =
        std::mismatch(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(most), before_.begin());
    return differ.first - prompt.begin();
  }

  // Which beginnings ended with a generated token: hashes, so that a token is known by all that stands before it.
  void remember_generated(const std::vector<std::int32_t>& ids, std::size_t prompt) {
    std::uint64_t state = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      state = extended(state, ids[i]);
      if (i >= prompt) generated_.insert(state);
    }
  }
  bool reuses_generated(const std::vector<std::int32_t>& ids, std::int64_t reused) const {
    std::uint64_t state = 0;
    for (std::int64_t i = 0; i < reused; ++i) {
      state = extended(state, ids[static_cast<std::size_t>(i)]);
      if (generated_.contains(state)) return true;
    }
    return false;
  }
  static std::uint64_t extended(std::uint64_t state, std::int32_t id) {
    state += static_cast<std::uint64_t>(id) + 1;
    return splitmix64(state);
  }

  void make_encoder() {
    const text::Tokenizer& t = *engine_->tokenizer();
    const auto source = engine_->model().file().metadata().get_string("tokenizer.chat_template");
    if (!source) {
      encode_ = [&t](const Conversation& c) {
        std::string text;
        for (const Message& m : c) {
          const char* name = m.role == "user" ? "User:" : m.role == "assistant" ? "Assistant:" : "";
          // A generated answer begins with its blank; with a second one it would be other tokens.
          const bool blank = *name && !m.content.starts_with(' ');
          text += std::string(name) + (blank ? " " : "") + m.content + "\n";
        }
        return text::encode_prompt(t, text + "Assistant:", {.add_bos = t.add_bos()});
      };
      return;
    }
    const auto piece = [&](std::int32_t id) { return id >= 0 ? std::string(t.piece(id)) : std::string(); };
    auto chat = std::make_shared<text::ChatTemplate>(*source, piece(t.bos()), piece(t.eos()));
    encode_ = [&t, chat](const Conversation& c) {
      text::Conversation conversation;
      for (const Message& m : c) conversation.messages.push_back({{"role", m.role}, {"content", m.content}});
      return text::encode_prompt(t, chat->prompt(conversation, t.control_names()));
    };
  }

  std::shared_ptr<Waiter> run(const std::vector<std::int32_t>& prompt, bool reuse) {
    run::ServiceRequest r;
    r.request.prompt = prompt;
    r.request.max_tokens = options_.max_tokens;
    r.request.sampling.temperature = 0;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    auto waiter = std::make_shared<Waiter>();
    scheduler_->submit(std::move(r), waiter);
    waiter->wait();
    if (waiter->outcome_.failure != run::Failure::kNone)
      throw Error(Code::kUnsupported, waiter->outcome_.error, "replay");
    return waiter;
  }

  ReplayOptions options_;
  std::unique_ptr<run::Engine> engine_;
  std::unique_ptr<store::Library> library_;
  std::unique_ptr<run::Scheduler> scheduler_;
  // How a conversation becomes a prompt: by the model's chat template, as a server does it, or without one in lines
  // "User: ..." and "Assistant:". What messages hold is text.
  std::function<std::vector<std::int32_t>(const Conversation&)> encode_;
  std::unordered_set<std::uint64_t> generated_;
  std::vector<std::int32_t> before_;  // tokens whose keys and values the turn before left
};

}  // namespace

std::unique_ptr<ReplayTarget> engine_target(const run::EngineOptions& engine, const ReplayOptions& options) {
  return std::make_unique<EngineTarget>(engine, options);
}

}  // namespace kvasir::lab
