// Finding devices: through a loader, which knows the registered drivers, and from drivers themselves. A driver that
// can be loaded exports clGetExtensionFunctionAddress; that knows clIcdGetPlatformIDsKHR; and every object of its
// begins with a pointer to the table of its functions (cl_khr_icd), in the order of the specification.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "device/driver.hpp"
#include "device/opencl.hpp"

namespace kvasir::device {
namespace {

template <class T>
void set(T& function, void* address) {
  std::memcpy(&function, &address, sizeof address);
}

using Platforms = cl_int (*)(cl_uint, void**, cl_uint*);

// Names a missing function; empty: the table is complete.
std::string from_library(void* library, Api& api) {
  std::string missing;
#define KVASIR_FUNCTION(name, slot, ...)     \
  set(api.name, dlsym(library, "cl" #name)); \
  if (!api.name && missing.empty()) missing = "no cl" #name;
  KVASIR_OPENCL_FUNCTIONS(KVASIR_FUNCTION)
#undef KVASIR_FUNCTION
  return missing;
}

void from_table(void* object, Api& api) {
  void** table = nullptr;
  std::memcpy(&table, object, sizeof table);
#define KVASIR_FUNCTION(name, slot, ...) set(api.name, table[slot]);
  KVASIR_OPENCL_FUNCTIONS(KVASIR_FUNCTION)
#undef KVASIR_FUNCTION
}

std::vector<void*> platforms_of(Platforms get) {
  void* ids[16] = {};
  cl_uint count = 0;
  if (get(16, ids, &count) != 0) return {};
  return std::vector<void*>(ids, ids + std::min<cl_uint>(count, 16));
}

template <class Get>
std::string text_of(Get get, void* object, cl_uint what) {
  char text[8192] = {};  // lists of extensions are long
  if (get(object, what, sizeof text - 1, text, nullptr) != 0) return {};
  std::string s = text;
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s;
}

template <class T>
T number_of(const Api& api, void* device, cl_uint what) {
  T value{};
  return api.GetDeviceInfo(device, what, sizeof value, &value, nullptr) == 0 ? value : T{};
}

// What every kernel takes for granted. Whether bits are right shows the check of a device when it is used.
std::string why_not(const Api& api, void* id, const Limits& limits, cl_ulong floats) {
  if (!number_of<cl_uint>(api, id, kDeviceAvailable)) return "the driver says that it is not available";
  if (!number_of<cl_uint>(api, id, kDeviceCompiler)) return "its driver has no compiler";
  if (!number_of<cl_uint>(api, id, kDeviceLittle)) return "its bytes are in the other order";
  if (!(floats & kFloatNearest)) return "it does not round to nearest";
  if (!(floats & kFloatSubnormals)) return "it has no subnormal numbers";
  if (limits.work_group < 256) return fmt::format("a work group has at most {} items, not 256", limits.work_group);
  if (limits.local_memory < 48 * 1024)
    return fmt::format("a work group has {} KiB of memory, not 48", limits.local_memory / 1024);
  return {};
}

Found describe(const std::shared_ptr<const Api>& api, void* platform, void* id, const std::string& library) {
  Found f;
  f.api = api, f.platform_id = platform, f.id = id, f.library = library;
  f.name = text_of(api->GetDeviceInfo, id, kDeviceName);
  f.vendor = text_of(api->GetDeviceInfo, id, kDeviceVendor);
  f.driver = text_of(api->GetDeviceInfo, id, kDriverVersion);
  f.platform = text_of(api->GetPlatformInfo, platform, kPlatformName);
  const auto type = number_of<cl_ulong>(*api, id, kDeviceType);
  f.kind = type & kTypeGpu ? "gpu" : type & kTypeCpu ? "cpu" : "accelerator";
  const auto floats = number_of<cl_ulong>(*api, id, kDeviceFloat);
  Limits& l = f.limits;
  l.memory = number_of<cl_ulong>(*api, id, kDeviceMemory);
  l.allocation = number_of<cl_ulong>(*api, id, kDeviceAllocation);
  l.local_memory = number_of<cl_ulong>(*api, id, kDeviceLocal);
  l.work_group = number_of<std::size_t>(*api, id, kDeviceWorkGroup);
  l.units = number_of<cl_uint>(*api, id, kDeviceUnits);
  l.exact_division = (floats & kFloatExactDivision) != 0;
  l.in_line_ptx = f.platform == "NVIDIA CUDA";
  l.integer_dots =
      !l.in_line_ptx &&
      text_of(api->GetDeviceInfo, id, kDeviceExtensions).find("cl_khr_integer_dot_product") != std::string::npos;
  f.refused = why_not(*api, id, l, floats);
  return f;
}

// Adds the devices of a platform; returns how many.
int add_devices(const std::shared_ptr<const Api>& api, void* platform, const std::string& library, Survey& s) {
  void* ids[64] = {};
  cl_uint count = 0;
  if (api->GetDeviceIDs(platform, kAllDevices, 64, ids, &count) != 0) return 0;
  count = std::min<cl_uint>(count, 64);
  for (cl_uint i = 0; i < count; ++i) s.devices.push_back(describe(api, platform, ids[i], library));
  return static_cast<int>(count);
}

std::string counted(std::size_t platforms, int devices) {
  return fmt::format("{} platform{}, {} device{}", platforms, platforms == 1 ? "" : "s", devices,
                     devices == 1 ? "" : "s");
}

// A library stays loaded: drivers do not like to be unloaded, and their objects live as long as the program.
void* open_library(const std::string& name, Survey& s) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const why = dlerror();
    s.tried.push_back(fmt::format("{}: {}", name, why ? why : "cannot be loaded"));
  }
  return library;
}

void ask_loader(const std::string& name, void* library, Survey& s) {
  auto api = std::make_shared<Api>();
  Platforms get = nullptr;
  set(get, dlsym(library, "clGetPlatformIDs"));
  const std::string missing = get ? from_library(library, *api) : "no clGetPlatformIDs";
  if (!missing.empty()) {
    s.tried.push_back(fmt::format("{}: {}", name, missing));
    return;
  }
  int devices = 0;
  const std::vector<void*> platforms = platforms_of(get);
  for (void* p : platforms) devices += add_devices(api, p, name, s);
  s.tried.push_back(platforms.empty()
                        ? fmt::format("{}: a loader without drivers (no file in /etc/OpenCL/vendors names one)", name)
                        : fmt::format("{}: {}", name, counted(platforms.size(), devices)));
}

// Platforms that the loader gave already are not added again.
void ask_driver(const std::string& name, void* library, Survey& s) {
  void* (*extension)(const char*) = nullptr;
  set(extension, dlsym(library, "clGetExtensionFunctionAddress"));
  Platforms get = nullptr;
  if (extension) set(get, extension("clIcdGetPlatformIDsKHR"));
  if (!get) {
    s.tried.push_back(fmt::format("{}: no clIcdGetPlatformIDsKHR", name));
    return;
  }
  int devices = 0;
  std::string listed;
  const std::vector<void*> platforms = platforms_of(get);
  for (void* p : platforms) {
    auto api = std::make_shared<Api>();
    from_table(p, *api);
    const std::string platform = text_of(api->GetPlatformInfo, p, kPlatformName);
    const bool known =
        std::any_of(s.devices.begin(), s.devices.end(), [&](const Found& f) { return f.platform == platform; });
    if (known)
      listed = fmt::format("; {} is listed already", platform);
    else
      devices += add_devices(api, p, name, s);
  }
  s.tried.push_back(fmt::format("{}, without a loader: {}{}", name, counted(platforms.size(), devices), listed));
}

}  // namespace

Places places() {
  const char* const wanted = std::getenv("KVASIR_OPENCL");
  if (!wanted || !*wanted) return {};
  if (std::strcmp(wanted, "none") == 0) return {"", {}};
  // A loader exports everything; a driver need not.
  return std::strstr(wanted, "libOpenCL") ? Places{wanted, {}} : Places{"", {wanted}};
}

Survey survey(const Places& where) {
  Survey s;
  if (!where.loader.empty())
    if (void* const library = open_library(where.loader, s)) ask_loader(where.loader, library, s);
  for (const std::string& name : where.drivers)
    if (void* const library = open_library(name, s)) ask_driver(name, library, s);
  if (s.tried.empty()) s.tried.push_back("nothing: KVASIR_OPENCL=none");
  return s;
}

std::string torch_name(const Survey& survey, std::size_t index) {
  const auto kind_of = [](const Found& f) {
    return f.kind != "gpu"                                ? ""
           : f.vendor.find("Intel") != std::string::npos  ? "xpu"
           : f.vendor.find("NVIDIA") != std::string::npos ? "cuda"
                                                          : "";
  };
  const std::string kind = kind_of(survey.devices[index]);
  if (kind.empty()) return {};
  const auto before = std::count_if(survey.devices.begin(), survey.devices.begin() + static_cast<std::ptrdiff_t>(index),
                                    [&](const Found& f) { return kind_of(f) == kind; });
  return fmt::format("{}:{}", kind, before);
}

const Found& choose(const Survey& survey, const std::string& name) {
  const auto fail = [&](const std::string& why) {
    std::string tried;
    for (const std::string& line : survey.tried) tried += (tried.empty() ? "" : "; ") + line;
    return Error(Code::kUnsupported, fmt::format("{} (tried {})", why, tried), "device " + name);
  };
  const Found* found = nullptr;
  if (name == "gpu" || name == "opencl") {
    for (const Found& f : survey.devices)
      if (!found && f.refused.empty() && (name == "opencl" || f.kind == "gpu")) found = &f;
    if (!found) {
      for (const Found& f : survey.devices)
        if (name == "opencl" || f.kind == "gpu") throw fail(fmt::format("{}: {}", f.name, f.refused));
      throw fail(name == "gpu" && !survey.devices.empty() ? "there is no GPU, only `opencl:0`"
                                                          : "there is no OpenCL device");
    }
    return *found;
  }
  const auto colon = name.find(':');
  const std::string kind = name.substr(0, colon), number = colon == std::string::npos ? "" : name.substr(colon + 1);
  const bool whole =
      !number.empty() && number.size() <= 3 && number.find_first_not_of("0123456789") == std::string::npos;
  const bool of_torch = kind == "xpu" || kind == "cuda";
  if (!(of_torch && colon == std::string::npos) && !((of_torch || kind == "opencl") && whole))
    throw Error(Code::kBadInput, "expected cpu, gpu, opencl, opencl:N, xpu or cuda (`kvasir devices` lists them)",
                "device " + name);
  const auto index = static_cast<std::size_t>(whole ? std::stoi(number) : 0);
  if (of_torch) {
    const std::string wanted = fmt::format("{}:{}", kind, index);
    for (std::size_t i = 0; i < survey.devices.size(); ++i) {
      if (torch_name(survey, i) != wanted) continue;
      if (!survey.devices[i].refused.empty())
        throw fail(fmt::format("{}: {}", survey.devices[i].name, survey.devices[i].refused));
      return survey.devices[i];
    }
    throw fail(fmt::format("there {} of {}",
                           index == 0 ? "is no GPU" : fmt::format("are fewer than {} GPUs", index + 1),
                           kind == "xpu" ? "Intel" : "NVIDIA"));
  }
  if (index >= survey.devices.size()) throw fail(fmt::format("there are {} devices", survey.devices.size()));
  if (!survey.devices[index].refused.empty()) throw fail(survey.devices[index].refused);
  return survey.devices[index];
}

}  // namespace kvasir::device
