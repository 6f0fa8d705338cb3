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

// Rows are other ones where they lie otherwise, though what they were made of is the same.
store::Key content_of(const store::Key& content, const RowShape& shape) {
  if (!shape.grid && shape.deep == 0) return content;
  store::KeyStream stream(content, "kvasir.g");
  const std::int64_t layout[] = {shape.grid.height, shape.grid.width, shape.deep};
  stream.add(std::as_bytes(std::span(layout)));
  return stream.key();
}

}  // namespace

RowBlock::RowBlock(std::vector<float> values, int width)
    : shape_{.width = width}, ready_(true), values_(std::move(values)) {
  KVASIR_CHECK(width > 0 && values_.size() % static_cast<std::size_t>(width) == 0);
  shape_.count = static_cast<std::int64_t>(values_.size()) / width;
  store::KeyStream stream({}, "kvasir.e");
  const std::int64_t wide = width;
  stream.add(std::as_bytes(std::span(&wide, 1)));
  stream.add(std::as_bytes(std::span(values_)));
  ids_ = ids_of(stream.key(), shape_.count);
}

RowBlock::RowBlock(const store::Key& content, const RowShape& shape, Make make)
    : shape_(shape), ids_(ids_of(content_of(content, shape), shape.count)), make_(std::move(make)) {
  KVASIR_CHECK(!shape.grid || std::int64_t{shape.grid.height} * shape.grid.width == shape.count);
}

void RowBlock::load(RowWatch& watch) const {
  const std::lock_guard lock(making_);
  if (ready()) return;
  values_ = make_(watch);
  KVASIR_CHECK(static_cast<std::int64_t>(values_.size()) == (1 + deep()) * count() * width());
  ready_.store(true, std::memory_order_release);
}

const float* RowBlock::values(int level, std::int64_t i) const {
  if (!ready()) {
    RowWatch nobody;
    load(nobody);
  }
  return values_.data() + (level * count() + i) * width();
}

const RowRun& run_at(std::span<const RowRun> runs, std::int64_t at) {
  const auto run = std::find_if(runs.begin(), runs.end(), [&](const RowRun& r) { return at < r.end(); });
  KVASIR_CHECK(run != runs.end() && at >= run->begin);
  return *run;
}

Position position_of(std::span<const RowRun> runs, std::int64_t at) {
  std::int64_t ahead = 0;  // of elements before positions
  for (const RowRun& run : runs) {
    if (at < run.begin) break;
    if (const Grid grid = run.block->grid(); grid && at < run.end()) {
      const std::int64_t first = run.begin - ahead, i = at - run.begin;
      return {first, first + i / grid.width, first + i % grid.width};
    }
    if (at >= run.end()) ahead += run.block->count() - run.block->extent();
  }
  return {at - ahead, at - ahead, at - ahead};
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
