#include "text/schema/pattern.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "text/schema/pattern_parser.hpp"

namespace kvasir::text {
namespace {

constexpr std::size_t kMostNodes = 1 << 16;
constexpr std::size_t kMostBytes = 4096;
constexpr std::uint64_t kMostSteps = 16'000'000;  // edges and states looked at
constexpr std::size_t kMostEntries = 2'000'000;   // of all sets of states

[[noreturn]] void unknown(const std::string& what) { throw Error(Code::kUnsupported, what, "pattern"); }

using Part = PatternPart;

// Thompson's automaton, and the subsets of its states.
class Subsets {
 public:
  // The strings that hold `part` somewhere.
  Subsets(const Part& part, std::uint64_t& steps) : steps_(steps) {
    add();
    nodes_[0].chars.push_back({0, Automaton::kLastChar, 0});
    const std::int32_t end = emit(part, 0);
    final_ = add();
    nodes_[static_cast<std::size_t>(end)].free.push_back(final_);
    nodes_[static_cast<std::size_t>(final_)].chars.push_back({0, Automaton::kLastChar, final_});
  }

  Automaton run() {
    std::vector<Automaton::State> states;
    std::map<Key, std::int32_t> numbers;
    std::vector<Key> keys;
    std::size_t entries = 0;
    const auto number = [&](Key key) {
      const auto [at, added] = numbers.try_emplace(key, static_cast<std::int32_t>(keys.size()));
      if (added) {
        entries += key.size();
        if (keys.size() >= 4 * Automaton::kMostStates || entries > kMostEntries) unknown("needs too many states");
        keys.push_back(std::move(key));
        states.emplace_back();
      }
      return at->second;
    };
    number(closure({0}, true));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Key key = keys[i];
      std::vector<Automaton::Edge> moves;
      std::vector<char32_t> cuts;
      for (const std::int32_t k : key) {
        if (k / 2 == final_) states[i].accepts = true;
        if (k % 2 == 1) continue;  // behind $
        for (const Automaton::Edge& e : nodes_[static_cast<std::size_t>(k / 2)].chars) {
          moves.push_back(e);
          cuts.push_back(e.low);
          cuts.push_back(e.high + 1);
        }
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      spend(16 * moves.size());
      std::vector<std::vector<std::int32_t>> to(cuts.size());  // from each cut to the next
      for (const Automaton::Edge& e : moves) {
        auto c = static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), e.low) - cuts.begin());
        for (; c < cuts.size() && cuts[c] <= e.high; ++c) {
          spend(1);
          to[c].push_back(e.to * 2);
        }
      }
      const std::vector<std::int32_t>* last = nullptr;  // classes of characters have many ranges that lead to the same
      std::int32_t next = -1;
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        if (to[c].empty()) continue;
        if (!last || *last != to[c]) next = number(closure(to[c], false));
        last = &to[c];
        auto& edges = states[i].edges;
        if (!edges.empty() && edges.back().to == next && edges.back().high + 1 == cuts[c]) {
          edges.back().high = cuts[c + 1] - 1;
        } else {
          edges.push_back({cuts[c], cuts[c + 1] - 1, next});
        }
      }
    }
    return Automaton(std::move(states));
  }

 private:
  using Key = std::vector<std::int32_t>;  // 2 * node, and 1 more behind $
  struct Node {
    std::vector<std::int32_t> free, begin, end;  // edges that take no character; those of ^ and $
    std::vector<Automaton::Edge> chars;
  };

  void spend(std::uint64_t steps) {
    if ((steps_ += steps) > kMostSteps) unknown("needs too many states");
  }
  std::int32_t add() {
    if (nodes_.size() >= kMostNodes) unknown("needs too many states");
    nodes_.emplace_back();
    return static_cast<std::int32_t>(nodes_.size() - 1);
  }
  Node& node(std::int32_t i) { return nodes_[static_cast<std::size_t>(i)]; }

  // Behind `part` when it begins in `from`.
  std::int32_t emit(const Part& part, std::int32_t from) {
    spend(1 + 8 * part.set.size());  // they take memory
    switch (part.kind) {
      case Part::Kind::kChars: {
        const std::int32_t to = add();
        for (const CharRange& r : part.set) node(from).chars.push_back({r.low, r.high, to});
        return to;
      }
      case Part::Kind::kBegin: {
        const std::int32_t to = add();
        node(from).begin.push_back(to);
        return to;
      }
      case Part::Kind::kEnd: {
        const std::int32_t to = add();
        node(from).end.push_back(to);
        return to;
      }
      case Part::Kind::kSequence:
        for (const Part& p : part.parts) from = emit(p, from);
        return from;
      case Part::Kind::kChoice: {
        const std::int32_t to = add();
        for (const Part& p : part.parts) {
          const std::int32_t begin = add();
          node(from).free.push_back(begin);
          const std::int32_t end = emit(p, begin);
          node(end).free.push_back(to);
        }
        return to;
      }
      case Part::Kind::kRepeat:
        break;
    }
    for (std::int32_t i = 0; i < part.least; ++i) from = emit(part.parts[0], from);
    const std::int32_t to = add();
    node(from).free.push_back(to);
    if (part.most < 0) {
      const std::int32_t begin = add();
      node(to).free.push_back(begin);
      const std::int32_t end = emit(part.parts[0], begin);
      node(end).free.push_back(to);
      return to;
    }
    for (std::int32_t i = part.least; i < part.most; ++i) {
      from = emit(part.parts[0], from);
      node(from).free.push_back(to);
    }
    return to;
  }

  Key closure(const Key& from, bool at_start) {
    seen_.resize(nodes_.size() * 2);
    ++round_;
    Key key;
    const auto visit = [&](std::int32_t k) {
      if (std::exchange(seen_[static_cast<std::size_t>(k)], round_) != round_) key.push_back(k);
    };
    for (const std::int32_t k : from) visit(k);
    for (std::size_t i = 0; i < key.size(); ++i) {
      const std::int32_t k = key[i], behind = k % 2;
      const Node& n = nodes_[static_cast<std::size_t>(k / 2)];
      spend(2 + n.free.size() + n.begin.size() + n.end.size());
      for (const std::int32_t to : n.free) visit(to * 2 + behind);
      if (at_start)
        for (const std::int32_t to : n.begin) visit(to * 2 + behind);
      for (const std::int32_t to : n.end) visit(to * 2 + 1);
    }
    std::sort(key.begin(), key.end());
    // Once it matched, the rest does not matter.
    if (std::binary_search(key.begin(), key.end(), final_ * 2)) return {final_ * 2};
    return key;
  }

  std::uint64_t& steps_;
  std::vector<Node> nodes_;
  std::int32_t final_ = 0;
  std::vector<std::uint32_t> seen_;  // in which round
  std::uint32_t round_ = 0;
};

