#include "kv/shared_groups.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace kvasir::kv {

void SharedGroups::reserve(std::size_t parts, std::size_t groups) {
  groups_ = std::max(groups_, groups);
  if (which_.size() >= parts * groups_) return;
  which_.resize(parts * groups_);
  sets_.reserve(which_.size());
  members_.reserve(which_.size());
  order_.reserve(parts);
  alike_.reserve(parts);
  still_.reserve(parts);
}

// Group by group, and of those that were alike so far: the first one's pages against the others'.
void SharedGroups::find(std::span<const Table> tables) {
  tables_ = tables;
  any_ = false;
  sets_.clear(), members_.clear(), order_.clear(), alike_.clear();
  KVASIR_CHECK(tables.size() * groups_ <= which_.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto groups = static_cast<std::size_t>(tables[i].groups);
    KVASIR_CHECK(groups <= groups_);
    std::fill_n(which_.begin() + static_cast<std::ptrdiff_t>(i * groups_), groups, -1);
    if (groups > 0 && 2 * tables[i].rows <= kSharedRows) order_.push_back(static_cast<int>(i));
  }
  alike_.push_back({0, order_.size()});
  for (int g = 0; !alike_.empty(); ++g) {
    still_.clear();
    for (auto [begin, end] : alike_) {
      const auto at = [&](std::size_t i) -> const Table& { return tables[static_cast<std::size_t>(order_[i])]; };
      const auto group = [&](const Table& t) { return t.pages + std::ptrdiff_t{g} * kGroupPages; };
      for (; end - begin >= 2; ++begin) {
        if (at(begin).groups <= g) continue;
        const std::int32_t* const first = group(at(begin));
        const auto after =
            std::partition(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                           order_.begin() + static_cast<std::ptrdiff_t>(end), [&](int part) {
                             const Table& t = tables[static_cast<std::size_t>(part)];
                             return t.groups > g && std::memcmp(group(t), first, kGroupPages * sizeof *first) == 0;
                           });
        const auto middle = static_cast<std::size_t>(after - order_.begin());
        if (middle - begin < 2) continue;
        add_sets(g, std::span(order_).subspan(begin, middle - begin));
        still_.push_back({begin, middle});
        begin = middle - 1;
      }
    }
    std::swap(alike_, still_);
  }
}

// As many together as kSharedRows take.
void SharedGroups::add_sets(int group, std::span<const int> parts) {
  for (std::size_t begin = 0; begin < parts.size();) {
    int rows = 0;
    std::size_t count = 0;
    for (; begin + count < parts.size(); ++count) {
      rows += tables_[static_cast<std::size_t>(parts[begin + count])].rows;
      if (rows > kSharedRows) break;
    }
    if (count >= 2) {
      const std::size_t first = members_.size(), turn = static_cast<std::size_t>(group) % count;
      for (std::size_t i = 0; i < count; ++i) {
        const int part = parts[begin + (i + turn) % count];
        members_.push_back(part);
        which_[static_cast<std::size_t>(part) * groups_ + static_cast<std::size_t>(group)] =
            static_cast<int>(sets_.size());
      }
      sets_.push_back({first, count});
      any_ = true;
    }
    begin += count;
  }
}

}  // namespace kvasir::kv
