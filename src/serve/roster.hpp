// Several models behind one server, by name. A model is loaded when the first request for it comes, within one budget
// of memory: when another one needs room, loaded models that no request uses are unloaded, the least recently used one
// first. A request holds its model until its answer is complete.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/context.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

// A loaded model.
class Resident {
 public:
  virtual ~Resident() = default;  // no request runs any more
  virtual run::Service& service() = 0;
  virtual const ChatFormat* chat() const = 0;            // null: no chats
  virtual run::Pictures* pictures() { return nullptr; }  // null: it reads none
};

// A model that may be asked for.
struct Offer {
  run::ModelCard card;                              // as its file says without being loaded; the names of all differ
  std::int64_t bytes = 0;                           // that it takes while it is loaded
  bool vision = false, audio = false;               // it reads pictures, sounds
  std::function<std::unique_ptr<Resident>()> load;  // Throws Error
};

class Roster {
 public:
  // `shared` outlives this and gets to know it. The first offer is what requests get that name no model.
  // REQUIRES: offers.
  Roster(Shared& shared, std::vector<Offer> offers, std::int64_t budget);
  ~Roster();  // waits until no request holds a model
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // Whoever waits for a model. One of the two is called, once, on any thread; `wanted` is asked before a model is
  // loaded for it: false when nobody waits any more, and then neither is called.
  struct Waiter {
    std::function<void(std::shared_ptr<Context>)> ready;
    std::function<void(const ApiError&)> failed;
    std::function<bool()> wanted;
  };
  // The model is kept for as long as somebody has the context. Fails where the model alone is larger than the budget
  // (507), where it cannot be loaded (500), and where it found no room within options.queue_timeout (503).
  // Throws ApiException(404) for a name that is none of theirs; with options.any_model these mean the first.
  // `name` empty: the first.
  void acquire(const std::string& name, Waiter waiter);
  // The same for a model that is loaded already; null when it is not.
  std::shared_ptr<Context> peek(const std::string& name);

  struct Entry {
    run::ModelCard card;
    bool chats = false;                    // it has a chat template
    bool tools = false, thinking = false;  // which knows these; false of a model that is not loaded
    bool vision = false;                   // it reads pictures, or will when it is loaded
    bool audio = false;                    // and sounds
    std::int64_t bytes = 0;
    bool loaded = false;
    std::int64_t requests = 0;  // that hold it
    std::int64_t loads = 0;     // since the start

    static Entry of(const Context& loaded);  // without what the roster alone knows
  };
  std::vector<Entry> list() const;
  Entry entry(const std::string& name) const;  // throws as acquire
  std::int64_t budget() const { return budget_; }

  // Of all models together; counters go on when a model is unloaded.
  run::ServiceStats stats() const;
  // The context of requests to no model.
  const std::shared_ptr<Context>& lobby() const { return lobby_; }

 private:
  struct Slot;
  struct Lease;
  struct Waiting {
    Slot* slot;
    Waiter waiter;
    double deadline;  // steady_seconds
  };
  class Lobby;

  Slot& find(const std::string& name) const;
  std::shared_ptr<Context> lease(Slot& slot);  // REQUIRES: locked, loaded
  void give_back(Slot& slot);
  void run();
  bool step(std::unique_lock<std::mutex>& lock);  // false: there is nothing to do but to wait
  bool drop_late(std::unique_lock<std::mutex>& lock);
  std::vector<Slot*> in_the_way_of(const Slot& wanted) const;
  void unload(std::unique_lock<std::mutex>& lock, Slot& slot);
  void load(std::unique_lock<std::mutex>& lock, Slot& slot);
  void answer(std::unique_lock<std::mutex>& lock, Slot& slot, const ApiError* error);

  Shared& shared_;
  const std::int64_t budget_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<std::unique_ptr<Slot>> slots_;  // in the order of the offers
  std::list<Waiting> waiting_;
  std::int64_t used_ = 0;  // bytes of loaded models
  std::int64_t leases_ = 0;
  bool stop_ = false;
  run::ServiceStats retired_;  // counters of what was unloaded
  std::vector<run::TierStats> tiers_;
  std::unique_ptr<Lobby> service_;
  std::shared_ptr<Context> lobby_;
  std::thread thread_;  // loads and unloads
};

}  // namespace kvasir::serve
