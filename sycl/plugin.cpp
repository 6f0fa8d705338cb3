// The optional SYCL plug-in: KIVI's arrays on a SYCL device. The host side is plain C++ for any compiler; kivi.sycl is
// compiled when it is first used, by the runtime (sycl_ext_oneapi_kernel_compiler). See docs/gpu.md.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

#include "device/sycl_plugin.h"

namespace {

namespace syclexp = sycl::ext::oneapi::experimental;

constexpr std::uint64_t kItems = 128;  // of a work group
constexpr std::uint64_t kBlock = 256;  // kv::kMultiplyDepth
const char* const kText =
#include "kivi.sycl"
    ;

#ifndef KVASIR_SYCL_MEMORY
#define KVASIR_SYCL_MEMORY 0  // bytes for a call's arrays; 0: a quarter of the device's. `./dev sycl` tries few
#endif

struct Kernels {
  sycl::kernel quantize, dequantize, multiply, total;
};

struct Device {
  sycl::queue queue;  // in order
  std::string name;
  std::uint64_t memory = 0;  // bytes of a call's arrays that are there together, but for one head's
  std::map<int, Kernels> kernels{};
};

// Shapes of the arrays, as the kernels have them.
struct Shape {
  std::uint64_t heads, depth, lanes, groups, by_k, by_l, codes, scales, numbers;  // the last three: bytes of a head
  explicit Shape(const kvasir_sycl_arrays& a) {
    const auto tokens = static_cast<std::uint64_t>(a.tokens), channels = static_cast<std::uint64_t>(a.head_dim);
    heads = static_cast<std::uint64_t>(a.heads);
    depth = a.values ? tokens : channels, lanes = a.values ? channels : tokens;
    by_k = a.values ? channels : 1, by_l = a.values ? 1 : channels;
    groups = lanes / static_cast<std::uint64_t>(a.group);
    codes = depth * lanes * static_cast<std::uint64_t>(a.bits) / 8;
    scales = depth * groups * (a.wide ? 4 : 2);
    numbers = depth * lanes * sizeof(float);
  }
};

// Device memory of one call.
class Memory {
 public:
  explicit Memory(sycl::queue& queue) : queue_(queue) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    try {
      queue_.wait();  // a copy may be under way when the next array has no memory
    } catch (...) {   // a device that is gone: what the call throws says so
    }
    for (void* p : all_) sycl::free(p, queue_);
  }
  template <class T = unsigned char>
  T* make(std::uint64_t bytes) {
    void* const p = sycl::malloc_device(bytes, queue_);
    if (!p) throw std::runtime_error("no memory for " + std::to_string(bytes) + " bytes");
    all_.push_back(p);
    return static_cast<T*>(p);
  }
  template <class T>
  T* copy(const T* from, std::uint64_t bytes) {
    T* const p = make<T>(bytes);
    queue_.memcpy(p, from, bytes);
    return p;
  }

 private:
  sycl::queue& queue_;
  std::vector<void*> all_;
};

// The wheel's OpenCL loader reads this variable when the first device is looked for: KVASIR_SYCL_DRIVER, a driver
// beside those that the machine has. The variable is as it was behind that, for the OpenCL of the program itself.
std::vector<sycl::device> devices_there() {
  const char* const set = std::getenv("OCL_ICD_FILENAMES");
  struct Unset {
    bool ours;
    ~Unset() {
      if (ours) unsetenv("OCL_ICD_FILENAMES");
    }
  };
  std::vector<sycl::device> all;
  {
    if (!set) setenv("OCL_ICD_FILENAMES", KVASIR_SYCL_DRIVER, 1);
    const Unset behind{.ours = !set};
    all = sycl::device::get_devices();
  }
  std::erase_if(all, [](sycl::device& d) {
    return !d.has(sycl::aspect::usm_device_allocations) || !d.ext_oneapi_can_build(syclexp::source_language::sycl);
  });
  std::stable_partition(all.begin(), all.end(), [](const sycl::device& d) { return d.is_gpu(); });
  return all;
}

std::string name_of(const sycl::device& d) { return d.get_info<sycl::info::device::name>(); }

