#include "kv/borrow.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kv/page.hpp"

namespace kvasir::kv {

Borrowed::Borrowed(std::int64_t own, std::span<const BorrowedRun> runs, std::span<const std::int64_t> fresh)
    : at_(fresh.begin(), fresh.end()), places_{own, at_} {
  KVASIR_CHECK(!fresh.empty());
  std::int64_t next = own;  // the first token that nobody was named for
  std::size_t f = 0;
  const auto take_fresh = [&](std::int64_t end) {
    for (; next < end; ++next, ++f) KVASIR_CHECK(f < at_.size() && at_[f] == next);
  };
  for (const BorrowedRun& run : runs) {
    take_fresh(run.begin);
    KVASIR_CHECK(run.begin == next && run.end > run.begin && run.made_at >= 0);
    const std::int64_t shift = run.begin - run.made_at;
    const auto known = std::find(shifts_.begin(), shifts_.end(), shift);
    const auto index = static_cast<int>(known - shifts_.begin());
    if (known == shifts_.end()) shifts_.push_back(shift);
    const std::int64_t first = run.made_at / kPageTokens;
    const std::int64_t last = (run.made_at + run.end - run.begin - 1) / kPageTokens;
    KVASIR_CHECK(static_cast<std::int64_t>(run.slots.size()) == last - first + 1);
    for (std::int64_t i = first; i <= last; ++i) {
      BorrowedPage page{.slot = run.slots[static_cast<std::size_t>(i - first)],
                        .begin = static_cast<int>(std::max<std::int64_t>(0, run.made_at - i * kPageTokens)),
                        .end = 0,
                        .position = i * kPageTokens + shift,
                        .shift = index};
      page.end = static_cast<int>(std::min<std::int64_t>(kPageTokens, run.end - page.position));
      int hidden = 0;
      for (; f < at_.size() && at_[f] < page.position + page.end; ++f, ++hidden) {
        const std::int64_t t = at_[f] - page.position;
        KVASIR_CHECK(t >= page.begin);
        page.hidden[t / 64] |= std::uint64_t{1} << (t % 64);
      }
      page.hides = hidden > 0;
      if (hidden < page.end - page.begin) pages_.push_back(page);
    }
    next = run.end;
  }
  for (; f < at_.size(); ++f, ++next) KVASIR_CHECK(at_[f] == next);
  KVASIR_CHECK(at_.back() == next - 1 && (runs.empty() || at_.back() >= runs.back().end - 1));
}

Borrowed::Borrowed(const Borrowed& other, int)
    : at_(other.at_),
      places_{other.places_.first, at_},
      pages_(other.pages_),
      shifts_(other.shifts_),
      angles_(other.angles_) {}

std::int64_t Borrowed::groups() const {
  return (static_cast<std::int64_t>(pages_.size()) + kGroupPages - 1) / kGroupPages;
}

const Borrowed::Angles* Borrowed::find(const Rotation& rotation) const {
  for (const Angles& a : angles_)
    if (a.rotation.frequencies == rotation.frequencies && a.rotation.pairs == rotation.pairs) return &a;
  return nullptr;
}

void Borrowed::make_angles(const Rotation& rotation) {
  if (find(rotation)) return;
  Angles& a = angles_.emplace_back(Angles{rotation, {}});
  for (const std::int64_t shift : shifts_) {
    const auto add = [&](auto f) {
      for (std::int64_t i = 0; i < rotation.pairs; ++i)
        a.values.push_back(static_cast<float>(f(-static_cast<double>(shift) * rotation.frequencies[i])));
    };
    add([](double angle) { return std::cos(angle); });
    add([](double angle) { return std::sin(angle); });
  }
}

const float* Borrowed::angles(const Rotation& rotation, const BorrowedPage& page) const {
  return find(rotation)->values.data() + 2 * rotation.pairs * page.shift;
}

}  // namespace kvasir::kv
