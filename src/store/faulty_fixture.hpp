// What the world does to a backend, on purpose and repeatably: delays, failures, bit flips, lost writes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/splitmix.hpp"
#include "store/decorator_fixture.hpp"

namespace kvasir::store {

// Probabilities from 0 to 1. The same seed and the same sequence of calls give the same faults.
struct Faults {
  std::uint64_t seed = 1;
  Clock::duration delay{};  // of every call that reads or writes, never beyond its deadline
  double fail = 0;          // a call does nothing and says so
  double flip = 0;          // one bit of a found record is another
  double drop = 0;          // a put record is said to be stored and is not
};

// What was asked, and faults that were made so far.
struct FaultCount {
  std::atomic<std::uint64_t> gets{0}, put{0};  // calls, records
  std::atomic<std::uint64_t> failed{0}, flipped{0}, dropped{0};
};

class Faulty : public Decorator {
 public:
  Faulty(std::unique_ptr<Backend> inner, const Faults& faults, std::shared_ptr<FaultCount> count)
      : Decorator(std::move(inner)), faults_(faults), count_(std::move(count)), state_(faults.seed) {}

  Traits traits() const override {
    Traits t = Decorator::traits();
    if (faults_.delay > Clock::duration::zero()) t.immediate = false;
    return t;
  }
  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override {
    ++count_->gets;
    if (Status s = begin(deadline); !s.ok()) {
      std::fill(answers.begin(), answers.end(), Answer{Outcome::kFailed, {}});
      return s;
    }
    Status status = Decorator::get(keys, deadline, answers);
    for (Answer& a : answers)
      if (a.outcome == Outcome::kFound && !a.bytes.bytes.empty() && happens(faults_.flip)) a.bytes = flipped(a.bytes);
    return status;
  }
  Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) override {
    if (Status s = begin(deadline); !s.ok()) {
      std::fill(outcomes.begin(), outcomes.end(), Outcome::kFailed);
      return s;
    }
    return Decorator::contains(keys, deadline, outcomes);
  }
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override {
    count_->put += offers.size();
    if (Status s = begin(deadline); !s.ok()) {
      std::fill(outcomes.begin(), outcomes.end(), PutOutcome::kFailed);
      return s;
    }
    Status status;
    for (std::size_t i = 0; i < offers.size(); ++i) {
      if (happens(faults_.drop)) {
        ++count_->dropped;
        outcomes[i] = PutOutcome::kStored;
      } else if (Status s = Decorator::put(offers.subspan(i, 1), deadline, outcomes.subspan(i, 1)); !s.ok()) {
        status = std::move(s);
      }
    }
    return status;
  }
  Status erase(std::span<const Key> keys, Deadline deadline) override {
    Status s = begin(deadline);
    return s.ok() ? Decorator::erase(keys, deadline) : s;
  }
  Status touch(std::span<const Key> keys, Deadline deadline) override {
    Status s = begin(deadline);
    return s.ok() ? Decorator::touch(keys, deadline) : s;
  }

 private:
  std::uint64_t draw() {
    const std::lock_guard lock(mutex_);
    return splitmix64(state_);
  }
  bool happens(double probability) {
    return probability > 0 && static_cast<double>(draw() >> 11) * 0x1p-53 < probability;
  }
  Status begin(Deadline deadline) {
    if (faults_.delay > Clock::duration::zero()) {
      std::this_thread::sleep_until(std::min(deadline, within(faults_.delay)));
      if (Clock::now() >= deadline) return {"injected: too slow"};
    }
    if (!happens(faults_.fail)) return {};
    ++count_->failed;
    return {"injected failure"};
  }
  SharedBytes flipped(const SharedBytes& bytes) {
    ++count_->flipped;
    auto block = allocate_block(bytes.bytes.size());
    std::copy(bytes.bytes.begin(), bytes.bytes.end(), block.get());
    const std::uint64_t bit = draw() % (bytes.bytes.size() * 8);
    block.get()[bit / 8] ^= std::byte{1} << (bit % 8);
    const std::span<const std::byte> view(block.get(), bytes.bytes.size());
    return {std::move(block), view, true};
  }

  const Faults faults_;
  const std::shared_ptr<FaultCount> count_;
  std::mutex mutex_;
  std::uint64_t state_;
};

inline std::unique_ptr<Backend> faulty(std::unique_ptr<Backend> inner, const Faults& faults,
                                       std::shared_ptr<FaultCount> count = std::make_shared<FaultCount>()) {
  return std::make_unique<Faulty>(std::move(inner), faults, std::move(count));
}

}  // namespace kvasir::store
