#include "run/constraint.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.hpp"

namespace kvasir::run {
namespace {

constexpr std::size_t kMostMasks = 256;  // 16 KiB each with 128K tokens
// What the mask of one place may cost to work out, tens of milliseconds. Then only tokens of one byte are looked at:
// the answer still conforms, in more tokens, and who sends such a grammar does not hold up the others for long.
constexpr std::uint64_t kMostWork = 1 << 17;

}  // namespace

TokenOrder::TokenOrder(const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_eog(id)) {
      ends_.push_back(id);
    } else if (!tokenizer.is_control(id) && !tokenizer.piece(id).empty()) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    const auto x = tokenizer.piece(a), y = tokenizer.piece(b);
    return x != y ? x < y : a < b;
  });
  std::string_view before;
  for (const std::int32_t id : ids) {
    const std::string_view piece = tokenizer.piece(id);
    const auto common = std::mismatch(before.begin(), before.end(), piece.begin(), piece.end()).first - before.begin();
    tokens_.push_back({id, static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(piece.size()),
                       static_cast<std::uint32_t>(common)});
    bytes_ += piece;
    before = piece;
  }
}

Constraint::Constraint(std::shared_ptr<const text::Grammar> grammar, std::shared_ptr<const TokenOrder> order,
                       std::int32_t vocabulary)
    : order_(std::move(order)), matcher_(std::move(grammar)), vocabulary_(vocabulary), state_(matcher_.start()) {}

Constraint::Mask Constraint::allowed(State at) {
  using text::Matcher;
  Mask mask((static_cast<std::size_t>(vocabulary_) + 63) / 64);
  const auto allow = [&](std::int32_t id) {
    if (id < vocabulary_) mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << id % 64;
  };
  std::vector<Matcher::State> path = {at};  // after each byte of the token looked at last, as far as there are states
  const std::uint64_t before = matcher_.work();
  bool long_ones = true;
  for (const TokenOrder::Token& t : order_->tokens()) {
    long_ones = long_ones && matcher_.work() - before < kMostWork;
    if (!long_ones) {
      if (t.size == 1 && matcher_.next(at, static_cast<std::uint8_t>(order_->bytes()[t.begin])) != Matcher::kDead)
        allow(t.id);
      continue;
    }
    if (path.size() > t.common + 1) path.resize(t.common + 1);
    if (path.size() < t.common + 1) continue;  // a byte that it shares with one that is forbidden
    while (path.size() <= t.size) {
      const auto byte = static_cast<std::uint8_t>(order_->bytes()[t.begin + path.size() - 1]);
      const Matcher::State next = matcher_.next(path.back(), byte);
      if (next == Matcher::kDead) break;
      path.push_back(next);
    }
    if (path.size() == t.size + 1) allow(t.id);
  }
  for (const auto& [id, name] : controls_) {
    Matcher::State state = at;
    for (std::size_t i = 0; i < name.size() && state != Matcher::kDead; ++i)
      state = matcher_.next(state, static_cast<std::uint8_t>(name[i]));
    if (state != Matcher::kDead) allow(id);
  }
  if (matcher_.accepts(at))
    for (const std::int32_t id : order_->ends()) allow(id);
  return mask;
}

void Constraint::mask(std::span<float> logits) { mask_at(state_, logits); }

void Constraint::mask_at(State state, std::span<float> logits) {
  KVASIR_CHECK(logits.size() == static_cast<std::size_t>(vocabulary_));
  auto found = masks_.find(state);
  if (found == masks_.end()) {
    if (masks_.size() >= kMostMasks) masks_.clear();
    found = masks_.emplace(state, allowed(state)).first;
  }
  for (std::size_t i = 0; i < logits.size(); i += 64) {
    std::uint64_t forbidden = ~found->second[i / 64];
    if (logits.size() - i < 64) forbidden &= (std::uint64_t{1} << (logits.size() - i)) - 1;
    for (; forbidden != 0; forbidden &= forbidden - 1)
      logits[i + static_cast<std::size_t>(std::countr_zero(forbidden))] = -std::numeric_limits<float>::infinity();
  }
}

Constraint::State Constraint::after(State state, std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size() && state != text::Matcher::kDead; ++i)
    state = matcher_.next(state, static_cast<std::uint8_t>(bytes[i]));
  return state;
}

void Constraint::accept(std::string_view bytes) {
  for (const char c : bytes) {
    state_ = matcher_.next(state_, static_cast<std::uint8_t>(c));
    KVASIR_CHECK(state_ != text::Matcher::kDead);
  }
  if (matcher_.states() <= kMostStates) return;
  state_ = matcher_.compact(state_);
  masks_.clear();
}

}  // namespace kvasir::run
