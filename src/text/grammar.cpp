#include "text/grammar.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/splitmix.hpp"

namespace kvasir::text {
namespace {

// Derivations of one text that are followed at the same time. What is beyond is dropped, which forbids texts and never
// allows one: some forty strings as alternatives in one place get there, five hundred optional properties, or grammars
// that say the same thing in many ways.
constexpr std::size_t kMostStacks = 512;

}  // namespace

Grammar::Node Grammar::add(Item item) {
  if (items_.size() >= kMostNodes)
    throw Error(Code::kBadInput, "needs more than " + std::to_string(kMostNodes) + " parts", "grammar");
  items_.push_back(std::move(item));
  return static_cast<Node>(items_.size() - 1);
}

Grammar::Node Grammar::text(std::string bytes) { return add({.kind = Kind::kText, .text = std::move(bytes)}); }

Grammar::Node Grammar::byte(std::initializer_list<std::pair<std::uint8_t, std::uint8_t>> ranges) {
  Item item{.kind = Kind::kByte};
  for (const auto& [low, high] : ranges)
    for (int b = low; b <= high; ++b) item.set.set(static_cast<std::size_t>(b));
  return add(std::move(item));
}

Grammar::Node Grammar::byte(const std::bitset<256>& set) { return add({.kind = Kind::kByte, .set = set}); }

Grammar::Node Grammar::sequence(std::vector<Node> parts) {
  return add({.kind = Kind::kSequence, .parts = std::move(parts)});
}

Grammar::Node Grammar::choice(std::vector<Node> alternatives) {
  return add({.kind = Kind::kChoice, .parts = std::move(alternatives)});
}

Grammar::Node Grammar::repeat(Node part, std::int32_t least, std::int32_t most) {
  KVASIR_CHECK(least >= 0 && (most == kUnlimited || most >= least));
  return add({.kind = Kind::kRepeat, .parts = {part}, .least = least, .most = most});
}

Grammar::Node Grammar::declare() { return sequence({}); }

void Grammar::define(Node declared, Node as) {
  Item& item = items_[static_cast<std::size_t>(declared)];
  KVASIR_CHECK(item.kind == Kind::kSequence && item.parts.empty());
  item.parts = {as};
}

// For which nodes it holds, when it holds for texts that are not empty and for bytes as given: for a sequence when it
// does for all parts, for a choice when for one. Every edge is looked at once.
std::vector<bool> Grammar::fixpoint(bool of_text, bool of_byte) const {
  std::vector<std::vector<Node>> parents(items_.size());
  std::vector<std::size_t> missing(items_.size());  // parts that it waits for
  std::vector<bool> holds(items_.size());
  std::vector<Node> found;
  const auto hold = [&](std::size_t i) {
    if (holds[i]) return;
    holds[i] = true;
    found.push_back(static_cast<Node>(i));
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    for (const Node n : item.parts) parents[static_cast<std::size_t>(n)].push_back(static_cast<Node>(i));
    missing[i] = item.kind == Kind::kSequence ? item.parts.size() : 1;
    const bool at_once = item.kind == Kind::kText       ? of_text || item.text.empty()
                         : item.kind == Kind::kByte     ? of_byte && item.set.any()
                         : item.kind == Kind::kSequence ? item.parts.empty()
                                                        : item.kind == Kind::kRepeat && item.least == 0;
    if (at_once) hold(i);
  }
  while (!found.empty()) {
    const Node n = found.back();
    found.pop_back();
    for (const Node p : parents[static_cast<std::size_t>(n)])
      if (--missing[static_cast<std::size_t>(p)] == 0) hold(static_cast<std::size_t>(p));
  }
  return holds;
}

// Depth first along what a node may begin with, with a stack of its own: chains can be as long as the grammar.
void Grammar::check_beginnings(const std::vector<bool>& empty) const {
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(items_.size(), kNew);
  std::vector<std::pair<Node, std::size_t>> stack;
  for (std::size_t root = 0; root < items_.size(); ++root) {
    if (state[root] != kNew) continue;
    stack.emplace_back(static_cast<Node>(root), 0);
    state[root] = kOpen;
    while (!stack.empty()) {
      auto& [node, part] = stack.back();
      const Item& item = items_[static_cast<std::size_t>(node)];
      const bool blocked =
          item.kind == Kind::kSequence && part > 0 && !empty[static_cast<std::size_t>(item.parts[part - 1])];
      if (part == item.parts.size() || blocked) {
        state[static_cast<std::size_t>(node)] = kDone;
        stack.pop_back();
        continue;
      }
      const Node child = item.parts[part++];
      char& seen = state[static_cast<std::size_t>(child)];
      if (seen == kOpen) throw Error(Code::kBadInput, "refers to itself before anything else", "grammar");
      if (seen == kDone) continue;
      seen = kOpen;
      stack.emplace_back(child, 0);
    }
  }
}

void Grammar::finish(Node root) {
  root_ = root;
  const std::vector<bool> empty = fixpoint(false, false), ends = fixpoint(true, true);
  for (const Item& item : items_)
    KVASIR_CHECK(item.kind != Kind::kRepeat || !empty[static_cast<std::size_t>(item.parts[0])]);
  // What cannot end is taken out of choices; elsewhere it is never entered, unless the root itself cannot end.
  if (!ends[static_cast<std::size_t>(root)]) throw Error(Code::kBadInput, "allows no text that ends", "grammar");
  for (Item& item : items_) {
    if (item.kind == Kind::kChoice)
      std::erase_if(item.parts, [&](Node n) { return !ends[static_cast<std::size_t>(n)]; });
    if (item.kind == Kind::kRepeat && !ends[static_cast<std::size_t>(item.parts[0])]) item.most = 0;
  }
  check_beginnings(empty);
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  KVASIR_CHECK(grammar_->root_ >= 0);
  clear();
}

void Matcher::clear() {
  frames_ = {{-1, 0, -1}};
  frame_numbers_.clear();
  sets_.clear();
  set_numbers_.clear();
  moves_.clear();
  Set first;
  entered_.clear();
  enter(grammar_->root_, 0, first);
  KVASIR_CHECK(state_of(std::move(first)) == 0);
}

std::size_t Matcher::FrameHash::operator()(const Frame& f) const {
  std::uint64_t state = static_cast<std::uint64_t>(f.node) << 32 | static_cast<std::uint32_t>(f.parent);
  state ^= static_cast<std::uint64_t>(f.at) << 17;
  return static_cast<std::size_t>(splitmix64(state));
}

std::int32_t Matcher::frame(const Frame& f) {
  const auto [at, added] = frame_numbers_.try_emplace(f, static_cast<std::int32_t>(frames_.size()));
  if (added) frames_.push_back(f);
  return at->second;
}

Matcher::State Matcher::state_of(Set set) {
  if (set.empty()) return kDead;
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  const auto [at, added] = set_numbers_.try_emplace(set, static_cast<State>(sets_.size()));
  if (added) {
    sets_.push_back(std::move(set));
    moves_.emplace_back().fill(kUnknown);
  }
  return at->second;
}

// Adds what wants a byte when `node` begins and `parent` follows.
void Matcher::enter(Grammar::Node node, std::int32_t parent, Set& out) {
  ++work_;
  if (out.size() >= kMostStacks || !entered_.emplace(node, parent).second) return;
  const Grammar::Item& item = grammar_->items_[static_cast<std::size_t>(node)];
  switch (item.kind) {
    case Grammar::Kind::kText:
      item.text.empty() ? go_on(parent, out) : out.push_back(frame({node, 0, parent}));
      break;
    case Grammar::Kind::kByte:
      out.push_back(frame({node, 0, parent}));
      break;
    case Grammar::Kind::kSequence:
      go_on(frame({node, 0, parent}), out);
      break;
    case Grammar::Kind::kChoice:
      for (const Grammar::Node n : item.parts) enter(n, parent, out);
      break;
    case Grammar::Kind::kRepeat:
      again(node, 0, parent, out);
  }
}

// Frame f's part is done.
void Matcher::go_on(std::int32_t f, Set& out) {
  if (f == 0) return out.push_back(0);
  const Frame now = frames_[static_cast<std::size_t>(f)];
  const Grammar::Item& item = grammar_->items_[static_cast<std::size_t>(now.node)];
  if (item.kind == Grammar::Kind::kRepeat) return again(now.node, now.at, now.parent, out);
  const auto at = static_cast<std::size_t>(now.at);
  if (at == item.parts.size()) return go_on(now.parent, out);
  // The last part does not come back, so that lists do not make stacks deeper.
  const bool last = at + 1 == item.parts.size();
  enter(item.parts[at], last ? now.parent : frame({now.node, now.at + 1, now.parent}), out);
}

// A repetition that is done `done` times.
void Matcher::again(Grammar::Node node, std::int32_t done, std::int32_t parent, Set& out) {
  const Grammar::Item& item = grammar_->items_[static_cast<std::size_t>(node)];
  // Without an end, all counts from the least on are the same.
  if (item.most == Grammar::kUnlimited || done < item.most) {
    const std::int32_t next = item.most == Grammar::kUnlimited ? std::min(done + 1, item.least) : done + 1;
    enter(item.parts[0], frame({node, next, parent}), out);
  }
  if (done >= item.least) go_on(parent, out);
}

Matcher::State Matcher::work_out(State state, std::uint8_t byte) {
  Set out;
  entered_.clear();
  const Set from = sets_[static_cast<std::size_t>(state)];
  work_ += from.size();
  for (const std::int32_t f : from) {
    if (f == 0) continue;
    const Frame now = frames_[static_cast<std::size_t>(f)];
    const Grammar::Item& item = grammar_->items_[static_cast<std::size_t>(now.node)];
    if (item.kind == Grammar::Kind::kByte) {
      if (item.set[byte]) go_on(now.parent, out);
    } else if (static_cast<std::uint8_t>(item.text[static_cast<std::size_t>(now.at)]) == byte) {
      static_cast<std::size_t>(now.at) + 1 == item.text.size()
          ? go_on(now.parent, out)
          : out.push_back(frame({now.node, now.at + 1, now.parent}));
    }
  }
  const State to = state_of(std::move(out));
  moves_[static_cast<std::size_t>(state)][byte] = to;
  return to;
}

bool Matcher::accepts(State state) const { return sets_[static_cast<std::size_t>(state)][0] == 0; }

bool Matcher::ends(State state) const { return accepts(state) && sets_[static_cast<std::size_t>(state)].size() == 1; }

std::int32_t Matcher::copy(const std::vector<Frame>& frames, std::int32_t f) {
  std::vector<std::int32_t> chain;
  for (; f != 0; f = frames[static_cast<std::size_t>(f)].parent) chain.push_back(f);
  std::int32_t parent = 0;
  for (std::size_t i = chain.size(); i-- > 0;) {
    const Frame& old = frames[static_cast<std::size_t>(chain[i])];
    parent = frame({old.node, old.at, parent});
  }
  return parent;
}

Matcher::State Matcher::compact(State state) {
  const Set set = sets_[static_cast<std::size_t>(state)];
  const std::vector<Frame> frames = std::move(frames_);
  clear();
  Set kept;
  for (const std::int32_t f : set) kept.push_back(copy(frames, f));
  return state_of(std::move(kept));
}

}  // namespace kvasir::text
