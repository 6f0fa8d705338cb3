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

void check_edges(std::size_t edges) {
  if (edges > Automaton::kMostEdges)
    throw Error(Code::kBadInput, "needs more than " + std::to_string(Automaton::kMostEdges) + " edges", "pattern");
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
  check_edges(edges());
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
  const auto everything = static_cast<std::int32_t>(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states[i].accepts = !states_[i].accepts;
    char32_t next = 0;
    for (const Edge& e : states_[i].edges) {
      if (e.low > next) states[i].edges.push_back({next, e.low - 1, everything});
      states[i].edges.push_back(e);
      next = e.high + 1;
    }
    if (next <= kLastChar) states[i].edges.push_back({next, kLastChar, everything});
  }
  states.back() = {true, {{0, kLastChar, everything}}};
  return Automaton(std::move(states));
}

std::size_t Automaton::edges() const {
  std::size_t n = 0;
  for (const State& s : states_) n += s.edges.size();
  return n;
}

Automaton Automaton::both(const Automaton& a, const Automaton& b, std::uint64_t& steps) {
  if (a.empty() || b.empty()) return {};
  using Pair = std::pair<std::int32_t, std::int32_t>;
  std::map<Pair, std::int32_t> numbers{{{0, 0}, 0}};
  std::vector<Pair> pairs{{0, 0}};
  std::vector<State> states(1);
  std::size_t made = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const State& x = a.states_[static_cast<std::size_t>(pairs[i].first)];
    const State& y = b.states_[static_cast<std::size_t>(pairs[i].second)];
    states[i].accepts = x.accepts && y.accepts;
    steps += 16 + x.edges.size() + y.edges.size();
    for (std::size_t j = 0, k = 0; j < x.edges.size() && k < y.edges.size();) {
      const Edge &e = x.edges[j], &f = y.edges[k];
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
    made += states[i].edges.size();
    steps += 16 * states[i].edges.size();  // they are trimmed and merged too
    check_edges(made / 2);
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

namespace {

// The states in classes: those of one class stand beside each other in `states`.
struct Classes {
  struct Class {
    std::size_t begin, end;
    bool waits;  // to split the others
  };
  std::vector<std::size_t> states, place;  // and where each state stands
  std::vector<std::size_t> of;             // the class of each state
  std::vector<Class> all;
  std::vector<std::size_t> waiting;

  explicit Classes(std::size_t n) : states(n), place(n), of(n), all{{0, n, false}} {
    for (std::size_t i = 0; i < n; ++i) states[i] = place[i] = i;
  }
  std::size_t size(std::size_t c) const { return all[c].end - all[c].begin; }
  void wait(std::size_t c) {
    if (!std::exchange(all[c].waits, true)) waiting.push_back(c);
  }
  // Makes `some` of class c a class of their own. REQUIRES: not all of them.
  std::size_t split(std::size_t c, const std::vector<std::size_t>& some) {
    for (const std::size_t s : some) {
      const std::size_t last = --all[c].end, other = states[last];
      std::swap(states[place[s]], states[last]);
      place[other] = place[s];
      place[s] = last;
      of[s] = all.size();
    }
    all.push_back({all[c].end, all[c].end + some.size(), false});
    return all.size() - 1;
  }
};

}  // namespace

// States of which the same strings follow become one (Hopcroft): a class splits the others by the characters that lead
// into it, and of the parts of a class that did so before, the largest need not do it again.
void Automaton::merge_equal() {
  const std::size_t n = states_.size();
  struct Source {
    std::size_t state;
    char32_t low, high;
  };
  std::vector<std::vector<Source>> into(n);
  std::vector<std::size_t> accepting;
  for (std::size_t i = 0; i < n; ++i) {
    for (const Edge& e : states_[i].edges) into[static_cast<std::size_t>(e.to)].push_back({i, e.low, e.high});
    if (states_[i].accepts) accepting.push_back(i);
  }
  Classes classes(n);
  if (!accepting.empty() && accepting.size() < n) classes.wait(classes.split(0, accepting));
  if (n > 0) classes.wait(0);
  using Ranges = std::vector<std::pair<char32_t, char32_t>>;
  struct Mover {
    std::size_t state;
    Ranges by;
  };
  while (!classes.waiting.empty()) {
    const std::size_t splitter = classes.waiting.back();
    classes.waiting.pop_back();
    classes.all[splitter].waits = false;
    std::vector<Source> sources;
    for (std::size_t k = classes.all[splitter].begin; k < classes.all[splitter].end; ++k) {
      const auto& some = into[classes.states[k]];
      sources.insert(sources.end(), some.begin(), some.end());
    }
    std::sort(sources.begin(), sources.end(),
              [](const Source& a, const Source& b) { return a.state != b.state ? a.state < b.state : a.low < b.low; });
    std::vector<Mover> movers;
    for (const Source& s : sources) {
      if (movers.empty() || movers.back().state != s.state) movers.push_back({s.state, {}});
      Ranges& by = movers.back().by;
      if (!by.empty() && by.back().second + 1 == s.low) {
        by.back().second = s.high;
      } else {
        by.emplace_back(s.low, s.high);
      }
    }
    std::sort(movers.begin(), movers.end(), [&](const Mover& a, const Mover& b) {
      const std::size_t x = classes.of[a.state], y = classes.of[b.state];
      return x != y ? x < y : a.by < b.by;
    });
    for (std::size_t i = 0; i < movers.size();) {
      const std::size_t c = classes.of[movers[i].state];
      const bool waits = classes.all[c].waits;
      std::vector<std::size_t> parts{c};
      while (i < movers.size() && classes.of[movers[i].state] == c) {
        std::vector<std::size_t> alike;
        std::size_t k = i;
        for (; k < movers.size() && classes.of[movers[k].state] == c && movers[k].by == movers[i].by; ++k)
          alike.push_back(movers[k].state);
        i = k;
        if (alike.size() < classes.size(c)) parts.push_back(classes.split(c, alike));
      }
      if (parts.size() == 1) continue;
      const std::size_t largest = *std::max_element(
          parts.begin(), parts.end(), [&](std::size_t a, std::size_t b) { return classes.size(a) < classes.size(b); });
      for (const std::size_t part : parts)
        if (waits || part != largest) classes.wait(part);
    }
  }
  if (classes.all.size() == n) return;
  // Numbers follow the states' order, so the start stays the first.
  std::vector<std::int32_t> number(classes.all.size(), -1);
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < n; ++i)
    if (std::int32_t& c = number[classes.of[i]]; c < 0) {
      c = static_cast<std::int32_t>(first.size());
      first.push_back(i);
    }
  std::vector<State> merged(first.size());
  for (std::size_t c = 0; c < first.size(); ++c) {
    merged[c].accepts = states_[first[c]].accepts;
    for (const Edge& e : states_[first[c]].edges)
      push_edge(merged[c].edges, {e.low, e.high, number[classes.of[static_cast<std::size_t>(e.to)]]});
  }
  states_ = std::move(merged);
}

}  // namespace kvasir::text
