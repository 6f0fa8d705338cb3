#include "serve/roster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/nearest.hpp"
#include "run/pictures.hpp"
#include "serve/chat.hpp"
#include "serve/log.hpp"

namespace kvasir::serve {
namespace {

constexpr double kNoDeadline = 1e18;

void add_counters(run::ServiceStats& to, const run::ServiceStats& from) {
  to.prompt_tokens += from.prompt_tokens, to.reused_tokens += from.reused_tokens;
  to.relocated_tokens += from.relocated_tokens, to.repaired_tokens += from.repaired_tokens;
  to.generated_tokens += from.generated_tokens;
  to.requests += from.requests, to.rejected += from.rejected, to.cancelled += from.cancelled;
  to.failed += from.failed, to.preempted += from.preempted;
  to.pages += from.pages;
}

std::string megabytes(std::int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

struct Roster::Slot {
  Offer offer;
  std::shared_ptr<ModelMemory> memory;  // from the first time that it is loaded
  std::unique_ptr<Resident> resident;
  std::unique_ptr<Context> context;  // with `resident`: it is loaded
  std::int64_t leases = 0;
  double used_at = 0;    // when a request got or returned it
  bool leaving = false;  // it gets no further request before another model has its room
  std::int64_t loads = 0;
};

struct Roster::Lease {
  Roster& roster;
  Slot& slot;
  ~Lease() { roster.give_back(slot); }
};

// Runs nothing: knows the counters of all.
class Roster::Lobby final : public run::Service {
 public:
  explicit Lobby(const Roster& roster) : roster_(roster), card_(roster.slots_.front()->offer.card) {}
  const run::ModelCard& card() const override { return card_; }
  const text::Tokenizer* tokenizer() const override { return nullptr; }
  run::RequestId submit(run::ServiceRequest, std::shared_ptr<run::Listener>) override {
    throw Error(Code::kUnsupported, "is not chosen", "model");
  }
  void cancel(run::RequestId) override {}
  bool unpin(const run::ServiceRequest&) override { return false; }
  bool drain(double) override { return true; }
  run::ServiceStats stats() const override { return roster_.stats(); }

 private:
  const Roster& roster_;
  const run::ModelCard card_;
};

Roster::Roster(Shared& shared, std::vector<Offer> offers, std::int64_t budget) : shared_(shared), budget_(budget) {
  KVASIR_CHECK(!offers.empty());
  for (Offer& offer : offers) slots_.push_back(std::make_unique<Slot>(Slot{.offer = std::move(offer)}));
  service_ = std::make_unique<Lobby>(*this);
  lobby_ = std::make_shared<Context>(std::shared_ptr<Shared>(std::shared_ptr<void>(), &shared_), nullptr, *service_,
                                     nullptr);
  shared_.roster = this;
  thread_ = std::thread([this] { run(); });
}

Roster::~Roster() {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    wake_.notify_all();
    idle_.wait(lock, [&] { return leases_ == 0; });
  }
  thread_.join();
  shared_.roster = nullptr;
}

Roster::Slot& Roster::find(const std::string& name) const {
  if (name.empty()) return *slots_.front();
  for (const auto& slot : slots_)
    if (slot->offer.card.name == name) return *slot;
  constexpr std::string_view kTag = ":latest";  // Ollama's clients put it behind names
  if (name.ends_with(kTag) && name.size() > kTag.size()) return find(name.substr(0, name.size() - kTag.size()));
  if (shared_.options.any_model) return *slots_.front();
  std::vector<std::string> names;
  for (const auto& slot : slots_) names.push_back(slot->offer.card.name);
  throw ApiException({.status = 404,
                      .message = fmt::format("the model '{}' does not exist{}, this server has '{}'", name,
                                             did_you_mean(name, names), fmt::join(names, "', '")),
                      .param = "model",
                      .code = "model_not_found"});
}

std::shared_ptr<Context> Roster::lease(Slot& slot) {
  ++slot.leases, ++leases_;
  slot.used_at = steady_seconds();
  const std::shared_ptr<Lease> held(new Lease{*this, slot});
  return {held, slot.context.get()};
}

void Roster::give_back(Slot& slot) {
  const std::lock_guard lock(mutex_);
  --slot.leases, --leases_;
  slot.used_at = steady_seconds();
  if (slot.leases == 0) wake_.notify_all();
  if (leases_ == 0) idle_.notify_all();
}

void Roster::acquire(const std::string& name, Waiter waiter) {
  std::shared_ptr<Context> got;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = find(name);
    if (slot.context && !slot.leaving) {
      got = lease(slot);
    } else {
      const double limit = shared_.options.queue_timeout;
      waiting_.push_back({&slot, std::move(waiter), limit > 0 ? steady_seconds() + limit : kNoDeadline});
      wake_.notify_all();
      return;
    }
  }
  waiter.ready(std::move(got));
}

std::shared_ptr<Context> Roster::peek(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Slot& slot = find(name);
  return slot.context && !slot.leaving ? lease(slot) : nullptr;
}

std::vector<Roster::Entry> Roster::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  for (const auto& slot : slots_) {
    const Context* const context = slot->context.get();
    Entry& e = all.emplace_back(context ? Entry::of(*context)
                                        : Entry{.card = slot->offer.card,
                                                .chats = !slot->offer.card.chat_template.empty(),
                                                .vision = slot->offer.vision,
                                                .audio = slot->offer.audio});
    e.bytes = slot->offer.bytes;
    e.requests = slot->leases;
    e.loads = slot->loads;
  }
  return all;
}

