// What a record is called: a keyed hash over everything that it depends on.
//
//   root     = H(-,      "kvasir.r", fingerprint, salt)
//   chunk i  = H(parent, "kvasir.c", token ids of chunk i)       parent: the key of chunk i - 1, or the root
//   tail     = H(chunk,  "kvasir.t", token ids)                  which ones: store/tail.hpp
//   content  = H(-,      "kvasir.x", fingerprint, token ids)     the same text anywhere: reuse of it is approximate
//   prefix   = H(secret, "kvasir.p", scope, bytes)               names no record: see serve/prefix_id.hpp
//   place    = H(secret, "kvasir.a", ...)                        names no record: see serve/turns.cpp
//   rows     = H(-,      "kvasir.e", ...)                        names no record: see model/rows.hpp
//
// H(k, ...) is BLAKE2b-256 keyed with k (RFC 7693) over the fields one after the other; all but the last have a fixed
// size, the label has 8 bytes and an id is a little-endian int32. Without a tenant's salt nobody can name, and so
// read or probe, that tenant's records. Keys say where to look; parent and token ids are compared on every hit.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvasir::store {

struct Key {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const Key&) const = default;
};

// Of everything that makes stored bytes mean something else: model, codecs, rope, adapters, version of the format.
struct Fingerprint {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const Fingerprint&) const = default;
};

Fingerprint fingerprint_of(std::string_view description);  // BLAKE2b-128 of the text

Key root_key(const Fingerprint& fingerprint, std::string_view tenant_salt = {});
Key chunk_key(const Key& parent, std::span<const std::int32_t> tokens);
Key tail_key(const Key& parent, std::span<const std::int32_t> tokens);
Key content_key(const Fingerprint& fingerprint, std::span<const std::int32_t> tokens);
Key prefix_key(const Key& secret, const Fingerprint& scope, std::span<const std::byte> beginning);

Key random_key();  // a secret

// A key over bytes that come in parts. A copy goes on by itself.
class KeyStream {
 public:
  // REQUIRES: `label` has 8 bytes.
  KeyStream(const Key& secret, std::string_view label);
  void add(std::span<const std::byte> bytes);
  Key key() const;  // of all bytes so far

 private:
  struct alignas(64) State {  // of libsodium's BLAKE2b
    std::array<std::byte, 384> bytes;
  };
  State state_;
};

std::string to_hex(std::span<const std::byte> bytes);  // lower case
inline std::string to_hex(const Key& key) { return to_hex(key.bytes); }
inline std::string to_hex(const Fingerprint& f) { return to_hex(f.bytes); }
std::optional<Key> key_from_hex(std::string_view hex);  // 64 digits, either case

}  // namespace kvasir::store

template <>
struct std::hash<kvasir::store::Key> {
  std::size_t operator()(const kvasir::store::Key& key) const noexcept {
    std::size_t h;  // keys are hashes already
    std::memcpy(&h, key.bytes.data(), sizeof h);
    return h;
  }
};
