// Quest (Tang et al. 2024, arXiv:2406.10774, section 3): a page's channel-wise minima and maxima bound every score that
// its keys can have with a query; the pages with the largest bounds are read. Of the query heads of a KV head the one
// that wants a page most decides, each measured by its own best page, so that a head with large scores does not outvote
// the others.
#include <algorithm>
#include <limits>

#include "kv/page.hpp"
#include "kv/selector.hpp"

namespace kvasir::kv::entries::selectors {
namespace {

constexpr std::int64_t kDefaultBudget = 4096;
constexpr int kMostRows = 512;

// float[d] minima, float[d] maxima.
std::size_t summary_bytes(int d) { return 2 * sizeof(float) * static_cast<std::size_t>(d); }

void summarise(int d, const float* keys, int skip, std::byte* to) {
  auto* const low = reinterpret_cast<float*>(to);
  float* const high = low + d;
  for (int c = 0; c < d; ++c) {
    // A page of sinks alone has no keys: no query wants it.
    low[c] = high[c] = skip < kPageTokens ? keys[c * kPageTokens + skip] : 0.0f;
    for (int t = skip + 1; t < kPageTokens; ++t) {
      low[c] = std::min(low[c], keys[c * kPageTokens + t]);
      high[c] = std::max(high[c], keys[c * kPageTokens + t]);
    }
  }
}

float bound(const float* q, const std::byte* summary, int d) {
  const auto* const low = reinterpret_cast<const float*>(summary);
  const float* const high = low + d;
  float sum = 0;
  for (int c = 0; c < d; ++c) sum += std::max(q[c] * low[c], q[c] * high[c]);
  return sum;
}

int select(const Selection& what, std::int32_t* pages) {
  const std::int64_t budget = what.budget > 0 ? what.budget : kDefaultBudget;
  const auto wanted =
      static_cast<std::int32_t>(std::clamp<std::int64_t>((budget + kPageTokens - 1) / kPageTokens, 1, what.pages));
  for (std::int32_t i = 0; i < what.pages; ++i) pages[i] = i;
  if (wanted == what.pages) return wanted;

  const int rows = std::min(what.rows, kMostRows);
  float best[kMostRows];
  std::fill_n(best, rows, -std::numeric_limits<float>::infinity());
  for (int r = 0; r < rows; ++r)
    for (std::int32_t i = 0; i < what.pages; ++i)
      best[r] = std::max(best[r], bound(what.q + static_cast<std::ptrdiff_t>(r) * what.d, what.summaries[i], what.d));
  const auto worth = [&](std::int32_t page) {
    float most = -std::numeric_limits<float>::infinity();
    for (int r = 0; r < rows; ++r)
      most = std::max(most,
                      bound(what.q + static_cast<std::ptrdiff_t>(r) * what.d, what.summaries[page], what.d) - best[r]);
    return most;
  };
  auto* const worths = reinterpret_cast<float*>(what.scratch);
  for (std::int32_t i = 0; i < what.pages; ++i) worths[i] = worth(i);
  // Of pages of equal worth the newer one.
  std::nth_element(pages, pages + wanted - 1, pages + what.pages, [&](std::int32_t a, std::int32_t b) {
    return worths[a] != worths[b] ? worths[a] > worths[b] : a > b;
  });
  std::sort(pages, pages + wanted);
  return wanted;
}

}  // namespace

extern const Selector quest;
const Selector quest = {
    .summary = "pages whose bounds by channel promise the largest scores (Quest)",
    .summary_bytes = summary_bytes,
    .summarise = summarise,
    .scratch_bytes = [](std::int64_t pages) { return static_cast<std::size_t>(pages) * sizeof(float); },
    .select = select};

}  // namespace kvasir::kv::entries::selectors
