#include "base/host.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/rss.hpp"

namespace kvasir {
namespace {

namespace fs = std::filesystem;

// A folder that looks like the root of another machine.
class FakeRoot {
 public:
  FakeRoot() : path_(fs::temp_directory_path() / ("kvasir_host_" + std::to_string(getpid()))) { fs::remove_all(path_); }
  ~FakeRoot() { fs::remove_all(path_); }
  void put(const std::string& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(Host, ReadsWhatTheSystemSays) {
  FakeRoot root;
  root.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Example CPU: 9000\nflags\t: fpu\n");
  root.put("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n");
  const std::string cpus = "sys/devices/system/cpu/";
  root.put(cpus + "online", "0-2,5\n");
  const char* core_of[] = {"0", "0", "1", "", "", "0"};
  for (int c : {0, 1, 2, 5}) {
    const std::string cpu = cpus + "cpu" + std::to_string(c) + "/";
    root.put(cpu + "topology/core_id", core_of[c]);
    root.put(cpu + "topology/physical_package_id", c == 5 ? "1" : "0");
    const std::string first = c == 0 || c == 1 ? "0-1" : std::to_string(c);
    root.put(cpu + "cache/index0/level", "1");
    root.put(cpu + "cache/index0/type", "Data");
    root.put(cpu + "cache/index0/size", "48K");
    root.put(cpu + "cache/index0/shared_cpu_list", first);
    root.put(cpu + "cache/index1/level", "3");
    root.put(cpu + "cache/index1/type", "Unified");
    root.put(cpu + "cache/index1/size", "260M");
    root.put(cpu + "cache/index1/shared_cpu_list", c == 5 ? "5" : "0-2");
  }
  Host host = describe_host(root.path());
  EXPECT_EQ(host.cpu, "Example CPU: 9000");
  EXPECT_EQ(host.logical_cpus, 4);
  EXPECT_EQ(host.usable_cpus, 4);
  EXPECT_EQ(host.usable_cores, 3);
  EXPECT_EQ(host.memory_total, 1000u * 1024);
  EXPECT_EQ(host.memory_available, 600u * 1024);
  EXPECT_EQ(host.cpu_quota, 0);
  ASSERT_EQ(host.caches.size(), 2u);
  EXPECT_EQ(host.caches[0].bytes, 48u << 10);
  EXPECT_EQ(host.caches[0].instances, 3);
  EXPECT_EQ(host.caches[1].instances, 2);
  EXPECT_EQ(host.last_level_cache(), 260u << 20);

  root.put("sys/fs/cgroup/memory.max", "512000\n");
  root.put("sys/fs/cgroup/memory.current", "12000\n");
  root.put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  host = describe_host(root.path());
  EXPECT_EQ(host.memory_total, 512000u);
  EXPECT_EQ(host.memory_available, 500000u);
  EXPECT_EQ(host.cpu_quota, 1.5);
}

// The limits of the process's own group, of those above it and of both versions hold together.
TEST(Host, LimitsOfControlGroups) {
  FakeRoot root;
  root.put("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
  root.put("proc/self/cgroup", "4:memory:/old/one\n1:name=systemd:/x\n0::/a/b\n");
  EXPECT_EQ(describe_host(root.path()).memory_total, 1000u * 1024);
  root.put("sys/fs/cgroup/a/memory.max", "900000\n");
  root.put("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(describe_host(root.path()).memory_total, 900000u);
  root.put("sys/fs/cgroup/a/b/memory.max", "800000\n");
  root.put("sys/fs/cgroup/a/b/memory.current", "300000\n");
  EXPECT_EQ(describe_host(root.path()).memory_total, 800000u);
  EXPECT_EQ(describe_host(root.path()).memory_available, 500000u);
  root.put("sys/fs/cgroup/a/b/memory.stat",
           "anon 200000\nactive_file 7\ninactive_file 50000\n");  // given back if wanted
  EXPECT_EQ(describe_host(root.path()).memory_available, 550000u);
  root.put("sys/fs/cgroup/a/b/memory.stat", "inactive_file 400000\n");  // read later than the usage, so it may be more
  EXPECT_EQ(describe_host(root.path()).memory_available, 614400u);
  root.put("sys/fs/cgroup/memory/old/one/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(describe_host(root.path()).memory_total, 800000u);
  root.put("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "700000\n");
  root.put("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "690000\n");
  EXPECT_EQ(describe_host(root.path()).memory_total, 700000u);
  EXPECT_EQ(describe_host(root.path()).memory_available, 10000u);
  root.put("sys/fs/cgroup/memory/old/memory.stat", "inactive_file 9\ntotal_inactive_file 20000\n");
  EXPECT_EQ(describe_host(root.path()).memory_available, 30000u);
  root.put("proc/self/cgroup", "odd\n0:\n0::odd\n");
  EXPECT_EQ(describe_host(root.path()).memory_total, 1000u * 1024);
}

TEST(Host, CoresOfArmHaveNames) {
  FakeRoot root;
  const auto core = [](const char* part) {
    return std::string("processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: ") + part + "\n\n";
  };
  root.put("proc/cpuinfo", core("0xd05") + core("0xd05") + core("0xd0b"));
  EXPECT_EQ(describe_host(root.path()).cpu, "Cortex-A55 + Cortex-A76");
  root.put("proc/cpuinfo", core("0xabc"));
  EXPECT_EQ(describe_host(root.path()).cpu, "ARM core 0xabc of implementer 0x41");
}

TEST(Host, MissingAndOddFilesDoNotFail) {
  FakeRoot root;
  Host host = describe_host(root.path());
  EXPECT_EQ(host.cpu, "unknown");
  EXPECT_EQ(host.last_level_cache(), 0u);
  root.put("sys/devices/system/cpu/online", "x-,,-3,0-99999999999999\n");
  root.put("proc/meminfo", "MemTotal:\n");
  host = describe_host(root.path());
  EXPECT_EQ(host.memory_total, 0u);
}

TEST(Host, ThisMachine) {
  const Host host = describe_host();
  EXPECT_GE(host.usable_cpus, 1);
  EXPECT_GE(host.usable_cores, 1);
  EXPECT_LE(host.usable_cores, host.usable_cpus);
  EXPECT_GT(host.memory_total, host.memory_available);
  EXPECT_GT(host.memory_available, 0u);
}

TEST(Rss, ParsesTheStatusFile) {
  const Rss rss =
      parse_rss("Name:\tx\nVmHWM:\t    400 kB\nVmRSS:\t    300 kB\nRssAnon:\t  100 kB\nRssFile:\t  200 kB\n");
  EXPECT_EQ(rss.current, 300u * 1024);
  EXPECT_EQ(rss.anonymous, 100u * 1024);
  EXPECT_EQ(rss.file, 200u * 1024);
  EXPECT_EQ(rss.peak, 400u * 1024);
  EXPECT_ANY_THROW(parse_rss("VmRSS: 1 kB\n"));
}

TEST(Rss, SeesMemoryComeAndGo) {
  constexpr std::size_t kBytes = 64u << 20;
  const Rss before = process_rss();
  // A mapping of its own: AddressSanitizer would keep what is given back to the heap.
  void* const block = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  const Rss with = process_rss();
  EXPECT_GE(with.anonymous, before.anonymous + kBytes * 9 / 10);
  EXPECT_GE(with.peak, with.current * 99 / 100);
  ASSERT_EQ(::munmap(block, kBytes), 0);
  const Rss after = process_rss();
  EXPECT_LT(after.anonymous, with.anonymous - kBytes / 2);
  EXPECT_GE(after.peak, with.current * 99 / 100);
  if (!reset_peak_rss()) GTEST_SKIP() << "the kernel does not let this process reset its peak";
  EXPECT_LT(process_rss().peak, with.current);
}

}  // namespace
}  // namespace kvasir
