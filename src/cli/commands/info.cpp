// kvasir info [--json] [--threads N] [--quick]: what this machine is and what it was measured to do.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/numa.hpp"
#include "base/team.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/version.hpp"
#include "device/driver.hpp"
#include "lab/machine.hpp"
#include "simd/isa.hpp"

namespace kvasir::cli::commands_info {
namespace {

struct Settings {
  bool json = false;
  bool quick = false;
  int threads = 0;  // 0: one per core
};

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

// "48 KiB", "260 MiB", "23.5 GiB"
std::string binary_size(std::uint64_t bytes) {
  if (bytes >= (1ull << 30)) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1ull << 30));
  if (bytes >= (1ull << 20)) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

void print_figure(const char* label, const lab::Figure& f, const char* unit, const std::string& note) {
  fmt::print("{:<14} {:>8.1f} {}  ({:.1f} to {:.1f}) {}\n", label, f.median * 1e-9, unit, f.low * 1e-9, f.high * 1e-9,
             note);
}

nlohmann::ordered_json to_json(const lab::Figure& f) {
  return {{"median", f.median * 1e-9}, {"low", f.low * 1e-9}, {"high", f.high * 1e-9}, {"cpu_share", f.cpu_share}};
}

// "0-3, 8"
std::string ranges(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < cpus.size(); i = end) {
    for (end = i + 1; end < cpus.size() && cpus[end] == cpus[end - 1] + 1;) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", cpus[i]);
    if (end > i + 1) text += fmt::format("-{}", cpus[end - 1]);
  }
  return text;
}

void print_nodes(const Host& h) {
  const bool binds = Placement(h.nodes).binds();
  for (std::size_t i = 0; i < h.nodes.size(); ++i) {
    const Node& n = h.nodes[i];
    const std::string refused = binds ? binding_refused(n) : "";
    fmt::print("{:<14} {}: {}, {}{}\n", i == 0 ? "NUMA nodes" : "", n.id, binary_size(n.memory),
               n.cpus.empty() ? "no usable processor" : "processors " + ranges(n.cpus),
               refused.empty() ? "" : ", memory cannot be bound: " + refused);
  }
}

void print_text(const lab::Machine& m, const device::Survey& devices) {
  const Host& h = m.host;
  fmt::print("kvasir         {}, built with {}\n", version(), compiler());
  fmt::print("processor      {}\n", h.cpu);
  fmt::print("cores          {} usable, {} hardware threads of {}", h.usable_cores, h.usable_cpus, h.logical_cpus);
  if (h.cpu_quota > 0) fmt::print(", limited to {:.2f} CPUs of time", h.cpu_quota);
  fmt::print("\n");
  for (const CpuCache& c : h.caches)
    fmt::print("L{} {:<11} {} x {}\n", c.level, c.type, c.instances, binary_size(c.bytes));
  fmt::print("memory         {}, {} available\n", binary_size(h.memory_total), binary_size(h.memory_available));
  print_nodes(h);
  for (simd::Isa isa : simd::kIsas)
    fmt::print("{:<14} {:<12} needs {}{}{}\n", isa == simd::kIsas[0] ? "instructions" : "", simd::name(isa),
               simd::requirements(isa),
               isa == m.isa                   ? ": in use"
               : simd::supported(isa)         ? ": supported"
               : !simd::withheld(isa).empty() ? fmt::format(": {}", simd::withheld(isa))
               : simd::built(isa)             ? ": not on this machine"
                                              : ": not in this build",
               simd::emulated(isa) ? ", by other instructions (for tests)" : "");
  if (devices.devices.empty())
    fmt::print("device         none beside the processor (kvasir devices says what was tried)\n");
  for (std::size_t i = 0; i < devices.devices.size(); ++i) {
    const device::Found& f = devices.devices[i];
    fmt::print("{:<14} opencl:{} {} ({}){}\n", i == 0 ? "device" : "", i, f.name, f.kind,
               f.refused.empty() ? "" : ", not used: " + f.refused);
  }
  fmt::print("\nmeasured with {} thread{}, median (lowest to highest run)\n", m.threads, m.threads == 1 ? "" : "s");
  print_figure("read bandwidth", m.read_bytes, "GB/s ",
               fmt::format("{} buffer{}", binary_size(m.buffer_bytes),
                           m.beyond_cache ? "" : ", partly answered by the last-level cache"));
  const std::string isa = simd::label(m.isa);
  print_figure("int8 dot peak", m.int8_ops, "GOP/s", isa);
  print_figure("bf16 dot peak", m.bf16_ops, "GOP/s", isa);
  print_figure("f32 FMA peak", m.f32_ops, "GOP/s", isa);
  if (m.int8_tiles.median > 0) print_figure("int8 tile peak", m.int8_tiles, "GOP/s", "AMX");
  if (m.bf16_tiles.median > 0) print_figure("bf16 tile peak", m.bf16_tiles, "GOP/s", "AMX");
  if (m.threads > 1) fmt::print("{:<14} {:>8.2f} us\n", "threads meet", m.meeting * 1e6);
  const double share =
      std::min({m.read_bytes.cpu_share, m.int8_ops.cpu_share, m.bf16_ops.cpu_share, m.f32_ops.cpu_share});
  if (share < lab::kUndisturbed)
    fmt::print("Other work was running: the threads got {:.0f} % of their processors. These figures are too low.\n",
               share * 100);
}

