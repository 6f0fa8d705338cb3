#include "run/suffix_automaton.hpp"

#include <algorithm>

namespace kvasir::run {

SuffixAutomaton::SuffixAutomaton(std::size_t tokens) {
  states_.reserve(2 * tokens + 2);
  edges_.reserve(3 * tokens + 2);
  std::size_t slots = 64;
  while (slots < 2 * edges_.capacity()) slots *= 2;
  table_.assign(slots, -1);
  clear();
}

void SuffixAutomaton::clear() {
  size_ = 0;
  last_ = 0;
  states_.assign(1, {0, -1, -1, -1});
  edges_.clear();
  std::fill(table_.begin(), table_.end(), -1);
}

std::size_t SuffixAutomaton::slot(std::int32_t from, std::int32_t token) const {
  std::uint64_t h =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32 | static_cast<std::uint32_t>(token)) *
      0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  const std::size_t mask = table_.size() - 1;
  std::size_t at = static_cast<std::size_t>(h) & mask;
  while (table_[at] >= 0) {
    const Edge& e = edges_[static_cast<std::size_t>(table_[at])];
    if (e.from == from && e.token == token) break;
    at = (at + 1) & mask;
  }
  return at;
}

std::int32_t* SuffixAutomaton::edge(std::int32_t from, std::int32_t token) {
  const std::int32_t found = table_[slot(from, token)];
  return found < 0 ? nullptr : &edges_[static_cast<std::size_t>(found)].to;
}

void SuffixAutomaton::connect(std::int32_t from, std::int32_t token, std::int32_t to) {
  if (2 * (edges_.size() + 1) > table_.size()) grow_table();
  State& s = states_[static_cast<std::size_t>(from)];
  table_[slot(from, token)] = static_cast<std::int32_t>(edges_.size());
  edges_.push_back({from, token, to, s.first});
  s.first = static_cast<std::int32_t>(edges_.size() - 1);
}

void SuffixAutomaton::grow_table() {
  table_.assign(2 * table_.size(), -1);
  for (std::size_t i = 0; i < edges_.size(); ++i)
    table_[slot(edges_[i].from, edges_[i].token)] = static_cast<std::int32_t>(i);
}

void SuffixAutomaton::push(std::int32_t token) {
  const auto at = [&](std::int32_t i) -> State& { return states_[static_cast<std::size_t>(i)]; };
  const auto here = static_cast<std::int32_t>(size_++);
  const auto now = static_cast<std::int32_t>(states_.size());
  states_.push_back({here + 1, 0, here, -1});
  std::int32_t p = last_;
  last_ = now;
  for (; p >= 0 && !edge(p, token); p = at(p).link) connect(p, token, now);
  if (p < 0) return;
  const std::int32_t q = *edge(p, token);
  if (at(p).length + 1 == at(q).length) {
    at(now).link = q;
    return;
  }
  // The shorter texts of q get a state of their own.
  const auto copy = static_cast<std::int32_t>(states_.size());
  states_.push_back({at(p).length + 1, at(q).link, at(q).recent, -1});
  for (std::int32_t e = at(q).first; e >= 0; e = edges_[static_cast<std::size_t>(e)].next) {
    const Edge edge_of_q = edges_[static_cast<std::size_t>(e)];  // a copy: connect() may move them
    connect(copy, edge_of_q.token, edge_of_q.to);
  }
  for (; p >= 0; p = at(p).link) {
    std::int32_t* const to = edge(p, token);
    if (!to || *to != q) break;
    *to = copy;
  }
  at(q).link = at(now).link = copy;
}

SuffixAutomaton::Match SuffixAutomaton::longest() {
  if (size_ == 0) return {};
  const std::int32_t found = states_[static_cast<std::size_t>(last_)].link;
  if (found <= 0) return {};
  State& s = states_[static_cast<std::size_t>(found)];
  const Match match{s.length, s.recent + 1};
  s.recent = static_cast<std::int32_t>(size_ - 1);
  return match;
}

}  // namespace kvasir::run
