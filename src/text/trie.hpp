// The pieces of a vocabulary as a tree of bytes: all tokens that a text begins with, in one walk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace kvasir::text {

class Trie {
 public:
  // Of the tokens with equal bytes the first counts; tokens without bytes are left out.
  Trie(const Vocabulary& vocabulary, std::vector<std::int32_t> ids) {
    std::stable_sort(ids.begin(), ids.end(),
                     [&](std::int32_t a, std::int32_t b) { return vocabulary.piece(a) < vocabulary.piece(b); });
    nodes_.push_back({});
    labels_.push_back(0);
    // Breadth first, so that the children of a node lie side by side, in the order of their labels.
    struct Range {
      std::size_t begin, end, depth;
    };
    std::vector<Range> ranges{{0, ids.size(), 0}};
    for (std::size_t n = 0; n < ranges.size(); ++n) {
      auto [i, end, depth] = ranges[n];
      const auto piece = [&](std::size_t at) { return vocabulary.piece(ids[at]); };
      for (; i < end && piece(i).size() == depth; ++i) {
        if (depth > 0 && nodes_[n].id < 0) nodes_[n].id = ids[i];
      }
      nodes_[n].first = static_cast<std::uint32_t>(nodes_.size());
      while (i < end) {
        const char label = piece(i)[depth];
        const std::size_t begin = i;
        while (i < end && piece(i)[depth] == label) ++i;
        ranges.push_back({begin, i, depth + 1});
        nodes_.push_back({});
        labels_.push_back(static_cast<unsigned char>(label));
      }
      nodes_[n].count = static_cast<std::uint32_t>(nodes_.size()) - nodes_[n].first;
    }
  }

  // Calls visit(size, id) for each token that `text` begins with, the shortest first.
  template <class Visit>
  void prefixes(std::string_view text, Visit visit) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto begin = labels_.begin() + nodes_[node].first;
      const auto end = begin + nodes_[node].count;
      const auto label = static_cast<unsigned char>(text[i]);
      const auto at = std::lower_bound(begin, end, label);
      if (at == end || *at != label) return;
      node = static_cast<std::uint32_t>(at - labels_.begin());
      if (nodes_[node].id >= 0) visit(i + 1, nodes_[node].id);
    }
  }

 private:
  struct Node {
    std::uint32_t first = 0, count = 0;  // children
    std::int32_t id = -1;
  };

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // of each node: the byte that leads to it
};

}  // namespace kvasir::text
