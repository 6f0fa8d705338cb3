#include "store/key.hpp"

#include <sodium.h>

#include <bit>
#include <initializer_list>

#include "base/check.hpp"
#include "base/hex.hpp"

namespace kvasir::store {
namespace {

static_assert(std::endian::native == std::endian::little, "token ids are hashed as they lie in memory");

using Field = std::span<const std::byte>;

Field field(std::string_view text) { return std::as_bytes(std::span(text)); }

void prepare() {
  static const bool ready = sodium_init() >= 0;  // chooses the implementation for this machine
  KVASIR_CHECK(ready);
}

void hash(std::span<std::byte> out, Field key, std::initializer_list<Field> fields) {
  prepare();
  crypto_generichash_state state;
  crypto_generichash_init(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.size());
  for (const Field f : fields)
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(f.data()), f.size());
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(out.data()), out.size());
}

}  // namespace

Fingerprint fingerprint_of(std::string_view description) {
  Fingerprint f;
  hash(f.bytes, {}, {field(description)});
  return f;
}

Key root_key(const Fingerprint& fingerprint, std::string_view tenant_salt) {
  Key key;
  hash(key.bytes, {}, {field("kvasir.r"), fingerprint.bytes, field(tenant_salt)});
  return key;
}

Key chunk_key(const Key& parent, std::span<const std::int32_t> tokens) {
  Key key;
  hash(key.bytes, parent.bytes, {field("kvasir.c"), std::as_bytes(tokens)});
  return key;
}

Key tail_key(const Key& parent, std::span<const std::int32_t> tokens) {
  Key key;
  hash(key.bytes, parent.bytes, {field("kvasir.t"), std::as_bytes(tokens)});
  return key;
}

Key content_key(const Fingerprint& fingerprint, std::span<const std::int32_t> tokens) {
  Key key;
  hash(key.bytes, {}, {field("kvasir.x"), fingerprint.bytes, std::as_bytes(tokens)});
  return key;
}

Key prefix_key(const Key& secret, const Fingerprint& scope, std::span<const std::byte> beginning) {
  Key key;
  hash(key.bytes, secret.bytes, {field("kvasir.p"), scope.bytes, beginning});
  return key;
}

Key random_key() {
  prepare();
  Key key;
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

static_assert(sizeof(crypto_generichash_state) == 384 && alignof(crypto_generichash_state) <= 64);

KeyStream::KeyStream(const Key& secret, std::string_view label) {
  KVASIR_CHECK(label.size() == 8);
  prepare();
  crypto_generichash_init(reinterpret_cast<crypto_generichash_state*>(&state_),
                          reinterpret_cast<const unsigned char*>(secret.bytes.data()), secret.bytes.size(),
                          secret.bytes.size());
  add(field(label));
}

void KeyStream::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(reinterpret_cast<crypto_generichash_state*>(&state_),
                            reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

Key KeyStream::key() const {
  State last = state_;
  Key key;
  crypto_generichash_final(reinterpret_cast<crypto_generichash_state*>(&last),
                           reinterpret_cast<unsigned char*>(key.bytes.data()), key.bytes.size());
  return key;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    hex += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return hex;
}

std::optional<Key> key_from_hex(std::string_view hex) {
  Key key;
  if (hex.size() != 2 * key.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const int byte = hex_byte(hex.substr(2 * i, 2));
    if (byte < 0) return std::nullopt;
    key.bytes[i] = static_cast<std::byte>(byte);
  }
  return key;
}

}  // namespace kvasir::store
