// KIVI's arrays made on a device, with the processor's bits.
#pragma once

#include <mutex>
#include <string>

#include "device/driver.hpp"
#include "device/programs.hpp"
#include "kv/kivi_arrays.hpp"

namespace kvasir::device {

// Any number of threads; one works at a time. Before the first use of 2, 4 or 8 bits a few arrays are compared with the
// processor's: a device with other bits throws Error(kUnsupported) that names the first number.
class DeviceKivi final : public kv::KiviMaker {
 public:
  // folder: of compiled programs, as Programs has it. memory: bytes of a call's arrays that are there together; more
  // heads or rows go piece by piece. 0: a quarter of the device's, or of the largest allocation.
  // options: of what is compiled; a test's, to see what the comparison finds.
  explicit DeviceKivi(const Found& device, std::string folder = Programs::kDefault, std::uint64_t memory = 0,
                      std::string options = kOptions);
  // Compares with 2, 4 and 8 bits now. Throws as a first use does.
  void require();
  std::string name() const override { return context_.device().name; }

 protected:
  void do_quantize(const float* x, const kv::KiviArrays& to) override;
  void do_dequantize(const kv::KiviArrays& from, float* x) override;
  void do_multiply(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) override;

 private:
  struct Kernels {
    Kernel quantize, dequantize, multiply, total;
    bool compared = false;
  };
  // Compiled and compared. REQUIRES: mutex_ is held.
  Kernels& kernels(int bits);
  void compare(Kernels& k, int bits);

  void make_arrays(Kernels& k, const float* x, const kv::KiviArrays& to);
  void read_arrays(Kernels& k, const kv::KiviArrays& from, float* x);
  void make_products(Kernels& k, const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out);
  // Heads, of `each` bytes, that fit.
  std::int64_t fitting(std::size_t each, std::int64_t heads) const;
  Buffer upload(const void* from, std::size_t bytes) const;
  // Items in work groups of 128.
  void launch(const Kernel& kernel, std::int64_t groups, std::span<const Argument> arguments) const;

  Context context_;
  Programs programs_;
  std::uint64_t memory_;
  std::string options_;
  std::mutex mutex_;
  Kernels kernels_[3];
};

}  // namespace kvasir::device
