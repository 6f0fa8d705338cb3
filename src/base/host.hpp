// What this machine is, as the operating system describes it. Nothing here is measured; see lab/machine.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvasir {

struct CpuCache {
  int level = 0;
  std::string type;         // "Data", "Instruction", "Unified"
  std::uint64_t bytes = 0;  // of one instance
  int instances = 0;
};

// A NUMA node: processors and the memory that is near to them.
struct Node {
  int id = 0;
  std::vector<int> cpus;     // those that this process may run on
  std::uint64_t memory = 0;  // bytes
};

struct Host {
  std::string cpu;       // "unknown" where the system does not say
  int logical_cpus = 0;  // hardware threads that are online
  int usable_cpus = 0;   // of them, those this process may run on
  int usable_cores = 0;  // physical cores among the usable: hardware threads of one core count once
  double cpu_quota = 0;  // CPUs' worth of time that the container may use; 0: no limit
  std::vector<CpuCache> caches;
  std::vector<Node> nodes;             // empty: the system describes none
  std::uint64_t memory_total = 0;      // bytes, the container's limit where there is one
  std::uint64_t memory_available = 0;  // bytes that can be had without swapping

  std::uint64_t last_level_cache() const;  // bytes of one instance of the outermost; 0: unknown
};

// What cannot be found out stays 0 (or "unknown"); does not fail. `root` is put before every path that is read: for
// tests.
Host describe_host(const std::string& root = "");

}  // namespace kvasir
