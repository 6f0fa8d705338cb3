// Byte-pair merging: repeatedly joins the neighbouring pair with the lowest cost (the leftmost of equals), in n log n.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvasir::text {

class Merger {
 public:
  // A stretch of the text that is one token so far. `id` is whatever the caller's look-up understands (-1: no token).
  struct Symbol {
    std::uint32_t begin;
    std::uint32_t size;  // 0 once it has been joined to the one before it
    std::int32_t id;
  };

  // What joining two neighbours would give; `id` < 0 when they do not join.
  struct Join {
    double cost;
    std::int32_t id;
  };

  void clear() {
    symbols_.clear();
    links_.clear();
  }
  void push(Symbol symbol) {
    const auto i = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back(symbol);
    links_.push_back({i - 1, i + 1});
  }

  // Merges what was pushed. `join(left, right)` is asked for a Join for pairs of neighbouring Symbols; costs are no
  // NaN. Symbols must be adjacent in the text and not empty.
  template <class JoinOf>
  void run(JoinOf join) {
    heap_.clear();
    const auto n = static_cast<std::int32_t>(symbols_.size());
    for (std::int32_t i = 0; i + 1 < n; ++i) propose(i, i + 1, join);
    std::make_heap(heap_.begin(), heap_.end(), later);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Candidate c = heap_.back();
      heap_.pop_back();
      if (!fresh(c)) continue;
      apply(c);
      const auto& link = links_[index(c.left)];
      if (link.previous >= 0 && propose(link.previous, c.left, join)) std::push_heap(heap_.begin(), heap_.end(), later);
      if (link.next < n && propose(c.left, link.next, join)) std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }

  template <class Visit>
  void each(Visit visit) const {
    for (std::size_t i = 0; i < symbols_.size(); i = index(links_[i].next)) visit(symbols_[i]);
  }

 private:
  struct Link {
    std::int32_t previous, next;  // next is the number of symbols at the end
  };
  struct Candidate {
    double cost;
    std::int32_t left, right;
    std::uint32_t size;  // of the two together, when proposed: shows whether either has changed since
    std::int32_t id;
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  static bool later(const Candidate& a, const Candidate& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.left > b.left;
  }

  template <class JoinOf>
  bool propose(std::int32_t left, std::int32_t right, JoinOf& join) {
    const Symbol& a = symbols_[index(left)];
    const Symbol& b = symbols_[index(right)];
    const Join j = join(a, b);
    if (j.id >= 0) heap_.push_back({j.cost, left, right, a.size + b.size, j.id});
    return j.id >= 0;
  }

  // Symbols only grow to the right or vanish: with both alive and the sum unchanged, neither has changed.
  bool fresh(const Candidate& c) const {
    const auto a = symbols_[index(c.left)].size, b = symbols_[index(c.right)].size;
    return a != 0 && b != 0 && a + b == c.size;
  }

  void apply(const Candidate& c) {
    Symbol& right = symbols_[index(c.right)];
    symbols_[index(c.left)].size = c.size;
    symbols_[index(c.left)].id = c.id;
    right.size = 0;
    const auto next = links_[index(c.right)].next;
    links_[index(c.left)].next = next;
    if (index(next) < symbols_.size()) links_[index(next)].previous = c.left;
  }

  std::vector<Symbol> symbols_;
  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

}  // namespace kvasir::text
