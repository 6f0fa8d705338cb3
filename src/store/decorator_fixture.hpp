// A backend that passes everything on: the base of those that tests put around another one.
#pragma once

#include <utility>

#include "store/backend.hpp"

namespace kvasir::store {

class Decorator : public Backend {
 public:
  explicit Decorator(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  Traits traits() const override { return inner_->traits(); }
  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override {
    return inner_->get(keys, deadline, answers);
  }
  Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) override {
    return inner_->contains(keys, deadline, outcomes);
  }
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override {
    return inner_->put(offers, deadline, outcomes);
  }
  Status erase(std::span<const Key> keys, Deadline deadline) override { return inner_->erase(keys, deadline); }
  Status touch(std::span<const Key> keys, Deadline deadline) override { return inner_->touch(keys, deadline); }
  Status clear(Deadline deadline) override { return inner_->clear(deadline); }
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline) override {
    return inner_->list(each, deadline);
  }
  Status list_ages(FunctionRef<bool(const Listed&)> each, Deadline deadline) override {
    return inner_->list_ages(each, deadline);
  }
  Status scan(FunctionRef<bool(const Seen&)> each, Deadline deadline) override { return inner_->scan(each, deadline); }
  Status pin(std::span<const Key> keys, Clock::time_point until) override { return inner_->pin(keys, until); }
  Status unpin(std::span<const Key> keys) override { return inner_->unpin(keys); }
  Usage usage() override { return inner_->usage(); }
  Status sync(Deadline deadline) override { return inner_->sync(deadline); }

 protected:
  Backend& inner() { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace kvasir::store
