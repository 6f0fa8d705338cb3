// KIVI's arrays made by the optional SYCL plug-in, which `./dev sycl` builds. Nothing of SYCL is needed here.
#pragma once

#include <memory>
#include <string>

#include "device/compared_kivi.hpp"

namespace kvasir::device {

struct SyclPlugin;

class SyclKivi final : public ComparedKivi {
 public:
  // device: "sycl", or "sycl:" with what kvasir_sycl_open (device/sycl_plugin.h) takes. library: the plug-in; empty:
  // what KVASIR_SYCL names, else libkvasir_sycl.so where the system looks for libraries. Throws Error(kUnsupported)
  // where the plug-in or the device is not there.
  explicit SyclKivi(const std::string& device, const std::string& library = "");
  ~SyclKivi() override;
  std::string name() const override;

 private:
  void make_arrays(const float* x, const kv::KiviArrays& to) override;
  void read_arrays(const kv::KiviArrays& from, float* x) override;
  void make_products(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) override;

  std::string device_;
  std::unique_ptr<SyclPlugin> plugin_;
  void* handle_ = nullptr;
};

}  // namespace kvasir::device
