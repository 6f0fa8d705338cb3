#include "lab/eval/kv_file.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::lab::eval {

static_assert(std::endian::native == std::endian::little, "the file is read as it lies");

namespace {

constexpr std::size_t kHeader = 5 * sizeof(std::uint32_t);

[[noreturn]] void bad(const std::string& why, const std::string& path) { throw Error(Code::kBadInput, why, path); }

}  // namespace

KvArray read_kv_file(const std::string& path) {
  const MappedFile file(path);
  std::array<std::uint32_t, 5> header{};
  if (file.bytes().size() < kHeader) bad("is too short for its header of 20 bytes", path);
  std::memcpy(header.data(), file.bytes().data(), kHeader);
  if (header[0] != kKvMagic) bad("does not begin with 0x544B5651: it is no file of captured keys or values", path);
  constexpr const char* kNames[] = {"", "layer", "heads", "tokens", "dim"};
  constexpr std::uint32_t kLow[] = {0, 0, 1, 2, 1}, kHigh[] = {0, 1 << 16, 1 << 12, 1 << 24, 1 << 12};
  for (std::size_t i = 1; i < 5; ++i)
    if (header[i] < kLow[i] || header[i] > kHigh[i])
      bad(std::string(kNames[i]) + " is " + std::to_string(header[i]) + ", expected " + std::to_string(kLow[i]) + ".." +
              std::to_string(kHigh[i]),
          path);
  const std::uint64_t n = std::uint64_t{header[2]} * header[3] * header[4];
  if (file.bytes().size() != kHeader + n * sizeof(float))
    bad("has " + std::to_string(file.bytes().size()) + " bytes, expected " +
            std::to_string(kHeader + n * sizeof(float)) + " for " + std::to_string(header[2]) + " heads, " +
            std::to_string(header[3]) + " tokens, dim " + std::to_string(header[4]),
        path);
  KvArray a{static_cast<int>(header[1]),
            static_cast<int>(header[2]),
            static_cast<int>(header[3]),
            static_cast<int>(header[4]),
            {}};
  a.data.resize(n);
  std::memcpy(a.data.data(), file.bytes().data() + kHeader, n * sizeof(float));
  for (std::size_t i = 0; i < a.data.size(); ++i)
    if (!std::isfinite(a.data[i])) bad("number " + std::to_string(i) + " is not finite", path);
  return a;
}

void write_kv_file(const std::string& path, const KvArray& a) {
  const std::array<std::uint32_t, 5> header{kKvMagic, static_cast<std::uint32_t>(a.layer),
                                            static_cast<std::uint32_t>(a.heads), static_cast<std::uint32_t>(a.tokens),
                                            static_cast<std::uint32_t>(a.dim)};
  std::vector<std::byte> bytes(kHeader + a.data.size() * sizeof(float));
  std::memcpy(bytes.data(), header.data(), kHeader);
  std::memcpy(bytes.data() + kHeader, a.data.data(), a.data.size() * sizeof(float));
  write_file(path, bytes);
}

KvPair read_kv_pair(const std::string& paths) {
  const std::size_t comma = paths.find(',');
  KvPair pair;
  pair.keys = read_kv_file(paths.substr(0, comma));
  if (comma == std::string::npos) return pair;
  const std::string path = paths.substr(comma + 1);
  pair.values = read_kv_file(path);
  if (pair.values.layer != pair.keys.layer || pair.values.heads != pair.keys.heads ||
      pair.values.tokens != pair.keys.tokens)
    bad("holds layer " + std::to_string(pair.values.layer) + ", " + std::to_string(pair.values.heads) + " heads, " +
            std::to_string(pair.values.tokens) + " tokens; the keys are of layer " + std::to_string(pair.keys.layer) +
            ", " + std::to_string(pair.keys.heads) + " heads, " + std::to_string(pair.keys.tokens) + " tokens",
        path);
  return pair;
}

}  // namespace kvasir::lab::eval
