#include "base/numa.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif

namespace kvasir {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHuge = std::size_t{2} << 20;

// A machine with processors 0 to 11: eight of node 0, four of node 2, and node 1 that has memory alone.
std::vector<Node> two_nodes() {
  const fs::path root = fs::temp_directory_path() / ("kvasir_numa_" + std::to_string(getpid()));
  const auto put = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  const std::string nodes = "sys/devices/system/node/";
  put("sys/devices/system/cpu/online", "0-11\n");
  put(nodes + "online", "0-2\n");
  put(nodes + "node0/cpulist", "0-3,6-9,40\n");  // 40 is not online
  put(nodes + "node0/meminfo", "\nNode 0 MemTotal:       64000 kB\nNode 0 MemFree:         9000 kB\n");
  put(nodes + "node1/cpulist", "\n");
  put(nodes + "node1/meminfo", "Node 1 MemTotal:       99000 kB\n");
  put(nodes + "node2/cpulist", "4-5,10-11\n");
  put(nodes + "node2/meminfo", "Node 2 MemTotal:       32000 kB\n");
  const Host host = describe_host(root.string());
  fs::remove_all(root);
  return host.nodes;
}

TEST(Numa, NodesAreRead) {
  const std::vector<Node> nodes = two_nodes();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].cpus, (std::vector<int>{0, 1, 2, 3, 6, 7, 8, 9}));
  EXPECT_EQ(nodes[0].memory, 64000u * 1024);
  EXPECT_EQ(nodes[1].id, 1);
  EXPECT_TRUE(nodes[1].cpus.empty());
  EXPECT_EQ(nodes[1].memory, 99000u * 1024);
  EXPECT_EQ(nodes[2].cpus, (std::vector<int>{4, 5, 10, 11}));
}

TEST(Numa, OneNodeIsLeftToTheSystem) {
  EXPECT_FALSE(Placement().binds());
  EXPECT_FALSE(Placement(std::vector<Node>{{0, {0, 1}, 1 << 30}}).binds());
  // Beside it one without processors, and one without memory.
  EXPECT_FALSE(Placement(std::vector<Node>{{0, {0, 1}, 1 << 30}, {1, {}, 1 << 30}, {2, {2}, 0}}).binds());
  const Placement none;
  std::vector<std::byte> memory(1 << 16);
  EXPECT_TRUE(none.interleave(memory));
  EXPECT_TRUE(none.divide(memory));
  EXPECT_TRUE(none.parts(0, 100).empty());
  Team team(2);
  EXPECT_TRUE(none.bind(team));
}

// Two thirds of the processors have two thirds of the bytes and of the workers, both in the same order.
TEST(Numa, NodesGetWhatTheirWorkersRead) {
  const Placement placement(two_nodes());
  ASSERT_TRUE(placement.binds());
  const std::uintptr_t at = 7 * kHuge + 4096;
  const std::size_t bytes = 90 * kHuge + 100;
  const auto parts = placement.parts(at, bytes);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].node, 0);
  EXPECT_EQ(parts[1].node, 2);
  EXPECT_EQ(parts[0].begin, 0u);
  EXPECT_EQ(parts[0].end, parts[1].begin);
  EXPECT_EQ(parts[1].end, bytes);
  EXPECT_EQ((at + parts[0].end) % kHuge, 0u);
  EXPECT_NEAR(static_cast<double>(parts[0].end), 60.0 * kHuge, kHuge);

  for (const int threads : {1, 2, 3, 6, 12, 100}) {
    int first = 0;
    for (int w = 0; w < threads; ++w) {
      const int node = placement.node_of(w, threads).id;
      EXPECT_TRUE(node == 0 || (node == 2 && w > 0)) << w << " of " << threads;
      if (node == 0) {
        EXPECT_EQ(first, w) << "runs of workers";
      }
      first += node == 0;
    }
    EXPECT_NEAR(first, threads * 2.0 / 3, 0.67) << threads;
  }
  EXPECT_EQ(placement.node_of(0, 1).id, 0);
  EXPECT_THROW(placement.node_of(3, 3), std::exception);
}

