#include "run/row_loader.hpp"

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/check.hpp"
#include "base/error.hpp"

namespace kvasir::run {

class RowLoader::Watch final : public model::RowWatch {
 public:
  Watch(RowLoader& loader, Entry& entry) : loader_(loader), entry_(entry) {}
  bool go_on(std::int64_t done, std::int64_t all) override {
    {
      const std::lock_guard lock(loader_.mutex_);
      if (loader_.stop_ || entry_.wants == 0) return false;
      entry_.state.done = done;
      entry_.state.all = all;
    }
    loader_.changed_();
    return true;
  }
  bool beside_steps() const override { return loader_.beside_steps_; }

 private:
  RowLoader& loader_;
  Entry& entry_;
};

RowLoader::~RowLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::list<RowLoader::Entry>::iterator RowLoader::find(const Block& block) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.block == block; });
}

void RowLoader::want(const Block& block) {
  const std::lock_guard lock(mutex_);
  if (const auto known = find(block); known != entries_.end()) {
    ++known->wants;
    return;
  }
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      throw Error(Code::kMemory, std::string("cannot start a thread: ") + e.what(), "rows");
    }
  }
  entries_.push_back({.block = block, .wants = 1, .over = false, .state = {}});
  wake_.notify_all();
}

void RowLoader::drop(const Block& block) {
  const std::lock_guard lock(mutex_);
  const auto known = find(block);
  KVASIR_CHECK(known != entries_.end() && known->wants > 0);
  if (--known->wants == 0 && &*known != current_) entries_.erase(known);
}

RowLoader::State RowLoader::state(const Block& block) const {
  const std::lock_guard lock(mutex_);
  const auto known = const_cast<RowLoader*>(this)->find(block);
  KVASIR_CHECK(known != entries_.end());
  return known->state;
}

void RowLoader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::list<Entry>::iterator next;
    wake_.wait(lock, [&] {
      next = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.over; });
      return stop_ || next != entries_.end();
    });
    if (stop_) return;
    current_ = &*next;
    busy_ = true;
    load(*next, lock);
    current_ = nullptr;
    busy_ = std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.over; });
    if (next->wants == 0) entries_.erase(next);
    lock.unlock();
    changed_();
    lock.lock();
  }
}

// Given up and wanted again meanwhile, it is not over.
void RowLoader::load(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::string error;
  bool given_up = false;
  lock.unlock();
  try {
    Watch watch(*this, entry);
    entry.block->load(watch);
  } catch (const Error& e) {
    given_up = e.code() == Code::kCancelled;
    error = e.what();
  } catch (const std::exception& e) {
    error = e.what();
  }
  lock.lock();
  entry.over = !given_up;
  entry.state.error = given_up ? std::string() : std::move(error);
}

}  // namespace kvasir::run
