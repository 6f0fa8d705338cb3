// A place where records are kept: copy to src/store/tiers/NAME.cpp and rename `skeleton` to NAME.
// Contract: store/backend.hpp. src/store/tiers_test.cpp tests every entry; one that needs a server reads its address
// from KVASIR_TEST_<NAME>. One that needs a library says so: where the one of a line
// "// Library: LIBRARY (HEADER), Debian package PACKAGE." is found, KVASIR_<NAME> is defined here, and
// src/store/NAME/*.cpp are built.
#include <algorithm>
#include <memory>

#include "store/backend.hpp"
#include "store/spec.hpp"

namespace kvasir::store::tiers_skeleton {
namespace {

// Keeps nothing.
class Skeleton : public Backend {
 public:
  Traits traits() const override { return {.immediate = true, .readers = 1}; }
  Status get(std::span<const Key> /*keys*/, Deadline /*deadline*/, std::span<Answer> answers) override {
    std::fill(answers.begin(), answers.end(), Answer{});
    return {};
  }
  Status contains(std::span<const Key> /*keys*/, Deadline /*deadline*/, std::span<Outcome> outcomes) override {
    std::fill(outcomes.begin(), outcomes.end(), Outcome::kAbsent);
    return {};
  }
  Status put(std::span<const Offer> /*offers*/, Deadline /*deadline*/, std::span<PutOutcome> outcomes) override {
    std::fill(outcomes.begin(), outcomes.end(), PutOutcome::kRefused);
    return {};
  }
  Status erase(std::span<const Key> /*keys*/, Deadline /*deadline*/) override { return {}; }
  Status touch(std::span<const Key> /*keys*/, Deadline /*deadline*/) override { return {}; }
  Status clear(Deadline /*deadline*/) override { return {}; }
  Status list(FunctionRef<bool(const Listed&)> /*each*/, Deadline /*deadline*/) override { return {}; }
  Usage usage() override { return {}; }
  Status sync(Deadline /*deadline*/) override { return {}; }
};

std::unique_ptr<Backend> open(Spec& spec) {
  spec.finish();
  return std::make_unique<Skeleton>();
}

}  // namespace

const TierKind entry{.summary = "keeps nothing", .usage = "skeleton:", .place = Place::kNone, .open = open};

}  // namespace kvasir::store::tiers_skeleton
