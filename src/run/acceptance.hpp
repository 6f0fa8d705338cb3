// How often a drafter's draft tokens come true, by how sure it was. What one text shows counts more than what all show.
#pragma once

#include <array>
#include <cstdint>

namespace kvasir::run {

// A drafted token, and how sure the drafter is of it: a number below kConfidence, its own measure.
struct DraftToken {
  std::int32_t id = 0;
  int confidence = 0;
};
inline constexpr int kConfidence = 8;

class Acceptance {
 public:
  // all: of every text; null: this one is of every text, and begins with `priors`.
  explicit Acceptance(const Acceptance* all) : all_(all) {}
  explicit Acceptance(const std::array<double, kConfidence>& priors) {
    for (std::size_t i = 0; i < kConfidence; ++i) bins_[i] = {kPriorTries * priors[i], kPriorTries};
  }

  // The chance that a draft token is right, if those before it are.
  double chance(int confidence) const {
    const Bin& b = bins_[static_cast<std::size_t>(confidence)];
    if (!all_) return b.right / b.tries;
    return (b.right + kAllTries * all_->chance(confidence)) / (b.tries + kAllTries);
  }
  void learn(int confidence, bool right, double memory = kMemory) {
    Bin& b = bins_[static_cast<std::size_t>(confidence)];
    b.right = b.right * memory + right;
    b.tries = b.tries * memory + 1;
    mean_.right = mean_.right * memory + right;
    mean_.tries = mean_.tries * memory + 1;
  }
  // Of the draft tokens that were checked lately, whatever their confidence; and how many those are, fading.
  double mean(double prior) const { return (mean_.right + kAllTries * prior) / (mean_.tries + kAllTries); }
  double tries() const { return mean_.tries; }

  static constexpr double kMemory = 0.96, kLongMemory = 0.995;  // per draft token

 private:
  static constexpr double kPriorTries = 6, kAllTries = 4;
  struct Bin {
    double right = 0, tries = 0;
  };
  const Acceptance* all_ = nullptr;
  std::array<Bin, kConfidence> bins_{};
  Bin mean_;
};

}  // namespace kvasir::run