void print_json(const lab::Machine& m, const device::Survey& survey) {
  const Host& h = m.host;
  nlohmann::ordered_json sets = nlohmann::ordered_json::array();
  for (simd::Isa isa : simd::kIsas)
    sets.push_back({{"name", simd::name(isa)},
                    {"requires", simd::requirements(isa)},
                    {"supported", simd::supported(isa)},
                    {"emulated", simd::emulated(isa)},
                    {"active", isa == m.isa}});
  nlohmann::ordered_json caches = nlohmann::ordered_json::array();
  for (const CpuCache& c : h.caches)
    caches.push_back({{"level", c.level}, {"type", c.type}, {"bytes", c.bytes}, {"instances", c.instances}});
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const Node& n : h.nodes) nodes.push_back({{"node", n.id}, {"cpus", n.cpus}, {"bytes", n.memory}});
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const device::Found& f : survey.devices)
    devices.push_back({{"name", f.name}, {"kind", f.kind}, {"driver", f.driver}, {"refused", f.refused}});
  print_json_row({{"version", version()},
                  {"compiler", compiler()},
                  {"cpu", h.cpu},
                  {"usable_cores", h.usable_cores},
                  {"usable_cpus", h.usable_cpus},
                  {"logical_cpus", h.logical_cpus},
                  {"cpu_quota", h.cpu_quota},
                  {"caches", caches},
                  {"memory_total", h.memory_total},
                  {"memory_available", h.memory_available},
                  {"numa_nodes", nodes},
                  {"instruction_sets", sets},
                  {"devices", devices},
                  {"threads", m.threads},
                  {"read_gbps", to_json(m.read_bytes)},
                  {"read_buffer_bytes", m.buffer_bytes},
                  {"read_beyond_cache", m.beyond_cache},
                  {"int8_gops", to_json(m.int8_ops)},
                  {"bf16_gops", to_json(m.bf16_ops)},
                  {"f32_gops", to_json(m.f32_ops)},
                  {"int8_tile_gops", to_json(m.int8_tiles)},
                  {"bf16_tile_gops", to_json(m.bf16_tiles)},
                  {"meeting_us", m.meeting * 1e6}});
}

int info(const Settings& settings) {
  Team team(settings.threads > 0 ? settings.threads : std::clamp(describe_host().usable_cores, 1, 512));
  const lab::Machine machine = lab::measure_machine(team, {.quick = settings.quick});
  const device::Survey devices = device::survey();
  settings.json ? print_json(machine, devices) : print_text(machine, devices);
  return kSuccess;
}

Action setup(Flags& flags) {
  auto settings = std::make_shared<Settings>();
  flags.flag("--json", settings->json, "one JSON object");
  flags.number("-t,--threads", settings->threads, 1, 512, "threads to measure with, 1 to 512; default: one per core");
  flags.flag("--quick", settings->quick, "shorter runs and a buffer of 256 MiB");
  return [settings] { return info(*settings); };
}

}  // namespace

const Command entry{"describe this machine and measure its bandwidth and arithmetic peaks", setup};

}  // namespace kvasir::cli::commands_info
