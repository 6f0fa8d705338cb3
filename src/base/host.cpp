#include "base/host.hpp"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#else
#include <sched.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

namespace kvasir {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// "0-3,8" -> {0, 1, 2, 3, 8}; stops at what it does not understand.
std::set<int> cpu_list(const std::string& text) {
  std::set<int> cpus;
  std::istringstream in(text);
  std::string part;
  while (std::getline(in, part, ',')) {
    int low = 0, high = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> low)) break;
    if (!(range >> dash >> high)) high = low;
    for (int c = low; c >= 0 && c <= std::min(high, low + 4096); ++c) cpus.insert(c);
  }
  return cpus;
}

// "48K", "260M", "266240" -> bytes
std::uint64_t size_with_unit(const std::string& text) {
  char* end = nullptr;
  const std::uint64_t n = std::strtoull(text.c_str(), &end, 10);
  if (*end == 'K') return n << 10;
  if (*end == 'M') return n << 20;
  if (*end == 'G') return n << 30;
  return n;
}

// "MemTotal:       24576000 kB" -> bytes
std::uint64_t meminfo(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  return 0;
}

// ARM's kernels write numbers where others write a name: who made the core and which one it is.
std::string arm_core(unsigned implementer, unsigned part) {
  struct Core {
    unsigned implementer, part;
    const char* name;
  };
  constexpr Core kCores[] = {
      {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd05, "Cortex-A55"},  {0x41, 0xd07, "Cortex-A57"},
      {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd09, "Cortex-A73"},  {0x41, 0xd0a, "Cortex-A75"},
      {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse N1"}, {0x41, 0xd0d, "Cortex-A77"},
      {0x41, 0xd40, "Neoverse V1"}, {0x41, 0xd41, "Cortex-A78"},  {0x41, 0xd44, "Cortex-X1"},
      {0x41, 0xd46, "Cortex-A510"}, {0x41, 0xd47, "Cortex-A710"}, {0x41, 0xd48, "Cortex-X2"},
      {0x41, 0xd49, "Neoverse N2"}, {0x41, 0xd4d, "Cortex-A715"}, {0x41, 0xd4e, "Cortex-X3"},
      {0x41, 0xd4f, "Neoverse V2"}, {0xc0, 0xac3, "Ampere-1"},
  };
  for (const Core& core : kCores)
    if (core.implementer == implementer && core.part == part) return core.name;
  char text[64];
  std::snprintf(text, sizeof text, "ARM core 0x%03x of implementer 0x%02x", part, implementer);
  return text;
}

// "Cortex-A55 + Cortex-A76" where cores differ, in the order of their numbers.
std::string cpu_name(const std::string& path) {
  std::ifstream in(path);
  unsigned implementer = 0;
  std::vector<std::string> cores;
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(": ");
    if (at == std::string::npos) continue;
    const std::string value = line.substr(at + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer"))
      implementer = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 16));
    if (line.starts_with("CPU part")) {
      std::string core = arm_core(implementer, static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 16)));
      if (std::find(cores.begin(), cores.end(), core) == cores.end()) cores.push_back(std::move(core));
    }
  }
  std::string name;
  for (const std::string& core : cores) name.append(name.empty() ? "" : " + ").append(core);
  return name.empty() ? "unknown" : name;
}

#if defined(__APPLE__)
std::uint64_t system_number(const char* name) {
  std::uint64_t value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

// There are no files to read there.
Host describe_mac() {
  Host host;
  char name[128] = "unknown";
  std::size_t size = sizeof name;
  sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0);
  host.cpu = name;
  host.logical_cpus = host.usable_cpus = static_cast<int>(system_number("hw.logicalcpu"));
  host.usable_cores = static_cast<int>(system_number("hw.physicalcpu"));
  if (const std::uint64_t bytes = system_number("hw.l1dcachesize"))
    host.caches.push_back({1, "Data", bytes, host.usable_cores});
  if (const std::uint64_t bytes = system_number("hw.l2cachesize")) host.caches.push_back({2, "Unified", bytes, 1});
  host.memory_total = system_number("hw.memsize");
  host.memory_available = host.memory_total / 4 * 3;  // what the system keeps for itself is not said
  return host;
}

std::set<int> affinity() { return {}; }
#else
std::set<int> affinity() {
  std::set<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) cpus.insert(c);
  return cpus;
}
#endif

std::vector<CpuCache> caches_of(const std::string& cpu_folder, const std::set<int>& online) {
  std::map<std::pair<int, std::string>, std::pair<std::uint64_t, std::set<std::string>>> found;
  for (int cpu : online)
    for (int index = 0; index < 10; ++index) {
      const std::string folder =
          cpu_folder + "cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
      const std::string type = first_line(folder + "type");
      if (type.empty()) break;
      auto& [bytes, sharers] = found[{std::atoi(first_line(folder + "level").c_str()), type}];
      bytes = std::max(bytes, size_with_unit(first_line(folder + "size")));
      sharers.insert(first_line(folder + "shared_cpu_list"));
    }
  std::vector<CpuCache> caches;
  for (const auto& [key, value] : found)
    caches.push_back({key.first, key.second, value.first, static_cast<int>(value.second.size())});
  return caches;
}

