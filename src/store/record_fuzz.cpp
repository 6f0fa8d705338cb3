// Any bytes as a stored record: they are refused, or what is read of them lies inside and writes the same bytes again.
//
// Input: the first byte chooses: bit 0 a checksum that fits is put in first (so that what stands behind it is reached),
// bit 1 a fingerprint is expected, bit 2 only the head is checked.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/record.hpp"

namespace kvasir::store {
namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void seal(std::span<std::byte> bytes) {
  if (bytes.size() < kEnvelopeBytes) return;
  std::vector<std::byte> rest(bytes.begin(), bytes.end());
  rest.erase(rest.begin() + kEnvelopeBytes - 8, rest.begin() + kEnvelopeBytes);
  const std::uint64_t sum = XXH3_64bits(rest.data(), rest.size());
  std::memcpy(bytes.data() + kEnvelopeBytes - 8, &sum, sizeof sum);
}

void check(std::span<const std::byte> bytes, int choice) {
  const Fingerprint zero{};
  const Check depth = (choice & 4) != 0 ? Check::kHead : Check::kFull;
  const Parsed parsed = parse_record(bytes, depth, (choice & 2) != 0 ? &zero : nullptr);
  if (!parsed) return;
  const RecordView& r = parsed.record;
  require(inside(r.payload, bytes) && inside(r.token_bytes, bytes));
  require((choice & 2) == 0 || r.head.fingerprint == zero);
  std::vector<std::int32_t> tokens(r.n_tokens());
  r.copy_tokens(tokens.data());
  require(r.tokens_are(tokens));
  const std::span<const std::byte> parts[] = {r.payload.first(r.payload.size() / 2),
                                              r.payload.subspan(r.payload.size() / 2)};
  const SharedBytes again = make_record(r.head, tokens, parts);
  require(again.bytes.size() == bytes.size());
  require(std::memcmp(again.bytes.data(), bytes.data(), kEnvelopeBytes - 8) == 0);
  require(std::memcmp(again.bytes.data() + kEnvelopeBytes, bytes.data() + kEnvelopeBytes,
                      bytes.size() - kEnvelopeBytes) == 0);
}

}  // namespace
}  // namespace kvasir::store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> bytes(size - 1);
  if (size > 1) std::memcpy(bytes.data(), data + 1, size - 1);
  if ((data[0] & 1) != 0) kvasir::store::seal(bytes);
  kvasir::store::check(bytes, data[0]);
  return 0;
}
