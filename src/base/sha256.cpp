#include "base/sha256.hpp"

#include <sodium.h>

#include <array>
#include <fstream>
#include <vector>

#include "base/error.hpp"

namespace kvasir {

std::string sha256_of_file(const std::string& path, FunctionRef<bool(std::uint64_t)> poll) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::kIo, "cannot open", path);
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t done = 0;
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    const auto n = static_cast<std::uint64_t>(in.gcount());
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(block.data()), n);
    if (!poll(done += n)) throw Error(Code::kCancelled, "stopped", path);
  }
  if (in.bad()) throw Error(Code::kIo, "cannot read", path);
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash;
  crypto_hash_sha256_final(&state, hash.data());
  std::string text(2 * hash.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), hash.data(), hash.size());
  text.pop_back();
  return text;
}

}  // namespace kvasir
