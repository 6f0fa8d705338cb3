// A suffix automaton over token ids that grows at its end (Blumer et al. 1985): finds the longest end of a text that
// stood in it before, in constant time per token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvasir::run {

class SuffixAutomaton {
 public:
  // Room for so many tokens; more cost allocations.
  explicit SuffixAutomaton(std::size_t tokens = 0);

  void push(std::int32_t token);
  std::int64_t size() const { return size_; }
  void clear();

  // The longest end of the text that also ends at an earlier place. Once per push: the place that it was asked at
  // counts as an earlier one from then on.
  struct Match {
    std::int64_t length = 0;  // tokens; 0: the last token is new
    std::int64_t next = 0;    // of the token behind a place where they stood before: the latest that is known
  };
  Match longest();

 private:
  struct State {
    std::int32_t length;
    std::int32_t link;    // state of the longest end of its texts that is not among them; -1: none
    std::int32_t recent;  // where one of its texts ends
    std::int32_t first;   // of its edges; -1: none
  };
  struct Edge {
    std::int32_t from, token, to;
    std::int32_t next;  // of the same state
  };
  std::int32_t* edge(std::int32_t from, std::int32_t token);  // its target; null: there is none
  void connect(std::int32_t from, std::int32_t token, std::int32_t to);
  std::size_t slot(std::int32_t from, std::int32_t token) const;
  void grow_table();

  std::int64_t size_ = 0;
  std::int32_t last_ = 0;
  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> table_;  // edges by hash, -1: none; its size is a power of two
};

}  // namespace kvasir::run
