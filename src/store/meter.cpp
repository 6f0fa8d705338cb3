#include "store/meter.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "store/decorator.hpp"

namespace kvasir::store {
namespace {

class Metered : public Decorator {
 public:
  Metered(std::unique_ptr<Backend> inner, std::shared_ptr<Meter> meter)
      : Decorator(std::move(inner)), meter_(std::move(meter)) {}

  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override {
    const auto begin = Clock::now();
    Status status = Decorator::get(keys, deadline, answers);
    std::uint64_t bytes = 0;
    for (const Answer& a : answers) bytes += a.bytes.bytes.size();
    return record(Operation::kGet, keys.size(), bytes, begin, std::move(status));
  }
  Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) override {
    const auto begin = Clock::now();
    return record(Operation::kContains, keys.size(), 0, begin, Decorator::contains(keys, deadline, outcomes));
  }
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override {
    const auto begin = Clock::now();
    Status status = Decorator::put(offers, deadline, outcomes);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < offers.size(); ++i)
      if (outcomes[i] == PutOutcome::kStored) bytes += offers[i].record.bytes.size();
    return record(Operation::kPut, offers.size(), bytes, begin, std::move(status));
  }
  Status erase(std::span<const Key> keys, Deadline deadline) override {
    const auto begin = Clock::now();
    return record(Operation::kErase, keys.size(), 0, begin, Decorator::erase(keys, deadline));
  }
  Status touch(std::span<const Key> keys, Deadline deadline) override {
    const auto begin = Clock::now();
    return record(Operation::kTouch, keys.size(), 0, begin, Decorator::touch(keys, deadline));
  }
  Status clear(Deadline deadline) override {
    const auto begin = Clock::now();
    return record(Operation::kClear, 0, 0, begin, Decorator::clear(deadline));
  }
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline) override {
    const auto begin = Clock::now();
    return record(Operation::kList, 0, 0, begin, Decorator::list(each, deadline));
  }
  Status sync(Deadline deadline) override {
    const auto begin = Clock::now();
    return record(Operation::kSync, 0, 0, begin, Decorator::sync(deadline));
  }

 private:
  Status record(Operation operation, std::uint64_t keys, std::uint64_t bytes, Clock::time_point begin, Status status) {
    meter_->record(operation, keys, bytes, status.ok(), Clock::now() - begin);
    return status;
  }

  std::shared_ptr<Meter> meter_;
};

}  // namespace

double OperationReport::percentile(double p) const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    below += times[i];
    if (calls > 0 && static_cast<double>(below) >= p * static_cast<double>(calls))
      return static_cast<double>(std::uint64_t{2} << i) * 1e-6;
  }
  return 0;
}

OperationReport Meter::report(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return reports_[static_cast<std::size_t>(operation)];
}

void Meter::record(Operation operation, std::uint64_t keys, std::uint64_t bytes, bool ok, Clock::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const std::lock_guard lock(mutex_);
  OperationReport& r = reports_[static_cast<std::size_t>(operation)];
  ++r.calls;
  r.keys += keys;
  r.bytes += bytes;
  if (!ok) ++r.failed;
  r.seconds += seconds;
  r.longest = std::max(r.longest, seconds);
  const auto us = static_cast<std::uint64_t>(seconds * 1e6);
  const auto bucket = us < 2 ? 0 : static_cast<std::size_t>(std::bit_width(us)) - 1;
  ++r.times[std::min(bucket, r.times.size() - 1)];
}

std::unique_ptr<Backend> metered(std::unique_ptr<Backend> inner, std::shared_ptr<Meter> meter) {
  return std::make_unique<Metered>(std::move(inner), std::move(meter));
}

}  // namespace kvasir::store
