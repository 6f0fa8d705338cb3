// Rows that take time to compute, such as a picture's, on a thread beside the engine's. What is wanted is computed in
// the order in which it was asked for, once, however many want it; what nobody wants any more is given up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "model/rows.hpp"

namespace kvasir::run {

class RowLoader {
 public:
  // `changed` is called on the loader's thread when some of the work is done, or all of a block.
  explicit RowLoader(std::function<void()> changed) : changed_(std::move(changed)) {}
  ~RowLoader();  // gives up what is being computed
  RowLoader(const RowLoader&) = delete;
  RowLoader& operator=(const RowLoader&) = delete;

  using Block = std::shared_ptr<const model::RowBlock>;
  // Every want() has its drop(), ready or not. The first one starts the thread: throws Error(kMemory).
  void want(const Block& block);
  void drop(const Block& block);

  struct State {
    std::int64_t done = 0, all = 0;  // parts of the work; all is 0 while it waits
    std::string error;               // why it failed; it is tried again when nobody wanted it for a while
  };
  // REQUIRES: it is wanted.
  State state(const Block& block) const;

  bool busy() const { return busy_; }  // something is being computed
  // Whether the model computes steps at the same time.
  void beside_steps(bool on) { beside_steps_ = on; }

 private:
  struct Entry {
    Block block;
    int wants = 0;
    bool over = false;
    State state;
  };
  class Watch;

  void work();
  void load(Entry& entry, std::unique_lock<std::mutex>& lock);
  std::list<Entry>::iterator find(const Block& block);

  const std::function<void()> changed_;
  std::atomic<bool> busy_{false}, beside_steps_{false};
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::list<Entry> entries_;  // in the order in which they were asked for
  Entry* current_ = nullptr;  // being computed; stays among the entries until that ends
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kvasir::run