// Seams before a short part's beginning.
TEST(Numa, PartsOfLittleMemoryCoverIt) {
  const Placement placement(two_nodes());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, kHuge - 1, kHuge + 1}) {
    const auto parts = placement.parts(kHuge - 4096, bytes);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].begin, 0u);
    EXPECT_LE(parts[0].end, bytes);
    EXPECT_EQ(parts[1].begin, parts[0].end);
    EXPECT_EQ(parts[1].end, bytes);
  }
}

#if defined(__linux__) && defined(SYS_mbind)

// The mode of a page's policy, and the node that it lies on.
int policy_at(const void* p) {
  int mode = -1;
  unsigned long mask[16] = {};
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &mode, mask, 1024, p, 2), 0);
  EXPECT_EQ(mask[0], 1u);
  return mode;
}

// What this machine has: two names of its node 0 make the calls that two nodes would.
TEST(Numa, TheSystemDoesWhatItIsAsked) {
  std::vector<Node> nodes = describe_host().nodes;
  if (nodes.empty() || nodes[0].id != 0 || nodes[0].cpus.empty()) GTEST_SKIP() << "no NUMA node 0 is described here";
  if (const std::string why = binding_refused(nodes[0]); !why.empty()) GTEST_SKIP() << "mbind: " << why;
  const Placement placement(std::vector<Node>{nodes[0], nodes[0]});
  ASSERT_TRUE(placement.binds());
  constexpr std::size_t kBytes = 10 * kHuge;
  const auto map = [] {
    void* const p = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(p, MAP_FAILED);
    return std::span<std::byte>(static_cast<std::byte*>(p), kBytes);
  };
  constexpr int kPreferred = 1, kInterleaved = 3;
  const auto divided = map(), spread = map();
  EXPECT_TRUE(placement.divide(divided.first(kHuge)));  // too short
  EXPECT_EQ(
      [&] {
        int mode = -1;
        EXPECT_EQ(::syscall(SYS_get_mempolicy, &mode, nullptr, 0, divided.data(), 2), 0);
        return mode;
      }(),
      0);
  EXPECT_TRUE(placement.divide(divided));
  EXPECT_TRUE(placement.interleave(spread));
  for (std::size_t at = 0; at < kBytes; at += kHuge / 2) {
    EXPECT_EQ(policy_at(divided.data() + at), kPreferred) << at;
    EXPECT_EQ(policy_at(spread.data() + at), kInterleaved) << at;
  }
  for (const auto& memory : {divided, spread}) {
    std::memset(memory.data(), 7, memory.size());
    int node = -1;
    EXPECT_EQ(::syscall(SYS_get_mempolicy, &node, nullptr, 0, memory.data() + kHuge, 1 | 2), 0);
    EXPECT_EQ(node, 0);
    ::munmap(memory.data(), memory.size());
  }
  // A node that is not there is refused, and the memory is usable all the same.
  const Placement absent(std::vector<Node>{nodes[0], {1023, nodes[0].cpus, 1}});
  const auto memory = map();
  EXPECT_FALSE(absent.divide(memory));
  std::memset(memory.data(), 7, memory.size());
  ::munmap(memory.data(), memory.size());
}

TEST(Numa, WorkersRunOnTheirNodes) {
  cpu_set_t mine;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
  std::vector<int> cpus;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &mine)) cpus.push_back(c);
  if (cpus.size() < 2) GTEST_SKIP() << "needs two processors";
  const std::vector<Node> nodes{{0, {cpus[0]}, 1}, {1, {cpus[1]}, 1}};
  Team team(4);
  ASSERT_TRUE(Placement(nodes).bind(team));
  std::vector<std::vector<int>> ran(4);
  team.run([&](int worker) {
    cpu_set_t set;
    ::sched_getaffinity(0, sizeof set, &set);
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) ran[static_cast<std::size_t>(worker)].push_back(c);
  });
  EXPECT_EQ(ran[0], cpus) << "the caller's thread stays where it is";
  EXPECT_EQ(ran[1], std::vector<int>{cpus[0]});
  EXPECT_EQ(ran[2], std::vector<int>{cpus[1]});
  EXPECT_EQ(ran[3], std::vector<int>{cpus[1]});
}

#endif

}  // namespace
}  // namespace kvasir
