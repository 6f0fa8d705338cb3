// The tokens that may still be chosen. Sampling stages narrow it down and change its logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace kvasir::run {

struct Candidate {
  std::int32_t id = -1;
  float logit = 0;
};

// The order of rank: higher logit first, lower id among equals. A total order on candidates (no NaN among them).
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Starts dense (the logits of the whole vocabulary, indexed by id) and becomes a list with the first operation that
// removes tokens. A token whose logit is NaN or -inf is never in the list. All memory is reserved by the constructor,
// 16 bytes per token of the vocabulary, and mostly left untouched by the usual settings.
class Candidates {
 public:
  explicit Candidates(std::int32_t vocab);

  // A new step. `logits` (vocab) is worked on in place and must outlive the step.
  void start(std::span<float> logits);

  bool dense() const { return dense_; }
  std::span<float> logits() { return logits_; }  // REQUIRES: dense()

  // The list; makes it (in id order) when dense. Changing logits is allowed if the order of rank stays.
  std::span<Candidate> list();

  // The candidate that ranks first; id -1 when there is none.
  Candidate best() const;

  // Keeps the k that rank first, in no particular order. O(n) whatever the input. REQUIRES: k >= 1.
  void keep_best(std::int64_t k);

  // Keeps the shortest run of first-ranking candidates whose probabilities (softmax over the present candidates) sum to
  // at least p, at least one. O(n); does not sort more than it needs. REQUIRES: best().logit finite.
  void keep_mass(double p);

  // Keeps those with logit >= floor, and in any case the best.
  void keep_from(double floor);

 private:
  void gather_mass(double p);
  std::size_t cut_at(std::size_t begin, std::size_t end, double mass, float max);
  void sort_list();

  std::int32_t vocab_;
  std::span<float> logits_;
  bool dense_ = false;
  bool sorted_ = false;
  std::size_t size_ = 0;
  std::unique_ptr<Candidate[]> items_;      // (vocab), first size_ used
  std::unique_ptr<float[]> mass_;           // (vocab), scratch of gather_mass
  std::unique_ptr<std::int32_t[]> bucket_;  // (vocab), scratch of gather_mass
};

}  // namespace kvasir::run