sycl::device choose(const std::string& wanted) {
  const std::vector<sycl::device> all = devices_there();
  const auto lower = [](std::string s) {
    for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return s;
  };
  const bool number = !wanted.empty() && wanted.find_first_not_of("0123456789") == std::string::npos;
  std::string there;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const sycl::device& d = all[i];
    const bool kind = (wanted == "gpu" && d.is_gpu()) || (wanted == "cpu" && d.is_cpu());
    if (number ? std::to_string(i) == wanted : kind || lower(name_of(d)).find(lower(wanted)) != std::string::npos)
      return d;
    there += (i ? ", " : "") + std::to_string(i) + ": " + name_of(d);
  }
  throw std::runtime_error("no device of that name; " + (all.empty() ? "there are none" : "there are " + there));
}

Kernels& kernels(Device& d, int bits) {
  if (const auto found = d.kernels.find(bits); found != d.kernels.end()) return found->second;
  const std::string text =
      "#define BITS " + std::to_string(bits) + "\n#define BLOCK " + std::to_string(kBlock) + "\n" + kText;
  // As the text's pragma says. Whether division is rounded to nearest, too, the caller's comparison decides.
  const std::vector<std::string> options{"-ffp-contract=off"};
  std::string log;
  try {
    auto source =
        syclexp::create_kernel_bundle_from_source(d.queue.get_context(), syclexp::source_language::sycl, text);
    auto built = syclexp::build(source, syclexp::properties{syclexp::build_options{options}, syclexp::save_log{&log}});
    auto get = [&](const char* name) { return built.ext_oneapi_get_kernel(name); };
    return d.kernels
        .emplace(bits, Kernels{get("kivi_quantize"), get("kivi_dequantize"), get("kivi_multiply"), get("kivi_total")})
        .first->second;
  } catch (const std::exception& e) {
    throw std::runtime_error(std::string("kivi.sycl was not compiled: ") + e.what() + (log.empty() ? "" : "\n" + log));
  }
}

template <class... Arguments>
void launch(Device& d, const sycl::kernel& kernel, std::uint64_t work_groups, Arguments... arguments) {
  d.queue.submit([&](sycl::handler& h) {
    h.set_args(arguments...);
    h.parallel_for(sycl::nd_range<1>(work_groups * kItems, kItems), kernel);
  });
}

// Calls f(first, count) for as many heads as fit, of `each` bytes.
template <class F>
void by_heads(const Device& d, std::uint64_t heads, std::uint64_t each, const F& f) {
  const std::uint64_t most = std::clamp<std::uint64_t>(d.memory / each, 1, heads);
  for (std::uint64_t first = 0; first < heads; first += most) f(first, std::min(most, heads - first));
}

void quantize(Device& d, const float* x, const kvasir_sycl_arrays& to) {
  const Shape s(to);
  const Kernels& k = kernels(d, to.bits);
  by_heads(d, s.heads, s.numbers + s.codes + 2 * s.scales, [&](std::uint64_t h, std::uint64_t n) {
    Memory memory(d.queue);
    const float* const from = memory.copy(x + h * s.depth * s.lanes, n * s.numbers);
    unsigned char* const codes = memory.make(n * s.codes);
    unsigned char *const scales = memory.make(n * s.scales), *const minima = memory.make(n * s.scales);
    const std::uint64_t items = n * s.depth * s.groups;
    launch(d, k.quantize, (items + kItems - 1) / kItems, from, codes, scales, minima, items, s.depth, s.lanes,
           static_cast<std::uint64_t>(to.group), s.by_k, s.by_l, static_cast<int>(to.wide));
    d.queue.memcpy(to.codes + h * s.codes, codes, n * s.codes);
    d.queue.memcpy(to.scales + h * s.scales, scales, n * s.scales);
    d.queue.memcpy(to.minima + h * s.scales, minima, n * s.scales);
    d.queue.wait_and_throw();
  });
}

void dequantize(Device& d, const kvasir_sycl_arrays& from, float* x) {
  const Shape s(from);
  const Kernels& k = kernels(d, from.bits);
  by_heads(d, s.heads, s.numbers + s.codes + 2 * s.scales, [&](std::uint64_t h, std::uint64_t n) {
    Memory memory(d.queue);
    const unsigned char* const codes = memory.copy(from.codes + h * s.codes, n * s.codes);
    const unsigned char* const scales = memory.copy(from.scales + h * s.scales, n * s.scales);
    const unsigned char* const minima = memory.copy(from.minima + h * s.scales, n * s.scales);
    float* const to = memory.make<float>(n * s.numbers);
    const std::uint64_t items = n * s.codes;
    launch(d, k.dequantize, (items + kItems - 1) / kItems, codes, scales, minima, to, items, s.depth, s.lanes,
           static_cast<std::uint64_t>(from.group), s.by_k, s.by_l, static_cast<int>(from.wide));
    d.queue.memcpy(x + h * s.depth * s.lanes, to, n * s.numbers);
    d.queue.wait_and_throw();
  });
}

