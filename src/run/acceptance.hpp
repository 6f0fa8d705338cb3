// How often a drafter's guesses come true, by how sure it was. What one text shows counts more than what all show.
#pragma once

#include <array>
#include <cstdint>

namespace kvasir::run {

// A drafted token, and how sure the drafter is of it: a number below kSureness, its own measure.
struct Guess {
  std::int32_t id = 0;
  int sureness = 0;
};
inline constexpr int kSureness = 8;

class Acceptance {
 public:
  // all: of every text; null: this one is of every text, and begins with `priors`.
  explicit Acceptance(const Acceptance* all) : all_(all) {}
  explicit Acceptance(const std::array<double, kSureness>& priors) {
    for (std::size_t i = 0; i < kSureness; ++i) bins_[i] = {kPriorTries * priors[i], kPriorTries};
  }

  // The chance that a guess is right, if those before it are.
  double chance(int sureness) const {
    const Bin& b = bins_[static_cast<std::size_t>(sureness)];
    if (!all_) return b.right / b.tries;
    return (b.right + kAllTries * all_->chance(sureness)) / (b.tries + kAllTries);
  }
  void learn(int sureness, bool right, double memory = kMemory) {
    Bin& b = bins_[static_cast<std::size_t>(sureness)];
    b.right = b.right * memory + right;
    b.tries = b.tries * memory + 1;
    mean_.right = mean_.right * memory + right;
    mean_.tries = mean_.tries * memory + 1;
  }
  // Of the guesses that were checked lately, whatever their sureness; and how many those are, fading.
  double mean(double prior) const { return (mean_.right + kAllTries * prior) / (mean_.tries + kAllTries); }
  double tries() const { return mean_.tries; }

  static constexpr double kMemory = 0.96, kLongMemory = 0.995;  // per guess

 private:
  static constexpr double kPriorTries = 6, kAllTries = 4;
  struct Bin {
    double right = 0, tries = 0;
  };
  const Acceptance* all_ = nullptr;
  std::array<Bin, kSureness> bins_{};
  Bin mean_;
};

}  // namespace kvasir::run
