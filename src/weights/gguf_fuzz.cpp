// libFuzzer target: any bytes are either a file whose tensors lie inside it, or an Error.
#include <cstdint>
#include <cstdlib>

#include "base/error.hpp"
#include "weights/gguf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto contents = kvasir::weights::parse_gguf(file, "fuzz.gguf");
    unsigned sum = 0;
    for (const auto& t : contents.tensors) {
      if (t.bytes.empty() || t.rank < 1 || t.quant.empty()) std::abort();
      for (const std::byte b : t.bytes) sum += std::to_integer<unsigned>(b);
    }
    asm volatile("" : : "r"(sum));  // the reads stay
  } catch (const kvasir::Error& e) {
    if (e.context() != "fuzz.gguf" || e.message().empty()) std::abort();
  }
  return 0;
}
