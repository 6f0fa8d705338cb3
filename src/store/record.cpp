#include "store/record.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.hpp"

namespace kvasir::store {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

constexpr char kRecordMagic[4] = {'K', 'V', 'r', 'c'};

// docs/formats/record.md. All fields are naturally aligned, so there is no hidden padding.
struct Envelope {
  char magic[4];
  std::uint16_t version;
  std::uint8_t kind;
  std::uint8_t zero8;
  std::byte fingerprint[16];
  std::byte parent[32];
  std::uint32_t n_tokens;
  float cost;
  std::uint64_t payload_bytes;
  std::uint64_t zero64;
  std::uint64_t zero64b;
  std::uint64_t checksum;  // XXH3-64 of the record without these 8 bytes
};
static_assert(sizeof(Envelope) == kEnvelopeBytes && offsetof(Envelope, checksum) == kEnvelopeBytes - 8);

constexpr std::size_t payload_offset(std::size_t n_tokens) {
  return (kEnvelopeBytes + n_tokens * sizeof(std::int32_t) + kPayloadAlign - 1) / kPayloadAlign * kPayloadAlign;
}

class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) {
    if (!bytes.empty()) XXH3_64bits_update(&state_, bytes.data(), bytes.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  alignas(64) XXH3_state_t state_;
};

std::uint64_t record_checksum_of(std::span<const std::byte> record) {
  Checksum sum;
  sum.add(record.first(offsetof(Envelope, checksum)));
  sum.add(record.subspan(kEnvelopeBytes));
  return sum.value();
}

Flaw look(const Envelope& e, std::span<const std::byte> bytes, Check check, const Fingerprint* expected) {
  if (std::memcmp(e.magic, kRecordMagic, sizeof kRecordMagic) != 0) return Flaw::kForeign;
  if (e.version < 1 || e.version > kNewestVersion) return Flaw::kVersion;
  if (e.n_tokens > kMaxTokens || e.payload_bytes > kMaxPayload) return Flaw::kDamaged;
  if (bytes.size() != payload_offset(e.n_tokens) + e.payload_bytes) return Flaw::kDamaged;
  if (e.kind > static_cast<std::uint8_t>(Kind::kTail) || !std::isfinite(e.cost) || e.cost < 0) return Flaw::kDamaged;
  if (e.zero8 != 0 || e.zero64 != 0 || e.zero64b != 0) return Flaw::kDamaged;
  for (std::size_t i = kEnvelopeBytes + e.n_tokens * sizeof(std::int32_t); i < payload_offset(e.n_tokens); ++i)
    if (bytes[i] != std::byte{0}) return Flaw::kDamaged;
  if (check == Check::kFull && record_checksum_of(bytes) != e.checksum) return Flaw::kDamaged;
  if (e.version != record_version(static_cast<Kind>(e.kind))) return Flaw::kVersion;
  if (expected && std::memcmp(e.fingerprint, expected->bytes.data(), sizeof e.fingerprint) != 0) return Flaw::kForeign;
  return Flaw::kNone;
}

}  // namespace

SharedBytes copy_bytes(std::span<const std::byte> bytes) {
  auto block = allocate_block(bytes.size());
  std::copy(bytes.begin(), bytes.end(), block.get());
  const std::span<const std::byte> view(block.get(), bytes.size());
  return {std::move(block), view, true};
}

std::string_view flaw_name(Flaw flaw) {
  switch (flaw) {
    case Flaw::kNone:
      return "none";
    case Flaw::kDamaged:
      return "damaged";
    case Flaw::kForeign:
      return "foreign";
    case Flaw::kVersion:
      return "version";
  }
  return "unknown";
}

bool RecordView::tokens_are(std::span<const std::int32_t> tokens) const {
  return n_tokens() == tokens.size() && common_prefix(tokens) == tokens.size();
}

