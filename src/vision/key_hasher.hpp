// BLAKE2b-256 of bytes that come in parts: what names pictures, sounds and their encoders.
#pragma once

#include <sodium.h>

#include <span>
#include <string_view>

#include "vision/encoder.hpp"

namespace kvasir::vision {

class KeyHasher {
 public:
  KeyHasher() { crypto_generichash_init(&state_, nullptr, 0, sizeof(PictureKey::bytes)); }
  void add(std::span<const std::byte> bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  PictureKey key() {
    PictureKey k;
    crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(k.bytes.data()), k.bytes.size());
    return k;
  }

 private:
  crypto_generichash_state state_;
};

}  // namespace kvasir::vision
