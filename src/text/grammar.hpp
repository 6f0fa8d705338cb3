// Grammars over bytes, and which bytes they let follow.
//
// A grammar is a graph of nodes; a matcher runs all its derivations at once, as a finite automaton that is made while
// it is used: a state is a set of stacks, and what a byte leads to is worked out once.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvasir::text {

// Built bottom up, then only read: any number of matchers may share one. Calls that add nodes throw Error(kBadInput)
// above kMostNodes.
class Grammar {
 public:
  using Node = std::int32_t;
  static constexpr std::size_t kMostNodes = 1 << 16;
  static constexpr std::int32_t kUnlimited = -1;

  Node text(std::string bytes);                                                    // exactly these
  Node byte(std::initializer_list<std::pair<std::uint8_t, std::uint8_t>> ranges);  // one of these
  Node byte(const std::bitset<256>& set);
  Node sequence(std::vector<Node> parts);                                      // one behind the other
  Node choice(std::vector<Node> alternatives);                                 // any of them
  Node repeat(Node part, std::int32_t least, std::int32_t most = kUnlimited);  // REQUIRES: part is not empty
  Node optional(Node part) { return choice({part, text("")}); }

  // A node that is used before it is defined: what may contain itself.
  Node declare();
  void define(Node declared, Node as);

  // The whole text is a `root`. Throws Error(kBadInput) when a node can never end, or begins with itself.
  void finish(Node root);

 private:
  friend class Matcher;
  enum class Kind { kText, kByte, kSequence, kChoice, kRepeat };
  struct Item {
    Kind kind;
    std::string text;
    std::bitset<256> set;
    std::vector<Node> parts;
    std::int32_t least = 0, most = 0;
  };
  Node add(Item item);
  std::vector<bool> fixpoint(bool of_text, bool of_byte) const;
  void check_beginnings(const std::vector<bool>& empty) const;

  std::vector<Item> items_;
  Node root_ = -1;
};

// One thread at a time. States stay what they are until compact().
class Matcher {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;

  explicit Matcher(std::shared_ptr<const Grammar> grammar);

  State start() const { return 0; }
  // Where `byte` leads from `state`: kDead when no text of the grammar goes on so. REQUIRES: state is not kDead.
  State next(State state, std::uint8_t byte) {
    const State known = moves_[static_cast<std::size_t>(state)][byte];
    return known != kUnknown ? known : work_out(state, byte);
  }
  bool accepts(State state) const;  // the text may end here
  bool ends(State state) const;     // and cannot go on

  std::size_t states() const { return sets_.size(); }
  std::uint64_t work() const { return work_; }  // frames looked at so far: what working out states has cost
  // Forgets all states but `state` and the start, and says its new number.
  State compact(State state);

 private:
  static constexpr State kUnknown = -2;
  // A node and how far it is done; `parent` goes on when it is. Frame 0 is the end of the text.
  struct Frame {
    Grammar::Node node;
    std::int32_t at;
    std::int32_t parent;
    bool operator==(const Frame&) const = default;
  };
  using Set = std::vector<std::int32_t>;  // ascending numbers of frames that want a byte, or 0

  State work_out(State state, std::uint8_t byte);
  std::int32_t frame(const Frame& f);
  State state_of(Set set);
  void enter(Grammar::Node node, std::int32_t parent, Set& out);
  void go_on(std::int32_t f, Set& out);
  void again(Grammar::Node node, std::int32_t done, std::int32_t parent, Set& out);
  void clear();
  std::int32_t copy(const std::vector<Frame>& frames, std::int32_t f);

  std::shared_ptr<const Grammar> grammar_;
  struct FrameHash {
    std::size_t operator()(const Frame& f) const;
  };

  std::vector<Frame> frames_;
  std::unordered_map<Frame, std::int32_t, FrameHash> frame_numbers_;
  std::uint64_t work_ = 0;
  std::vector<Set> sets_;
  std::map<Set, State> set_numbers_;
  std::vector<std::array<State, 256>> moves_;
  std::set<std::pair<Grammar::Node, std::int32_t>> entered_;  // of the set that is being made: nodes and parents
};

}  // namespace kvasir::text
