// KIVI's arrays made on a device, with the processor's bits.
#pragma once

#include <string>

#include "device/compared_kivi.hpp"
#include "device/driver.hpp"
#include "device/programs.hpp"

namespace kvasir::device {

class DeviceKivi final : public ComparedKivi {
 public:
  // folder: of compiled programs, as Programs has it. memory: bytes of a call's arrays that are there together; more
  // heads or rows go piece by piece. 0: a quarter of the device's, or of the largest allocation.
  // options: of what is compiled; a test's, to see what the comparison finds.
  explicit DeviceKivi(const Found& device, std::string folder = Programs::kDefault, std::uint64_t memory = 0,
                      std::string options = kOptions);
  std::string name() const override { return context_.device().name; }

 private:
  struct Kernels {
    Kernel quantize, dequantize, multiply, total;
    bool compiled = false;
  };
  Kernels& kernels(int bits);

  void make_arrays(const float* x, const kv::KiviArrays& to) override;
  void read_arrays(const kv::KiviArrays& from, float* x) override;
  void make_products(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) override;
  // Heads, of `each` bytes, that fit.
  std::int64_t fitting(std::size_t each, std::int64_t heads) const;
  Buffer upload(const void* from, std::size_t bytes) const;
  // Items in work groups of 128.
  void launch(const Kernel& kernel, std::int64_t groups, std::span<const Argument> arguments) const;

  Context context_;
  Programs programs_;
  std::uint64_t memory_;
  std::string options_;
  Kernels kernels_[3];
};

}  // namespace kvasir::device
