#include "device/sycl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "device/sycl_plugin.h"

namespace kvasir::device {

struct SyclPlugin {
  decltype(&kvasir_sycl_version) version;
  decltype(&kvasir_sycl_open) open;
  decltype(&kvasir_sycl_close) close;
  decltype(&kvasir_sycl_name) name;
  decltype(&kvasir_sycl_quantize) quantize;
  decltype(&kvasir_sycl_dequantize) dequantize;
  decltype(&kvasir_sycl_multiply) multiply;
};

namespace {

// It stays loaded, as drivers do: the SYCL runtime does not like to be unloaded.
std::unique_ptr<SyclPlugin> load_plugin(std::string library, const std::string& device) {
  const auto fail = [&](const std::string& why) { return Error(Code::kUnsupported, why, "device " + device); };
  if (const char* const named = std::getenv("KVASIR_SYCL"); library.empty() && named) library = named;
  if (library.empty()) library = "libkvasir_sycl.so";
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    const char* const why = dlerror();
    throw fail(fmt::format("the SYCL plug-in was not loaded ({}); `./dev sycl` builds it, and KVASIR_SYCL names it",
                           why ? why : library));
  }
  auto plugin = std::make_unique<SyclPlugin>();
  const auto find = [&](auto& function, const char* symbol) {
    void* const address = dlsym(opened, symbol);
    if (!address) throw fail(fmt::format("{} is no SYCL plug-in of Kvasir: it has no {}", library, symbol));
    std::memcpy(&function, &address, sizeof address);
  };
  find(plugin->version, "kvasir_sycl_version");
  if (const int version = plugin->version(); version != kKvasirSyclVersion)
    throw fail(fmt::format("{} has version {}, expected {}: `./dev sycl` builds it anew", library, version,
                           static_cast<int>(kKvasirSyclVersion)));
  find(plugin->open, "kvasir_sycl_open");
  find(plugin->close, "kvasir_sycl_close");
  find(plugin->name, "kvasir_sycl_name");
  find(plugin->quantize, "kvasir_sycl_quantize");
  find(plugin->dequantize, "kvasir_sycl_dequantize");
  find(plugin->multiply, "kvasir_sycl_multiply");
  return plugin;
}

void require_done(const char* why, const std::string& device) {
  if (why) throw Error(Code::kUnsupported, why, "device " + device);
}

kvasir_sycl_arrays plain(const kv::KiviArrays& a) {
  return {.values = a.values,
          .wide = a.wide,
          .bits = a.bits,
          .group = a.group,
          .heads = a.heads,
          .tokens = a.tokens,
          .head_dim = a.head_dim,
          .codes = reinterpret_cast<unsigned char*>(a.codes),
          .scales = reinterpret_cast<unsigned char*>(a.scales),
          .minima = reinterpret_cast<unsigned char*>(a.minima)};
}

}  // namespace

SyclKivi::SyclKivi(const std::string& device, const std::string& library)
    : device_(device), plugin_(load_plugin(library, device)) {
  const auto colon = device.find(':');
  require_done(plugin_->open(colon == std::string::npos ? "" : device.c_str() + colon + 1, &handle_), device_);
}

SyclKivi::~SyclKivi() { plugin_->close(handle_); }

std::string SyclKivi::name() const { return plugin_->name(handle_); }

void SyclKivi::make_arrays(const float* x, const kv::KiviArrays& to) {
  const kvasir_sycl_arrays arrays = plain(to);
  require_done(plugin_->quantize(handle_, x, &arrays), device_);
}

void SyclKivi::read_arrays(const kv::KiviArrays& from, float* x) {
  const kvasir_sycl_arrays arrays = plain(from);
  require_done(plugin_->dequantize(handle_, &arrays, x), device_);
}

void SyclKivi::make_products(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) {
  const kvasir_sycl_arrays arrays = plain(by);
  require_done(plugin_->multiply(handle_, a, rows, &arrays, out), device_);
}

}  // namespace kvasir::device