Automaton automaton_of(std::string_view pattern, bool whole, std::uint64_t* steps) {
  if (pattern.size() > kMostBytes)
    throw Error(Code::kBadInput, "is longer than " + std::to_string(kMostBytes) + " bytes", "pattern");
  std::uint64_t own = 0;
  std::uint64_t& all_steps = steps ? *steps : own;
  all_steps += 64 * pattern.size();
  std::vector<PatternAhead> aheads;
  Part part = parse_pattern(pattern, aheads);
  if (whole) part = {.parts = {{.kind = Part::Kind::kBegin}, std::move(part), {.kind = Part::Kind::kEnd}}};
  std::uint64_t spent = 0;
  try {
    Automaton all = Subsets(part, spent).run();
    for (const PatternAhead& ahead : aheads) {
      const Part begin{.kind = Part::Kind::kBegin};
      const Automaton one = Subsets({.parts = {begin, ahead.part}}, spent).run();
      all = Automaton::both(all, ahead.positive ? one : one.complement(), spent);
      if (spent > kMostSteps) unknown("needs too many states");
    }
    all_steps += spent;
    return all;
  } catch (const Error& e) {
    all_steps += spent;
    throw Error(Code::kUnsupported, e.message(), "pattern");
  }
}

}  // namespace

Automaton automaton_of_pattern(std::string_view pattern, std::uint64_t* steps) {
  return automaton_of(pattern, false, steps);
}

Automaton automaton_of_whole_pattern(std::string_view pattern, std::uint64_t* steps) {
  return automaton_of(pattern, true, steps);
}

}  // namespace kvasir::text
