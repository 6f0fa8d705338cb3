// kvasir devices [--json] [--check]: the devices beside the processor, what was tried, why something is not used.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "device/check.hpp"
#include "device/integer_dots.hpp"
#include "device/kivi.hpp"
#include "device/multiply.hpp"
#include "kv/spec.hpp"

namespace kvasir::cli::commands_devices {
namespace {

struct Settings {
  bool json = false;
  bool check = false;
};

// Pages of what presets store are folded by both, KIVI's arrays made and weights multiplied; empty: every number is the
// processor's.
std::string check_bits(const device::Found& found) {
  try {
    const device::Context context(device::with_checked_dots(found));
    device::Programs programs;
    for (const char* pair :
         {"rq5/rq4", "rq4/rq3", "rq3/rq2", "rq8", "f16", "int4_channel/int4_token", "int2_channel/int2_token", "hqq4"})
      for (const int d : {64, 128}) {
        const kv::CodecPair names = kv::parse_pair(pair, "device");
        const auto k = kv::parse_codec(names.k, d, kv::Side::kKeys, "device");
        const auto v = kv::parse_codec(names.v, d, kv::Side::kValues, "device");
        device::Folder folder(context, programs, {k.codec, v.codec, k.params, v.params, d, d});
        device::require(context, folder);
      }
    device::DeviceKivi(found).require();
    device::Multiplier multiplier(context, programs, found.limits.in_line_ptx);
    for (const device::WeightForm& form : device::weight_forms()) device::require(context, multiplier, form);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

int devices(const Settings& settings) {
  const device::Survey survey = device::survey();
  bool failed = false;
  for (std::size_t i = 0; i < survey.devices.size(); ++i) {
    const device::Found& f = survey.devices[i];
    std::string state = f.refused;
    const bool checked = settings.check && state.empty();
    if (checked) state = check_bits(f);
    failed = failed || (checked && !state.empty());
    const std::string name = fmt::format("opencl:{}", i);
    if (settings.json) {
      nlohmann::ordered_json row = {{"device", name},         {"name", f.name},
                                    {"kind", f.kind},         {"torch", device::torch_name(survey, i)},
                                    {"platform", f.platform}, {"driver", f.driver},
                                    {"library", f.library},   {"memory", f.limits.memory},
                                    {"refused", state}};
      if (checked) row["bits_equal"] = state.empty();
      print_json_row(row);
      continue;
    }
    const std::string torch = device::torch_name(survey, i);
    fmt::print("{:<10} {} ({}{}), {} of memory, driver {}, through {}\n", name, f.name, f.kind,
               torch.empty() ? "" : ", " + torch, human_bytes(f.limits.memory), f.driver, f.library);
    if (!state.empty()) fmt::print("{:<10} not used: {}\n", "", state);
    if (checked && state.empty()) fmt::print("{:<10} has the processor's bits\n", "");
  }
  if (!settings.json) {
    if (survey.devices.empty()) fmt::print("no device beside the processor\n");
    for (const std::string& line : survey.tried) fmt::print("tried      {}\n", line);
  }
  return failed ? kFailure : kSuccess;
}

Action setup(Flags& flags) {
  const auto settings = std::make_shared<Settings>();
  flags.flag("--json", settings->json, "one object per device");
  flags.flag("--check", settings->check,
             "fold pages of the presets' codecs there, make KIVI's arrays, and compare them with the processor's");
  return [settings] { return devices(*settings); };
}

}  // namespace

const Command entry{"list the devices beside the processor", setup};

}  // namespace kvasir::cli::commands_devices
