#include "base/numa.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.hpp"

#if defined(__linux__)
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kvasir {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kShortestPart = 2 * kHugePage;  // shorter ones would be mostly seams

#if defined(__linux__) && defined(SYS_mbind)
// linux/mempolicy.h. Preferred rather than bound: when a node is full, memory comes from another.
enum Policy { kPreferred = 1, kInterleaved = 3 };

bool set_policy(std::uintptr_t address, std::size_t bytes, Policy policy, std::span<const Node> nodes) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long), kMost = 1024;
  unsigned long mask[kMost / kBits] = {};
  for (const Node& n : nodes) {
    const auto id = static_cast<std::size_t>(n.id);
    if (id >= kMost) return false;
    mask[id / kBits] |= 1ul << id % kBits;
  }
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  return end <= begin || ::syscall(SYS_mbind, begin, end - begin, policy, mask, kMost + 1, 0) == 0;
}

bool bind_thread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cpus)
    if (c < CPU_SETSIZE) CPU_SET(c, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}
#else
enum Policy { kPreferred, kInterleaved };
bool set_policy(std::uintptr_t, std::size_t, Policy, std::span<const Node>) { return false; }
bool bind_thread(const std::vector<int>&) { return false; }
#endif

std::uintptr_t address_of(std::span<const std::byte> memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }

}  // namespace

Placement::Placement(std::vector<Node> nodes) : nodes_(std::move(nodes)) {
  std::erase_if(nodes_, [](const Node& n) { return n.cpus.empty() || n.memory == 0; });
  if (nodes_.size() < 2) nodes_.clear();
  processors_.push_back(0);
  for (const Node& n : nodes_) processors_.push_back(processors_.back() + n.cpus.size());
}

std::size_t Placement::begin_of(std::size_t i, std::size_t all) const {
  // The quotient first: bytes times processors might not fit.
  return all / processors_.back() * processors_[i] + all % processors_.back() * processors_[i] / processors_.back();
}

std::vector<Placement::Part> Placement::parts(std::uintptr_t address, std::size_t bytes) const {
  std::vector<Part> all;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::size_t end = bytes;
    if (i + 1 < nodes_.size()) {
      const std::uintptr_t seam = (address + begin_of(i + 1, bytes)) / kHugePage * kHugePage;
      end = seam > address ? seam - address : 0;
    }
    all.push_back({begin, end, nodes_[i].id});
    begin = end;
  }
  return all;
}

const Node& Placement::node_of(int worker, int threads) const {
  KVASIR_CHECK(binds() && worker >= 0 && worker < threads);
  // The middle of a worker's share of the processors.
  const std::size_t at = (2 * static_cast<std::size_t>(worker) + 1) * processors_.back();
  std::size_t i = 0;
  while (at >= 2 * static_cast<std::size_t>(threads) * processors_[i + 1]) ++i;
  return nodes_[i];
}

bool Placement::interleave(std::span<const std::byte> memory) const {
  return !binds() || set_policy(address_of(memory), memory.size(), kInterleaved, nodes_);
}

bool Placement::divide(std::span<const std::byte> memory) const {
  if (!binds() || memory.size() < nodes_.size() * kShortestPart) return true;
  bool all = true;
  const std::vector<Part> pieces = parts(address_of(memory), memory.size());
  for (std::size_t i = 0; i < pieces.size(); ++i)
    all &=
        set_policy(address_of(memory) + pieces[i].begin, pieces[i].end - pieces[i].begin, kPreferred, {&nodes_[i], 1});
  return all;
}

bool Placement::bind(Team& team) const {
  if (!binds()) return true;
  std::atomic<bool> all{true};
  team.run([&](int worker) {
    if (worker > 0 && !bind_thread(node_of(worker, team.size()).cpus)) all = false;
  });
  return all;
}

std::string binding_refused(const Node& node) {
#if defined(__linux__) && defined(SYS_mbind)
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return std::generic_category().message(errno);
  const bool allowed = set_policy(reinterpret_cast<std::uintptr_t>(p), bytes, kPreferred, {&node, 1});
  const int why = errno;
  ::munmap(p, bytes);
  return allowed ? "" : std::generic_category().message(why);
#else
  (void)node;
  return "this system has no call for it";
#endif
}

}  // namespace kvasir
