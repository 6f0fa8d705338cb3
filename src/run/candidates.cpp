#include "run/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "run/softmax.hpp"

namespace kvasir::run {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// gather_mass sorts probabilities into classes of logit distance to the best: 1/16 wide, the last one open.
constexpr int kBuckets = 512;
constexpr float kBucketsPerUnit = 16;

// Sorting so few costs less than what the order saves later.
constexpr std::size_t kSortedAtMost = 1024;

bool any_above(const float* x, float floor) {
  int any = 0;
  for (int j = 0; j < 16; ++j) any |= x[j] > floor;
  return any != 0;
}

}  // namespace

Candidates::Candidates(std::int32_t vocab)
    : vocab_(vocab),
      items_(std::make_unique_for_overwrite<Candidate[]>(static_cast<std::size_t>(vocab))),
      mass_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(vocab))),
      bucket_(std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(vocab))) {}

void Candidates::start(std::span<float> logits) {
  KVASIR_CHECK(logits.size() == static_cast<std::size_t>(vocab_));
  logits_ = logits;
  dense_ = true;
  sorted_ = false;
  size_ = 0;
}

std::span<Candidate> Candidates::list() {
  if (dense_) {
    dense_ = false;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      items_[size_] = {static_cast<std::int32_t>(i), logits_[i]};  // room for it: size_ <= i
      size_ += logits_[i] > kLowest;
    }
  }
  return {items_.get(), size_};
}

Candidate Candidates::best() const {
  if (dense_) {
    const float max = largest(logits_);
    if (max == kLowest) return {};
    const auto at = std::find(logits_.begin(), logits_.end(), max) - logits_.begin();
    return {static_cast<std::int32_t>(at), max};
  }
  if (size_ == 0) return {};
  return sorted_ ? items_[0] : *std::min_element(items_.get(), items_.get() + size_, ranks_before);
}

void Candidates::sort_list() {
  if (!sorted_) std::sort(items_.get(), items_.get() + size_, ranks_before);
  sorted_ = true;
}

void Candidates::keep_best(std::int64_t k) {
  KVASIR_CHECK(k >= 1);
  const std::size_t keep = static_cast<std::size_t>(std::min<std::int64_t>(k, vocab_));
  Candidate* items = items_.get();
  if (dense_ && keep <= logits_.size() / 4) {
    // One pass with a rising floor: collect what is above it, and each time the room is full keep the best k of it. A
    // collected block costs O(room) for at least room - k tokens passed, so the worst case is linear too. Later tokens
    // that equal the floor have higher ids and lose, so "above" is right.
    const std::size_t room = std::min(logits_.size(), std::max<std::size_t>(4 * keep, 512));
    float floor = kLowest;
    const auto shrink = [&] {
      std::nth_element(items, items + (keep - 1), items + size_, ranks_before);
      size_ = keep;
      floor = items[keep - 1].logit;
    };
    const auto offer = [&](std::size_t i) {
      if (!(logits_[i] > floor)) return;
      items[size_++] = {static_cast<std::int32_t>(i), logits_[i]};
      if (size_ == room && size_ > keep) shrink();
    };
    std::size_t i = 0;
    for (; i + 16 <= logits_.size(); i += 16)
      if (any_above(logits_.data() + i, floor))
        for (std::size_t j = 0; j < 16; ++j) offer(i + j);
    for (; i < logits_.size(); ++i) offer(i);
    dense_ = false;
  } else {
    list();
  }
  if (size_ > keep && !sorted_) std::nth_element(items, items + (keep - 1), items + size_, ranks_before);
  size_ = std::min(size_, keep);
  if (size_ <= kSortedAtMost) sort_list();
}

void Candidates::keep_from(double floor) {
  const Candidate first = best();
  if (dense_) {
    dense_ = false;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      items_[size_] = {static_cast<std::int32_t>(i), logits_[i]};
      size_ += logits_[i] > kLowest && logits_[i] >= floor;
    }
  } else {
    const auto end =
        std::remove_if(items_.get(), items_.get() + size_, [&](const Candidate& c) { return !(c.logit >= floor); });
    size_ = static_cast<std::size_t>(end - items_.get());
  }
  if (size_ == 0 && first.id >= 0) items_[size_++] = first;
}

void Candidates::keep_mass(double p) {
  if (p <= 0) return keep_best(1);
  if (dense_) return gather_mass(p);
  if (size_ == 0) return;
  const float max = best().logit;
  double total = 0;
  for (std::size_t i = 0; i < size_; ++i) total += std::exp(static_cast<double>(items_[i].logit) - max);
  size_ = cut_at(0, size_, p * total, max);
}

// Finds, by classes of logit distance, the class in which the cumulative probability passes p; takes all before it, and
// only the tokens of that class need an order.
void Candidates::gather_mass(double p) {
  const float max = largest(logits_);
  const std::size_t n = logits_.size();
  float* mass = mass_.get();
  std::int32_t* bucket = bucket_.get();
  const float* logits = logits_.data();
  for (std::size_t i = 0; i < n; ++i) {
    const float below = logits[i] - max;  // <= 0, or NaN, or -inf
    mass[i] = exp_nonpositive(below);
    const float at = below * -kBucketsPerUnit;
    bucket[i] = static_cast<std::int32_t>(at < kBuckets - 1 ? at : kBuckets - 1);
  }
  double lanes[4][kBuckets] = {};  // four, because neighbours of one class would wait for each other
  for (std::size_t i = 0; i < n; ++i) lanes[i % 4][bucket[i]] += mass[i];
  double total = 0;
  for (int b = 0; b < kBuckets; ++b) {
    lanes[0][b] += lanes[1][b] + lanes[2][b] + lanes[3][b];
    total += lanes[0][b];
  }
  const double wanted = p * total;
  double before = 0;  // mass of the classes ahead of `last`
  int last = 0;
  while (last < kBuckets - 1 && before + lanes[0][last] < wanted) before += lanes[0][last++];

  for (std::size_t i = 0; i < n; ++i) {
    items_[size_] = {static_cast<std::int32_t>(i), logits[i]};
    size_ += bucket[i] < last;
  }
  const std::size_t sure = size_;
  for (std::size_t i = 0; i < n && size_ < n; ++i) {
    items_[size_] = {static_cast<std::int32_t>(i), logits[i]};
    size_ += bucket[i] == last && logits[i] > kLowest;
  }
  dense_ = false;
  size_ = cut_at(sure, size_, wanted - before, max);
}

// Orders [begin, end) as far as needed and returns the end of the shortest first-ranking part whose sum of exp(logit -
// max) is at least `mass`; at least one candidate of [0, end) is kept. Bisection by nth_element: O(end - begin).
std::size_t Candidates::cut_at(std::size_t begin, std::size_t end, double mass, float max) {
  Candidate* items = items_.get();
  const auto weight = [max](const Candidate& c) { return std::exp(static_cast<double>(c.logit) - max); };
  while (!sorted_ && end - begin > 64) {
    const std::size_t middle = begin + (end - begin) / 2;
    std::nth_element(items + begin, items + middle, items + end, ranks_before);
    double first_half = 0;
    for (std::size_t i = begin; i < middle; ++i) first_half += weight(items[i]);
    if (first_half >= mass) {
      end = middle;
    } else {
      mass -= first_half;
      begin = middle;
    }
  }
  if (!sorted_) std::sort(items + begin, items + end, ranks_before);
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) {
    sum += weight(items[i]);
    if (sum >= mass) return i + 1;
  }
  return end;
}

}  // namespace kvasir::run