std::size_t RecordView::common_prefix(std::span<const std::int32_t> tokens) const {
  const auto theirs = std::as_bytes(tokens);
  const std::size_t n = std::min(token_bytes.size(), theirs.size());
  const auto [mine, other] =
      std::mismatch(token_bytes.begin(), token_bytes.begin() + static_cast<std::ptrdiff_t>(n), theirs.begin());
  return static_cast<std::size_t>(mine - token_bytes.begin()) / sizeof(std::int32_t);
}

void RecordView::copy_tokens(std::int32_t* out) const {
  if (!token_bytes.empty()) std::memcpy(out, token_bytes.data(), token_bytes.size());
}

Parsed parse_record(std::span<const std::byte> bytes, Check check, const Fingerprint* expected) {
  Parsed out;
  if (bytes.size() < kEnvelopeBytes) {
    const bool ours =
        bytes.size() >= sizeof kRecordMagic && std::memcmp(bytes.data(), kRecordMagic, sizeof kRecordMagic) == 0;
    out.flaw = ours ? Flaw::kDamaged : Flaw::kForeign;
    return out;
  }
  Envelope e;
  std::memcpy(&e, bytes.data(), sizeof e);
  out.flaw = look(e, bytes, check, expected);
  if (out.flaw != Flaw::kNone) return out;
  RecordView& r = out.record;
  r.head.kind = static_cast<Kind>(e.kind);
  std::memcpy(r.head.fingerprint.bytes.data(), e.fingerprint, sizeof e.fingerprint);
  std::memcpy(r.head.parent.bytes.data(), e.parent, sizeof e.parent);
  r.head.cost = e.cost;
  r.token_bytes = bytes.subspan(kEnvelopeBytes, e.n_tokens * sizeof(std::int32_t));
  r.payload = bytes.subspan(payload_offset(e.n_tokens));
  return out;
}

SharedBytes make_record(const RecordHead& head, std::span<const std::int32_t> tokens, Pieces payload) {
  std::uint64_t payload_bytes = 0;
  for (const auto part : payload) payload_bytes += part.size();
  KVASIR_CHECK(std::isfinite(head.cost) && head.cost >= 0);
  KVASIR_CHECK(tokens.size() <= kMaxTokens && payload_bytes <= kMaxPayload);

  Envelope e{};
  std::memcpy(e.magic, kRecordMagic, sizeof kRecordMagic);
  e.version = record_version(head.kind);
  e.kind = static_cast<std::uint8_t>(head.kind);
  std::memcpy(e.fingerprint, head.fingerprint.bytes.data(), sizeof e.fingerprint);
  std::memcpy(e.parent, head.parent.bytes.data(), sizeof e.parent);
  e.n_tokens = static_cast<std::uint32_t>(tokens.size());
  e.cost = head.cost;
  e.payload_bytes = payload_bytes;

  const std::size_t begin = payload_offset(tokens.size());
  const std::size_t size = begin + payload_bytes;
  auto block = allocate_block(size);
  std::byte* const out = block.get();
  std::memset(out + kEnvelopeBytes, 0, begin - kEnvelopeBytes);  // the gap before the payload is zero
  if (!tokens.empty()) std::memcpy(out + kEnvelopeBytes, tokens.data(), tokens.size_bytes());
  Checksum sum;
  sum.add(std::as_bytes(std::span(&e, 1)).first(offsetof(Envelope, checksum)));
  sum.add({out + kEnvelopeBytes, begin - kEnvelopeBytes});
  std::byte* at = out + begin;
  for (const auto part : payload) {
    if (part.empty()) continue;
    std::memcpy(at, part.data(), part.size());
    sum.add({at, part.size()});  // while it is in the cache
    at += part.size();
  }
  e.checksum = sum.value();
  std::memcpy(out, &e, sizeof e);
  return {std::move(block), {out, size}, true};
}

std::span<const std::byte> envelope(std::span<const std::byte> bytes) {
  return bytes.size() < kEnvelopeBytes ? std::span<const std::byte>() : bytes.first(kEnvelopeBytes);
}

}  // namespace kvasir::store
