// Any bytes: normal forms are stable and agree with each other.
#include <cstdint>
#include <cstdlib>

#include "unicode/normal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::unicode;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string c = nfc(text), d = nfd(text);
  if (nfc(c) != c || nfd(d) != d || nfc(d) != c || nfd(c) != d || (is_nfc(text) && c != text)) std::abort();
  return 0;
}