std::vector<Node> nodes_of(const std::string& folder, const std::set<int>& usable) {
  std::vector<Node> nodes;
  for (const int id : cpu_list(first_line(folder + "online"))) {
    const std::string node = folder + "node" + std::to_string(id) + "/";
    Node to{.id = id, .cpus = {}, .memory = meminfo(node + "meminfo", "Node " + std::to_string(id) + " MemTotal")};
    for (const int cpu : cpu_list(first_line(node + "cpulist")))
      if (usable.contains(cpu)) to.cpus.push_back(cpu);
    nodes.push_back(std::move(to));
  }
  return nodes;
}

// One figure of a control group's memory.stat in bytes; 0 when it isn't there.
std::uint64_t memory_stat(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  std::string key;
  for (std::uint64_t bytes = 0; in >> key >> bytes;)
    if (key == name) return bytes;
  return 0;
}

// What the container may use, as one control group says it. Version 1 writes a number near 2^63 for no limit.
// dropped: bytes of the usage that the system gives back when they are wanted. Reading a large file fills a group
// up to its limit with them, and MemAvailable of the whole machine counts them likewise.
void apply_memory_limit(const std::string& limit, const std::string& usage, std::uint64_t dropped, Host& host) {
  if (limit.empty() || limit == "max") return;
  const std::uint64_t max = std::strtoull(limit.c_str(), nullptr, 10);
  std::uint64_t used = std::strtoull(usage.c_str(), nullptr, 10);
  used -= std::min(used, dropped);
  host.memory_total = std::min(host.memory_total, max);
  host.memory_available = std::min(host.memory_available, max > used ? max - used : 0);
}

// Folders of a control group and those above it, below `mount`: the limits of all hold.
std::vector<std::string> groups_of(const std::string& mount, std::string group) {
  std::vector<std::string> folders{mount + "/"};
  if (!group.starts_with('/')) return folders;
  for (; group.size() > 1; group.erase(group.rfind('/'))) folders.push_back(mount + group + "/");
  return folders;
}

// Control groups of this process: version 2 ("0::/a/b") and of version 1 the one of memory ("4:memory:/a/b").
void apply_limits(const std::string& root, Host& host) {
  std::string v2 = "/", v1 = "/";
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") v2 = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) v1 = line.substr(second + 1);
  }
  const std::string mount = root + "/sys/fs/cgroup";
  for (const std::string& folder : groups_of(mount, v2)) {
    apply_memory_limit(first_line(folder + "memory.max"), first_line(folder + "memory.current"),
                       memory_stat(folder + "memory.stat", "inactive_file"), host);
    std::istringstream cpu(first_line(folder + "cpu.max"));  // "200000 100000" or "max 100000"
    double quota = 0, period = 0;
    if (cpu >> quota >> period && period > 0)
      host.cpu_quota = host.cpu_quota > 0 ? std::min(host.cpu_quota, quota / period) : quota / period;
  }
  for (const std::string& folder : groups_of(mount + "/memory", v1))
    apply_memory_limit(first_line(folder + "memory.limit_in_bytes"), first_line(folder + "memory.usage_in_bytes"),
                       memory_stat(folder + "memory.stat", "total_inactive_file"), host);
}

}  // namespace

std::uint64_t Host::last_level_cache() const {
  std::uint64_t bytes = 0;
  int level = 0;
  for (const CpuCache& c : caches)
    if (c.level >= level && c.type != "Instruction") level = c.level, bytes = c.bytes;
  return bytes;
}

Host describe_host(const std::string& root) {
#if defined(__APPLE__)
  if (root.empty()) return describe_mac();
#endif
  const std::string cpus = root + "/sys/devices/system/cpu/";
  Host host;
  host.cpu = cpu_name(root + "/proc/cpuinfo");
  std::set<int> online = cpu_list(first_line(cpus + "online"));
  std::set<int> usable = affinity();
  if (online.empty()) online = usable;
  if (!root.empty() || usable.empty()) usable = online;  // the affinity is this machine's, not the described one's
  std::set<std::pair<std::string, std::string>> cores;
  for (int c : usable) {
    const std::string topology = cpus + "cpu" + std::to_string(c) + "/topology/";
    std::string core = first_line(topology + "core_id");
    if (core.empty()) core = "cpu" + std::to_string(c);
    cores.insert({first_line(topology + "physical_package_id"), core});
  }
  host.logical_cpus = static_cast<int>(online.size());
  host.usable_cpus = static_cast<int>(usable.size());
  host.usable_cores = static_cast<int>(cores.size());
  host.caches = caches_of(cpus, online);
  host.nodes = nodes_of(root + "/sys/devices/system/node/", usable);
  host.memory_total = meminfo(root + "/proc/meminfo", "MemTotal");
  host.memory_available = meminfo(root + "/proc/meminfo", "MemAvailable");
  apply_limits(root, host);
  return host;
}

}  // namespace kvasir