void multiply(Device& d, const float* a, std::uint64_t rows, const kvasir_sycl_arrays& by, float* out) {
  const Shape s(by);
  const Kernels& k = kernels(d, by.bits);
  const std::uint64_t blocks = (s.depth + kBlock - 1) / kBlock;
  const std::uint64_t row = (s.depth + (blocks + 1) * s.lanes) * sizeof(float);  // a, the sums of blocks, out
  by_heads(d, s.heads, s.codes + 2 * s.scales + std::min<std::uint64_t>(rows, 8) * row,
           [&](std::uint64_t h, std::uint64_t n) {
             Memory held(d.queue);
             const unsigned char* const codes = held.copy(by.codes + h * s.codes, n * s.codes);
             const unsigned char* const scales = held.copy(by.scales + h * s.scales, n * s.scales);
             const unsigned char* const minima = held.copy(by.minima + h * s.scales, n * s.scales);
             // Rows of one head may come piece by piece, those of several are there as a whole.
             const std::uint64_t most = n > 1 ? rows : std::clamp<std::uint64_t>(d.memory / row / 8 * 8, 8, rows + 8);
             for (std::uint64_t first = 0; first < rows; first += most) {
               const std::uint64_t count = std::min(most, rows - first), all = n * count;
               Memory memory(d.queue);
               const float* const x = memory.copy(a + (h * rows + first) * s.depth, all * s.depth * sizeof(float));
               float* const sums = memory.make<float>(all * blocks * s.lanes * sizeof(float));
               float* const total = memory.make<float>(all * s.lanes * sizeof(float));
               launch(d, k.multiply, (s.lanes + 127) / 128 * blocks * ((count + 7) / 8) * n, x, codes, scales, minima,
                      sums, s.depth, s.lanes, static_cast<std::uint64_t>(by.group), count, static_cast<int>(by.wide));
               launch(d, k.total, (all * s.lanes + kItems - 1) / kItems, static_cast<const float*>(sums), total,
                      all * s.lanes, s.lanes, blocks);
               d.queue.memcpy(out + (h * rows + first) * s.lanes, total, all * s.lanes * sizeof(float));
               d.queue.wait_and_throw();
             }
           });
}

// NULL, or what was thrown.
template <class F>
const char* said(const F& f) {
  thread_local std::string why;
  try {
    f();
    return nullptr;
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
    why = "it threw something unknown";
  }
  return why.c_str();
}

Device& opened(void* handle) { return *static_cast<Device*>(handle); }

}  // namespace

int kvasir_sycl_version() { return kKvasirSyclVersion; }

const char* kvasir_sycl_open(const char* device, void** handle) {
  return said([&] {
    const sycl::device d = choose(device);
    const auto whole = d.get_info<sycl::info::device::global_mem_size>(),
               most = d.get_info<sycl::info::device::max_mem_alloc_size>();
    // Without a handler of its own SYCL ends the program when a device fails.
    const auto fails = [](const sycl::exception_list& all) {
      for (const std::exception_ptr& e : all) std::rethrow_exception(e);
    };
    *handle =
        new Device{.queue = sycl::queue(d, fails, sycl::property::queue::in_order()),
                   .name = name_of(d) + " (SYCL, " + d.get_platform().get_info<sycl::info::platform::name>() + ")",
                   .memory = KVASIR_SYCL_MEMORY > 0 ? KVASIR_SYCL_MEMORY : std::min(whole / 4, most)};
  });
}

void kvasir_sycl_close(void* handle) { delete static_cast<Device*>(handle); }
const char* kvasir_sycl_name(void* handle) { return opened(handle).name.c_str(); }

const char* kvasir_sycl_quantize(void* handle, const float* x, const kvasir_sycl_arrays* to) {
  return said([&] { quantize(opened(handle), x, *to); });
}
const char* kvasir_sycl_dequantize(void* handle, const kvasir_sycl_arrays* from, float* x) {
  return said([&] { dequantize(opened(handle), *from, x); });
}
const char* kvasir_sycl_multiply(void* handle, const float* a, int64_t rows, const kvasir_sycl_arrays* by, float* out) {
  return said([&] { multiply(opened(handle), a, static_cast<std::uint64_t>(rows), *by, out); });
}