Roster::Entry Roster::Entry::of(const Context& loaded) {
  return {.card = loaded.service.card(),
          .chats = loaded.chat != nullptr,
          .tools = loaded.chat && loaded.chat->knows_tools(),
          .thinking = loaded.chat && loaded.chat->knows_thinking(),
          .vision = loaded.pictures != nullptr,
          .audio = loaded.pictures && loaded.pictures->hears(),
          .loaded = true};
}

Roster::Entry Roster::entry(const std::string& name) const {
  const std::string& found = find(name).offer.card.name;
  std::vector<Entry> all = list();
  return std::move(*std::find_if(all.begin(), all.end(), [&](const Entry& e) { return e.card.name == found; }));
}

run::ServiceStats Roster::stats() const {
  const std::lock_guard lock(mutex_);
  run::ServiceStats all = retired_;
  all.tiers = tiers_;
  for (const auto& slot : slots_) {
    if (!slot->context) continue;
    const run::ServiceStats s = slot->context->service.stats();
    add_counters(all, s);
    all.running += s.running, all.waiting += s.waiting;
    all.kv_bytes += s.kv_bytes, all.kv_budget += s.kv_budget;
    all.tiers = s.tiers;  // all models have the same
  }
  all.waiting += static_cast<std::int64_t>(waiting_.size());
  return all;
}

void Roster::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (step(lock)) continue;
    double next = kNoDeadline;
    for (const Waiting& w : waiting_) next = std::min(next, w.deadline);
    // Who no longer wants a model does not say so: it is looked for once a second.
    const double seconds = waiting_.empty() ? 60.0 : std::clamp(next - steady_seconds(), 0.001, 1.0);
    wake_.wait_for(lock, std::chrono::duration<double>(seconds));
  }
  const ApiError error{.status = 503,
                       .message = "the server is shutting down",
                       .type = "server_error",
                       .code = "draining",
                       .retry_after = 5};
  for (const auto& slot : slots_) answer(lock, *slot, &error);
}

bool Roster::step(std::unique_lock<std::mutex>& lock) {
  for (const auto& slot : slots_) slot->leaving = false;
  if (drop_late(lock)) return true;
  const auto first = std::find_if(waiting_.begin(), waiting_.end(), [](const Waiting& w) { return !w.slot->context; });
  Slot* const wanted = first == waiting_.end() ? nullptr : first->slot;
  const bool fits = wanted && wanted->offer.bytes <= budget_;
  const std::vector<Slot*> going = fits ? in_the_way_of(*wanted) : std::vector<Slot*>{};
  // Else requests to them that overlap would keep the other model out for ever.
  for (Slot* slot : going) slot->leaving = true;
  const auto here = std::find_if(waiting_.begin(), waiting_.end(),
                                 [](const Waiting& w) { return w.slot->context && !w.slot->leaving; });
  if (here != waiting_.end()) {
    answer(lock, *here->slot, nullptr);
    return true;
  }
  if (!wanted) return false;
  if (!fits) {
    const ApiError error{
        .status = 507,
        .message = fmt::format("the model '{}' needs {}, the memory budget of all models is {}",
                               wanted->offer.card.name, megabytes(wanted->offer.bytes), megabytes(budget_)),
        .type = "server_error",
        .param = "model",
        .code = "model_too_large"};
    answer(lock, *wanted, &error);
    return true;
  }
  if (std::any_of(going.begin(), going.end(), [](const Slot* slot) { return slot->leases > 0; })) return false;
  for (Slot* slot : going) unload(lock, *slot);
  load(lock, *wanted);
  return true;
}

