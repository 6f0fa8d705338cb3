// API keys and the tenants they stand for. Caches of different tenants never meet, so a tenant is derived here from the
// key and never taken from what the client says (a salt chosen by clients can be replayed by another client).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::serve {

class KeyRing {
 public:
  KeyRing() = default;  // no keys: everybody is tenant ""

  // One `KEY [TENANT]` a line; blank lines and those that begin with # are skipped. Keys without a name get
  // "key-" and 16 hexadecimal digits of their hash. Throws Error(kBadInput) naming file and line: no key at all, a key
  // twice, more than two words, a tenant that begins with "key-". Error(kIo): the file cannot be read.
  static KeyRing load(const std::string& path);
  static KeyRing parse(std::string_view text, const std::string& context);

  bool empty() const { return keys_.empty(); }

  // Tenant of an Authorization header ("Bearer KEY"). Takes the same time whatever the key: hashes are compared, with
  // all keys, to the last byte.
  std::optional<std::string> tenant(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest;  // SHA-256; the keys themselves are not kept
    std::string tenant;
  };
  static Digest digest(std::string_view key);

  std::vector<Key> keys_;
};

// The first key of such a file: what a client sends. Throws as KeyRing::load.
std::string first_key(const std::string& path);

}  // namespace kvasir::serve
