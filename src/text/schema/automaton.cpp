#include "text/schema/automaton.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

void check_size(std::size_t states) {
  if (states > Automaton::kMostStates)
    throw Error(Code::kBadInput, "needs more than " + std::to_string(Automaton::kMostStates) + " states", "pattern");
}

// Edges that follow each other and lead to one state become one.
void push_edge(std::vector<Automaton::Edge>& edges, Automaton::Edge edge) {
  if (!edges.empty() && edges.back().to == edge.to && edges.back().high + 1 == edge.low) {
    edges.back().high = edge.high;
  } else {
    edges.push_back(edge);
  }
}

}  // namespace

Automaton::Automaton(std::vector<State> states) : states_(std::move(states)) {
  trim();
  merge_equal();
  check_size(states_.size());
}

Automaton Automaton::anything() { return lengths(0, -1); }

Automaton Automaton::literal(std::string_view utf8) {
  std::vector<State> states(1);
  while (!utf8.empty()) {
    const unicode::Char c = unicode::decode_char(utf8);
    utf8.remove_prefix(c.size);
    states.back().edges.push_back({c.code, c.code, static_cast<std::int32_t>(states.size())});
    states.emplace_back();
    check_size(states.size());
  }
  states.back().accepts = true;
  return Automaton(std::move(states));
}

// Knuth, Morris and Pratt's: states are how much of `utf8` the string ends with.
Automaton Automaton::without(std::string_view utf8) {
  std::vector<char32_t> text;
  while (!utf8.empty()) {
    const unicode::Char c = unicode::decode_char(utf8);
    utf8.remove_prefix(c.size);
    text.push_back(c.code);
  }
  const auto behind = [&](std::size_t have, char32_t c) -> std::size_t {  // text[0, have) and c
    for (std::size_t n = have + 1; n > 0; --n) {
      if (text[n - 1] != c) continue;
      if (std::equal(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n - 1),
                     text.begin() + static_cast<std::ptrdiff_t>(have + 1 - n)))
        return n;
    }
    return 0;
  };
  std::vector<char32_t> letters = text;
  std::sort(letters.begin(), letters.end());
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  std::vector<State> states(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    states[i].accepts = true;
    char32_t next = 0;
    for (const char32_t c : letters) {
      if (c > next) states[i].edges.push_back({next, c - 1, 0});
      const std::size_t to = behind(i, c);
      if (to < text.size()) states[i].edges.push_back({c, c, static_cast<std::int32_t>(to)});
      next = c + 1;
    }
    if (next <= kLastChar) states[i].edges.push_back({next, kLastChar, 0});
  }
  return Automaton(std::move(states));
}

Automaton Automaton::lengths(std::int32_t least, std::int32_t most) {
  const std::int32_t last = most < 0 ? least : most;
  check_size(static_cast<std::size_t>(last));
  std::vector<State> states(static_cast<std::size_t>(last) + 1);
  for (std::int32_t i = 0; i <= last; ++i) {
    State& s = states[static_cast<std::size_t>(i)];
    s.accepts = i >= least;
    if (i < last || most < 0) s.edges.push_back({0, kLastChar, std::min(i + 1, last)});
  }
  return Automaton(std::move(states));
}

bool Automaton::matches(std::string_view utf8) const {
  if (empty()) return false;
  std::size_t state = 0;
  while (!utf8.empty()) {
    const unicode::Char c = unicode::decode_char(utf8);
    utf8.remove_prefix(c.size);
    const auto& edges = states_[state].edges;
    const auto at = std::lower_bound(edges.begin(), edges.end(), char32_t{c.code},
                                     [](const Edge& e, char32_t code) { return e.high < code; });
    if (at == edges.end() || at->low > c.code) return false;
    state = static_cast<std::size_t>(at->to);
  }
  return states_[state].accepts;
}

Automaton Automaton::complement() const {
  if (empty()) return anything();
  std::vector<State> states(states_.size() + 1);
  const auto sink = static_cast<std::int32_t>(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states[i].accepts = !states_[i].accepts;
    char32_t next = 0;
    for (const Edge& e : states_[i].edges) {
      if (e.low > next) states[i].edges.push_back({next, e.low - 1, sink});
      states[i].edges.push_back(e);
      next = e.high + 1;
    }
    if (next <= kLastChar) states[i].edges.push_back({next, kLastChar, sink});
  }
  states.back() = {true, {{0, kLastChar, sink}}};
  return Automaton(std::move(states));
}

