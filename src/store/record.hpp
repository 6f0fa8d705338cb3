// A stored record: an envelope, token ids and a payload. The envelope has fingerprint, parent and checksum.
// Only the maker of a record understands the payload. docs/formats/record.md has the layout, byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "store/bytes.hpp"
#include "store/key.hpp"

namespace kvasir::store {

constexpr std::size_t kEnvelopeBytes = 96;  // before the token ids
constexpr std::size_t kPayloadAlign = 16;   // the payload begins at a multiple of it, counted from the record's begin
constexpr std::uint32_t kMaxTokens = 1 << 25;  // of one record: the longest window and two pages
constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 40;

enum class Kind : std::uint8_t { kChunk = 0, kTail = 1 };

// The envelope is the same in both; a tail of version 1 held the ids of its last page only.
constexpr std::uint16_t kNewestVersion = 2;
constexpr std::uint16_t record_version(Kind kind) { return kind == Kind::kTail ? 2 : 1; }

struct RecordHead {
  Kind kind = Kind::kChunk;
  Fingerprint fingerprint;
  Key parent;  // the record that this one continues, or the root. Tiers drop children before parents.
  // What it took to compute the payload, in any unit that is the same for all records of a tier (say microseconds).
  // Finite, not negative. Tiers keep the records that save most of it per byte.
  float cost = 0;
};

// A record that was looked at. Points into its bytes.
struct RecordView {
  RecordHead head;
  std::span<const std::byte> token_bytes;  // little-endian int32
  std::span<const std::byte> payload;

  std::size_t n_tokens() const { return token_bytes.size() / sizeof(std::int32_t); }
  bool tokens_are(std::span<const std::int32_t> tokens) const;
  // How many of the first tokens are the same.
  std::size_t common_prefix(std::span<const std::int32_t> tokens) const;
  void copy_tokens(std::int32_t* out) const;
};

enum class Flaw {
  kNone,
  kDamaged,  // truncated, longer than it says, or its bytes are not those that were written
  kForeign,  // no record, or a whole one with another fingerprint
  kVersion,  // a record of another version of this format
};
std::string_view flaw_name(Flaw flaw);

enum class Check {
  kHead,  // lengths and fields, not the checksum: enough where the bytes never left this process's memory
  kFull,
};

struct Parsed {
  Flaw flaw = Flaw::kNone;
  RecordView record;  // only when there is no flaw
  explicit operator bool() const { return flaw == Flaw::kNone; }
};

// Never throws and reads nothing outside `bytes`, whatever they are. `expected`: null accepts every fingerprint.
Parsed parse_record(std::span<const std::byte> bytes, Check check = Check::kFull,
                    const Fingerprint* expected = nullptr);

// Gathers the parts of the payload behind an envelope: the only copy on the way into any number of tiers. REQUIRES
// finite cost >= 0, at most kMaxTokens tokens and kMaxPayload bytes. Throws std::bad_alloc.
using Pieces = std::span<const std::span<const std::byte>>;
SharedBytes make_record(const RecordHead& head, std::span<const std::int32_t> tokens, Pieces payload);

// The envelope without its payload, for comparisons: equal envelopes are equal records, as they hold the checksum.
// Empty when `bytes` are too short.
std::span<const std::byte> envelope(std::span<const std::byte> bytes);

}  // namespace kvasir::store
