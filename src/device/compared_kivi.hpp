// What makers of KIVI's arrays beside the processor share: none is used before its bits were compared.
#pragma once

#include <mutex>
#include <string>

#include "kv/kivi_arrays.hpp"

namespace kvasir::device {

// Any number of threads; one works at a time. Before the first use of 2, 4 or 8 bits a few arrays are compared with the
// processor's: a maker with other bits throws Error(kUnsupported) that names the first number.
class ComparedKivi : public kv::KiviMaker {
 public:
  // Compares with 2, 4 and 8 bits now. Throws as a first use does.
  void require();

 protected:
  void do_quantize(const float* x, const kv::KiviArrays& to) final;
  void do_dequantize(const kv::KiviArrays& from, float* x) final;
  void do_multiply(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) final;

 private:
  // KiviMaker's do_quantize, do_dequantize and do_multiply, one at a time and not compared.
  virtual void make_arrays(const float* x, const kv::KiviArrays& to) = 0;
  virtual void read_arrays(const kv::KiviArrays& from, float* x) = 0;
  virtual void make_products(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) = 0;
  // REQUIRES: mutex_ is held.
  void require_compared(int bits);
  void compare(int bits);

  std::mutex mutex_;
  bool compared_[3] = {};
};

}  // namespace kvasir::device
