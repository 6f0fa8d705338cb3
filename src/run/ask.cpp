#include "run/ask.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.hpp"

namespace kvasir::run {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);

class Asker final : public Listener {
 public:
  Asker(const Events& events, bool records) : events_(events), records_(records) {}

  void prefill(std::int64_t done, std::int64_t total, std::int64_t) override {
    if (events_.prefill) events_.prefill(done, total);
  }
  void pieces(std::span<const Piece> pieces) override {
    for (const Piece& p : pieces) {
      if (p.token.id >= 0) {
        reply_.ids.push_back(p.token.id);
        if (records_) reply_.records.push_back(p.token);
      }
      reply_.text += p.text;
      if (events_.text && !p.text.empty()) events_.text(p.text);
    }
  }
  void pooled(std::span<const float> vector) override { reply_.vector.assign(vector.begin(), vector.end()); }
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    reply_.outcome = outcome;
    done_ = true;
    changed_.notify_all();
  }

  // Waits for the end; true: it has come.
  bool wait_a_while() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPoll, [&] { return done_; });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  Answered take() {
    const std::lock_guard lock(mutex_);
    return std::move(reply_);
  }

 private:
  const Events& events_;
  const bool records_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Answered reply_;  // of the service's thread until it is done
};

Code code_of(Failure failure) {
  switch (failure) {
    case Failure::kNoRoom:
    case Failure::kRows:
      return Code::kMemory;
    case Failure::kQueueTimeout:
      return Code::kBusy;
    case Failure::kWeights:
      return Code::kIo;
    case Failure::kNone:
    case Failure::kEngine:
      break;
  }
  return Code::kUnsupported;
}

}  // namespace

Answered ask(Service& service, ServiceRequest request, const Events& events) {
  const auto asker = std::make_shared<Asker>(events, request.request.top_logprobs >= 0);
  const RequestId id = service.submit(std::move(request), asker);
  if (events.cancelled) {
    while (!asker->wait_a_while())
      if (events.cancelled()) {
        service.cancel(id);
        break;
      }
  }
  asker->wait();
  Answered reply = asker->take();
  if (reply.outcome.failure != Failure::kNone)
    throw Error(code_of(reply.outcome.failure), reply.outcome.error, "request");
  return reply;
}

}  // namespace kvasir::run
