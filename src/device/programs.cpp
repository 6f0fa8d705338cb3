#include "device/programs.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"

namespace kvasir::device {
namespace {

constexpr char kMagic[] = "KVPROG01";
constexpr std::size_t kHeader = 8 + 4 * 8;

struct Header {
  char magic[8];
  std::uint64_t key_hash;
  std::uint64_t key_bytes;
  std::uint64_t binary_bytes;
  std::uint64_t check;
};
static_assert(sizeof(Header) == kHeader);

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

std::string default_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/kvasir/programs";
  const char* const home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/kvasir/programs" : "";
}

// The binary of a file that is whole and stands for `key`; empty: it is not.
std::span<const std::byte> binary_in(std::span<const std::byte> file, const std::string& key) {
  Header h;
  if (file.size() < kHeader) return {};
  std::memcpy(&h, file.data(), kHeader);
  if (std::memcmp(h.magic, kMagic, 8) != 0 || h.key_hash != hash_bytes(bytes_of(key)) || h.key_bytes != key.size() ||
      h.binary_bytes != file.size() - kHeader - key.size() || file.size() < kHeader + key.size())
    return {};
  const std::span<const std::byte> body = file.subspan(kHeader);
  if (h.check != hash_bytes(body) || std::memcmp(body.data(), key.data(), key.size()) != 0) return {};
  return body.subspan(key.size());
}

}  // namespace

Programs::Programs(std::string folder) : folder_(folder == kDefault ? default_folder() : std::move(folder)) {}

Program Programs::get(const Context& context, const std::string& text, const std::string& options) {
  const Found& device = context.device();
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", device.platform, device.name, device.driver, options, text);
  const std::string path = folder_.empty() ? "" : fmt::format("{}/{:016x}.bin", folder_, hash_bytes(bytes_of(key)));
  std::error_code ignored;
  if (!path.empty() && std::filesystem::exists(path, ignored)) {
    try {
      const MappedFile file(path);
      const std::span<const std::byte> binary = binary_in(file.bytes(), key);
      if (!binary.empty())
        if (Program p = context.load(binary, options)) {
          ++loaded_;
          return p;
        }
    } catch (const Error&) {  // an unreadable file is one to be made anew
    }
    std::filesystem::remove(path, ignored);
  }
  Program p = context.compile(text, options);
  ++compiled_;
  const std::vector<std::byte> binary = path.empty() ? std::vector<std::byte>() : p.binary();
  if (binary.empty()) return p;
  std::vector<std::byte> body;
  body.reserve(key.size() + binary.size());
  const auto key_bytes = bytes_of(key);
  body.insert(body.end(), key_bytes.begin(), key_bytes.end());
  body.insert(body.end(), binary.begin(), binary.end());
  Header h{{}, hash_bytes(key_bytes), key.size(), binary.size(), hash_bytes(body)};
  std::memcpy(h.magic, kMagic, 8);
  std::vector<std::byte> file(kHeader);
  std::memcpy(file.data(), &h, kHeader);
  file.insert(file.end(), body.begin(), body.end());
  std::filesystem::create_directories(folder_, ignored);
  try {
    write_file(path, file);
  } catch (const Error&) {  // a full or read-only disk: the program is compiled again next time
  }
  return p;
}

}  // namespace kvasir::device