Automaton operator&(const Automaton& a, const Automaton& b) {
  if (a.empty() || b.empty()) return {};
  using Pair = std::pair<std::int32_t, std::int32_t>;
  std::map<Pair, std::int32_t> numbers{{{0, 0}, 0}};
  std::vector<Pair> pairs{{0, 0}};
  std::vector<Automaton::State> states(1);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Automaton::State& x = a.states_[static_cast<std::size_t>(pairs[i].first)];
    const Automaton::State& y = b.states_[static_cast<std::size_t>(pairs[i].second)];
    states[i].accepts = x.accepts && y.accepts;
    for (std::size_t j = 0, k = 0; j < x.edges.size() && k < y.edges.size();) {
      const Automaton::Edge &e = x.edges[j], &f = y.edges[k];
      const char32_t low = std::max(e.low, f.low), high = std::min(e.high, f.high);
      if (low <= high) {
        const Pair to{e.to, f.to};
        const auto [at, added] = numbers.try_emplace(to, static_cast<std::int32_t>(pairs.size()));
        if (added) {
          check_size(pairs.size() / 4);  // trimming may leave less
          pairs.push_back(to);
          states.emplace_back();
        }
        push_edge(states[i].edges, {low, high, at->second});
      }
      e.high < f.high ? ++j : ++k;
    }
  }
  return Automaton(std::move(states));
}

// Drops what leads to no end, and what the start does not lead to.
void Automaton::trim() {
  const std::size_t n = states_.size();
  std::vector<std::vector<std::int32_t>> from(n);
  std::vector<char> ends(n), reached(n);
  std::vector<std::size_t> stack;
  for (std::size_t i = 0; i < n; ++i) {
    for (const Edge& e : states_[i].edges) from[static_cast<std::size_t>(e.to)].push_back(static_cast<std::int32_t>(i));
    if (states_[i].accepts) ends[i] = 1, stack.push_back(i);
  }
  while (!stack.empty()) {
    const std::size_t i = stack.back();
    stack.pop_back();
    for (const std::int32_t p : from[i])
      if (!std::exchange(ends[static_cast<std::size_t>(p)], 1)) stack.push_back(static_cast<std::size_t>(p));
  }
  if (n == 0 || !ends[0]) return states_.clear();
  std::vector<std::int32_t> number(n, -1);
  std::vector<State> kept;
  std::vector<std::size_t> order{0};
  reached[0] = 1;
  for (std::size_t k = 0; k < order.size(); ++k) {
    number[order[k]] = static_cast<std::int32_t>(k);
    for (const Edge& e : states_[order[k]].edges) {
      const auto to = static_cast<std::size_t>(e.to);
      if (ends[to] && !std::exchange(reached[to], 1)) order.push_back(to);
    }
  }
  for (const std::size_t i : order) {
    State s{states_[i].accepts, {}};
    for (const Edge& e : states_[i].edges)
      if (ends[static_cast<std::size_t>(e.to)])
        push_edge(s.edges, {e.low, e.high, number[static_cast<std::size_t>(e.to)]});
    kept.push_back(std::move(s));
  }
  states_ = std::move(kept);
}

// States of which the same strings follow become one (Moore): classes are split until none has two kinds of states.
void Automaton::merge_equal() {
  const std::size_t n = states_.size();
  std::vector<std::int32_t> of(n);
  for (std::size_t i = 0; i < n; ++i) of[i] = states_[i].accepts;
  std::size_t classes = 0;
  for (;;) {
    using Signature = std::pair<std::int32_t, std::vector<std::pair<std::pair<char32_t, char32_t>, std::int32_t>>>;
    std::map<Signature, std::int32_t> numbers;
    std::vector<std::int32_t> next(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<Edge> edges;
      for (const Edge& e : states_[i].edges) push_edge(edges, {e.low, e.high, of[static_cast<std::size_t>(e.to)]});
      Signature s{of[i], {}};
      for (const Edge& e : edges) s.second.push_back({{e.low, e.high}, e.to});
      next[i] = numbers.try_emplace(std::move(s), static_cast<std::int32_t>(numbers.size())).first->second;
    }
    of = std::move(next);
    if (numbers.size() == classes) break;
    classes = numbers.size();
  }
  if (classes == n) return;
  std::vector<State> merged(classes);  // numbers follow the states' order, so the start stays the first
  std::vector<char> done(classes);
  for (std::size_t i = 0; i < n; ++i) {
    const auto c = static_cast<std::size_t>(of[i]);
    if (std::exchange(done[c], 1)) continue;
    merged[c].accepts = states_[i].accepts;
    for (const Edge& e : states_[i].edges)
      push_edge(merged[c].edges, {e.low, e.high, of[static_cast<std::size_t>(e.to)]});
  }
  states_ = std::move(merged);
}

}  // namespace kvasir::text
