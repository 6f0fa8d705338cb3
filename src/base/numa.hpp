// NUMA: on which node memory lies and threads run, on machines with several. Answers do not depend on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/host.hpp"
#include "base/team.hpp"

namespace kvasir {

class Placement {
 public:
  Placement() = default;  // leaves all to the system
  // Of nodes with processors and memory, in order; fewer than two: leaves all to the system.
  explicit Placement(std::vector<Node> nodes);

  bool binds() const { return !nodes_.empty(); }

  // What follows is asked of the system before the memory is first written; false: it refused a part of it, which then
  // lies where it is first written. True where nothing is bound.

  // Pages of the system by turns: what any thread may read.
  bool interleave(std::span<const std::byte> memory) const;
  // A part a node, in their order and as long as the node has processors: what the workers of a team read in
  // consecutive shares (cpu/share.hpp). Left as it is where parts would be short.
  bool divide(std::span<const std::byte> memory) const;
  // The workers' threads to their nodes, but for the caller's own.
  bool bind(Team& team) const;

  // What divide and bind go by. Parts cover [0, bytes) of what lies at `address`, seams at whole huge pages.
  struct Part {
    std::size_t begin, end;
    int node;
  };
  std::vector<Part> parts(std::uintptr_t address, std::size_t bytes) const;
  const Node& node_of(int worker, int threads) const;  // REQUIRES: binds()

 private:
  // Of `all` in even shares over processors, where the share of node i begins, i in [0, nodes].
  std::size_t begin_of(std::size_t i, std::size_t all) const;

  std::vector<Node> nodes_;
  std::vector<std::size_t> processors_;  // of all nodes before node i, i in [0, nodes]
};

// Why this process may not bind memory to a node, such as a sandbox that forbids it; empty: it may.
std::string binding_refused(const Node& node);

}  // namespace kvasir
