#include "base/host.hpp"

#include <sched.h>

#include <algorithm>
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

std::string cpu_name(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const std::size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown";
}

std::set<int> affinity() {
  std::set<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) cpus.insert(c);
  return cpus;
}

std::vector<Cache> caches_of(const std::string& cpu_folder, const std::set<int>& online) {
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
  std::vector<Cache> caches;
  for (const auto& [key, value] : found)
    caches.push_back({key.first, key.second, value.first, static_cast<int>(value.second.size())});
  return caches;
}

// What the container may use, as one control group says it. Version 1 writes a number near 2^63 for no limit.
void apply_memory_limit(const std::string& limit, const std::string& usage, Host& host) {
  if (limit.empty() || limit == "max") return;
  const std::uint64_t max = std::strtoull(limit.c_str(), nullptr, 10);
  const std::uint64_t used = std::strtoull(usage.c_str(), nullptr, 10);
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
    apply_memory_limit(first_line(folder + "memory.max"), first_line(folder + "memory.current"), host);
    std::istringstream cpu(first_line(folder + "cpu.max"));  // "200000 100000" or "max 100000"
    double quota = 0, period = 0;
    if (cpu >> quota >> period && period > 0)
      host.cpu_quota = host.cpu_quota > 0 ? std::min(host.cpu_quota, quota / period) : quota / period;
  }
  for (const std::string& folder : groups_of(mount + "/memory", v1))
    apply_memory_limit(first_line(folder + "memory.limit_in_bytes"), first_line(folder + "memory.usage_in_bytes"),
                       host);
}

}  // namespace

std::uint64_t Host::last_level_cache() const {
  std::uint64_t bytes = 0;
  int level = 0;
  for (const Cache& c : caches)
    if (c.level >= level && c.type != "Instruction") level = c.level, bytes = c.bytes;
  return bytes;
}

Host describe_host(const std::string& root) {
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
  host.memory_total = meminfo(root + "/proc/meminfo", "MemTotal");
  host.memory_available = meminfo(root + "/proc/meminfo", "MemAvailable");
  apply_limits(root, host);
  return host;
}

}  // namespace kvasir
