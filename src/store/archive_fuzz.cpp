// Archives of any bytes are refused with an error or read as what they say.
//
// Input: with bit 0 of the first byte the checksums and lengths of the archive are made to fit first, so that what
// stands behind them is reached.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.hpp"
#include "store/archive.hpp"
#include "store/record.hpp"

namespace kvasir::store {
namespace {

constexpr std::size_t kHead = 64;

void put(std::span<std::byte> at, std::uint64_t value) { std::memcpy(at.data(), &value, sizeof value); }

void seal(std::span<std::byte> bytes) {
  if (bytes.size() < kHead) return;
  put(bytes.subspan(16), bytes.size() - kHead);
  put(bytes.subspan(56), XXH3_64bits(bytes.data(), 56));
  for (std::size_t at = kHead; at + kHead <= bytes.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data() + at + 40, sizeof size);
    if (size > bytes.size() - at - kHead) return;
    std::vector<std::byte> summed(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(at + 48));
    const auto record = bytes.subspan(at + kHead, size);
    summed.insert(summed.end(), record.begin(), record.end());
    put(bytes.subspan(at + 48), XXH3_64bits(summed.data(), summed.size()));
    at += kHead + (size + 15) / 16 * 16;
  }
}

}  // namespace
}  // namespace kvasir::store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir;
  if (size == 0) return 0;
  const auto given = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> bytes(given.begin(), given.end());
  if (data[0] & 1) store::seal(bytes);
  try {
    for (const store::ArchiveEntry& e : store::read_archive(bytes, "input")) {
      if (e.record.data() < bytes.data() || e.record.data() + e.record.size() > bytes.data() + bytes.size())
        std::abort();
      if (!store::parse_record(e.record)) std::abort();
    }
  } catch (const Error& e) {
    if (e.code() != Code::kBadInput) std::abort();
  }
  return 0;
}