// Answers one request that waited too long, and forgets those that nobody waits for.
bool Roster::drop_late(std::unique_lock<std::mutex>& lock) {
  waiting_.remove_if([](const Waiting& w) { return !w.waiter.wanted(); });
  const auto late = std::find_if(waiting_.begin(), waiting_.end(),
                                 [now = steady_seconds()](const Waiting& w) { return w.deadline <= now; });
  if (late == waiting_.end()) return false;
  const Waiting w = std::move(*late);
  waiting_.erase(late);
  const ApiError error{
      .status = 503,
      .message = fmt::format("the model '{}' found no room in time: it needs {} of a budget of {}, "
                             "which models hold whose requests still run",
                             w.slot->offer.card.name, megabytes(w.slot->offer.bytes), megabytes(budget_)),
      .type = "server_error",
      .param = "model",
      .code = "queue_timeout",
      .retry_after = 5};
  lock.unlock();
  w.waiter.failed(error);
  lock.lock();
  return true;
}

// What has to go before `wanted` fits: those first that no request holds, and of these the least recently used.
std::vector<Roster::Slot*> Roster::in_the_way_of(const Slot& wanted) const {
  std::vector<Slot*> loaded;
  for (const auto& slot : slots_)
    if (slot->context) loaded.push_back(slot.get());
  std::stable_sort(loaded.begin(), loaded.end(), [](const Slot* a, const Slot* b) {
    return std::pair(a->leases > 0, a->used_at) < std::pair(b->leases > 0, b->used_at);
  });
  std::int64_t room = budget_ - used_;
  std::size_t count = 0;
  for (; room < wanted.offer.bytes && count < loaded.size(); ++count) room += loaded[count]->offer.bytes;
  loaded.resize(count);
  return loaded;
}

void Roster::unload(std::unique_lock<std::mutex>& lock, Slot& slot) {
  const run::ServiceStats last = slot.context->service.stats();
  add_counters(retired_, last);
  tiers_ = last.tiers;
  const std::unique_ptr<Context> context = std::move(slot.context);
  std::unique_ptr<Resident> resident = std::move(slot.resident);
  slot.leaving = false;
  lock.unlock();
  resident.reset();
  shared_.log("unloaded model=" + log_value(slot.offer.card.name));
  lock.lock();
  used_ -= slot.offer.bytes;
}

void Roster::load(std::unique_lock<std::mutex>& lock, Slot& slot) {
  const std::string name = log_value(slot.offer.card.name);
  used_ += slot.offer.bytes;
  lock.unlock();
  std::unique_ptr<Resident> resident;
  std::unique_ptr<Context> context;
  std::shared_ptr<ModelMemory> memory = slot.memory;  // this thread's
  std::optional<ApiError> error;
  const auto fail = [&](const std::string& to_client, const std::string& what) {
    error = {.status = 500,
             .message = fmt::format("the model '{}' cannot be loaded: {}", slot.offer.card.name, to_client),
             .type = "server_error",
             .param = "model",
             .code = "model_not_loaded"};
    shared_.log(fmt::format("error model={} what={}", name, log_value(what)));
  };
  shared_.log(fmt::format("loading model={} bytes={}", name, slot.offer.bytes));
  const double start = steady_seconds();
  try {
    resident = slot.offer.load();
    if (!memory) memory = std::make_shared<ModelMemory>(shared_.options, resident->service().card());
    context = std::make_unique<Context>(std::shared_ptr<Shared>(std::shared_ptr<void>(), &shared_), memory,
                                        resident->service(), resident->chat(), resident->pictures());
    shared_.log(fmt::format("loaded model={} seconds={:.3f}", name, steady_seconds() - start));
  } catch (const Error& e) {
    fail(e.message(), e.what());  // its context may be a path, which is the operator's
  } catch (const std::bad_alloc&) {
    fail("out of memory", "out of memory");
  } catch (const std::exception& e) {
    fail("internal error", e.what());
  }
  if (error) context.reset(), resident.reset();
  lock.lock();
  if (error) {
    used_ -= slot.offer.bytes;
  } else {
    slot.memory = std::move(memory);
    slot.resident = std::move(resident);
    slot.context = std::move(context);
    slot.used_at = steady_seconds();
    ++slot.loads;
  }
  answer(lock, slot, error ? &*error : nullptr);
}

// All that wait for the slot: with the model, or with the error.
void Roster::answer(std::unique_lock<std::mutex>& lock, Slot& slot, const ApiError* error) {
  std::vector<std::pair<Waiter, std::shared_ptr<Context>>> all;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->slot != &slot) {
      ++it;
      continue;
    }
    all.emplace_back(std::move(it->waiter), error ? nullptr : lease(slot));
    it = waiting_.erase(it);
  }
  lock.unlock();
  for (auto& [waiter, context] : all) error ? waiter.failed(*error) : waiter.ready(std::move(context));
  all.clear();
  lock.lock();
}

}  // namespace kvasir::serve
