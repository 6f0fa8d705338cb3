// Seals pages of KIVI on a device: int2_channel, int4_channel (keys), int2_token, int4_token (values), with the
// processor's bytes.
#pragma once

#include <span>

#include "device/driver.hpp"
#include "device/programs.hpp"
#include "kv/codec.hpp"

namespace kvasir::device {

class KiviSealer {
 public:
  // Throws Error(kUnsupported) for bits other than 2 and 4 and for heads that the kernel has no room for.
  KiviSealer(const Context& context, Programs& programs, kv::Side side, int d, int bits, int group);

  std::size_t page_bytes() const { return page_bytes_; }
  // raw: `pages` blocks of f16, keys (d, 128), values (128, d), one behind the other. The first `skip` tokens of each
  // are sinks. to: pages * page_bytes().
  void seal(const std::byte* raw, int pages, int skip, std::byte* to);

 private:
  const Context& context_;
  Kernel kernel_;
  std::size_t raw_bytes_;
  std::size_t page_bytes_;
};

}  // namespace kvasir::device
