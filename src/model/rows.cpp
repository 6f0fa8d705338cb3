#include "model/rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace kvasir::model {
namespace {

std::vector<std::int32_t> ids_of(const store::Key& content, std::int64_t count) {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(count));
  for (std::int64_t block = 0; static_cast<std::int64_t>(ids.size()) < count; ++block) {
    store::KeyStream stream(content, "kvasir.i");
    stream.add(std::as_bytes(std::span(&block, 1)));
    const store::Key words = stream.key();
    for (std::size_t i = 0; i < words.bytes.size() && static_cast<std::int64_t>(ids.size()) < count; i += 4) {
      std::uint32_t word;
      std::memcpy(&word, words.bytes.data() + i, sizeof word);
      // INT32_MIN + 1 for both of the two words that would be it and INT32_MIN.
      ids.push_back(static_cast<std::int32_t>(-2 - std::min<std::int64_t>(word & 0x7fffffffu, INT32_MAX - 2)));
    }
  }
  return ids;
}

}  // namespace

RowBlock::RowBlock(std::vector<float> values, int width) : width_(width), values_(std::move(values)) {
  KVASIR_CHECK(width > 0 && values_.size() % static_cast<std::size_t>(width) == 0);
  store::KeyStream stream({}, "kvasir.e");
  const std::int64_t wide = width;
  stream.add(std::as_bytes(std::span(&wide, 1)));
  stream.add(std::as_bytes(std::span(values_)));
  ids_ = ids_of(stream.key(), static_cast<std::int64_t>(values_.size()) / width);
}

RowBlock::RowBlock(const store::Key& content, std::int64_t count, int width, Sight sight,
                   std::function<std::vector<float>()> load)
    : ids_(ids_of(content, count)), width_(width), sight_(sight), load_(std::move(load)) {}

const float* RowBlock::row(std::int64_t i) const {
  if (load_)
    std::call_once(once_, [this] {
      values_ = load_();
      KVASIR_CHECK(values_.size() == ids_.size() * static_cast<std::size_t>(width_));
    });
  return values_.data() + i * width_;
}

const float* row_at(std::span<const RowRun> runs, std::int64_t at) {
  const auto run = std::find_if(runs.begin(), runs.end(), [&](const RowRun& r) { return at < r.end(); });
  KVASIR_CHECK(run != runs.end() && at >= run->begin);
  return run->block->row(at - run->begin);
}

std::int64_t common_end(std::span<const RowRun> runs, std::int64_t n) {
  for (const RowRun& run : runs) {
    if (n <= run.begin) break;
    const bool cut = run.block->both_ways() && n < run.end();
    if (cut || std::min(n - run.begin, run.block->count()) < kSureRows) return run.begin;
  }
  return n;
}

}  // namespace kvasir::model
