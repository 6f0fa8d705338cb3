#include "cli/cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "cli/flags.hpp"
#include "cli/terminal.hpp"
#include "store/open.hpp"
#include "store/spec.hpp"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected = "expected the folder that a server has as --cache-dir";

constexpr const char* kFolderTier = "lmdb";  // that of --cache-dir

std::string spec_of(const std::string& folder, const std::string& options) {
  if (folder.find('?') != std::string::npos)
    throw Error(Code::kBadInput, "has a '?' in its name, which the name of a tier cannot hold", folder);
  return std::string(kFolderTier) + ":" + folder + "?" + options;
}

// Null for a name that no tier has, of which opening it complains.
const store::TierKind* kind_of(const CachePlace& place) {
  return find(store::tiers(), place.folder.empty() ? store::Spec(place.tier).name() : kFolderTier);
}

void check_place(const CachePlace& place) {
  if (place.folder.empty() == place.tier.empty())
    throw Error(Code::kBadInput, "expected exactly one of --cache-dir FOLDER and --tier SPEC", "cache");
  if (const store::TierKind* kind = kind_of(place); kind && kind->private_memory)
    throw Error(Code::kBadInput, "lies in the memory of the server that has it; /v1/stats shows it", place.tier);
}

// The folder of the tier if tools know it by a file.
std::string folder_of(const CachePlace& place) {
  if (!place.folder.empty()) return place.folder;
  const store::TierKind* kind = kind_of(place);
  return kind && kind->file ? store::Spec(place.tier).address() : std::string();
}

void check_folder(const std::string& folder, const store::TierKind& kind) {
  const std::string file = folder + "/" + kind.file;
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (status.type() == fs::file_type::not_found)
    throw Error(Code::kBadInput, "does not exist; " + std::string(kExpected), folder);
  if (failed) throw Error(Code::kBadInput, failed.message() + "; " + kExpected, folder);
  if (!fs::is_directory(status)) throw Error(Code::kBadInput, "is no folder; " + std::string(kExpected), folder);
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0)
    throw Error(Code::kBadInput, std::string(std::strerror(errno)) + "; reading a cache takes its owner's rights",
                folder);
  if (!fs::exists(file, failed))
    throw Error(Code::kBadInput, fmt::format("holds no cache (there is no {}); {}", kind.file, kExpected), folder);
  if (::access(file.c_str(), R_OK | W_OK) != 0)
    throw Error(Code::kBadInput, std::string(std::strerror(errno)) + "; reading a cache takes its owner's rights",
                file);
}

}  // namespace

void add_place(Flags& flags, CachePlace& place) {
  flags.value("--cache-dir", place.folder, "folder of the cache", {.placeholder = "FOLDER"});
  flags.value("--tier", place.tier, "or a tier, such as redis:HOST:PORT", {.placeholder = "SPEC"});
}

std::string shown(const CachePlace& place) {
  return place.folder.empty() ? store::Spec(place.tier).shown() : place.folder;
}

std::unique_ptr<store::Backend> open_cache(const CachePlace& place) {
  check_place(place);
  const std::string folder = folder_of(place);
  if (folder.empty()) return store::open_backend(place.tier);
  const store::TierKind& kind = *kind_of(place);
  check_folder(folder, kind);
  if (!place.folder.empty()) return store::open_backend(spec_of(folder, kind.inspect));
  return store::open_backend(place.tier + (place.tier.find('?') == std::string::npos ? "?" : "&") + kind.inspect);
}

std::unique_ptr<store::Backend> open_or_make_cache(const CachePlace& place, const std::string& size) {
  check_place(place);
  if (place.folder.empty()) {
    if (!size.empty())
      throw Error(Code::kBadInput, "goes with --cache-dir; a tier has its own option size", "--cache-size");
    return store::open_backend(place.tier);
  }
  const store::TierKind& kind = *kind_of(place);
  std::error_code ignored;
  const bool there = fs::exists(place.folder + "/" + kind.file, ignored);
  if (there) check_folder(place.folder, kind);
  if (!there && fs::exists(place.folder, ignored) && !fs::is_empty(place.folder, ignored))
    throw Error(Code::kBadInput, "is not empty and holds no cache; expected a cache, an empty folder or a new one",
                place.folder);
  if (there && size.empty()) return store::open_backend(spec_of(place.folder, kind.inspect));
  return store::open_backend(spec_of(place.folder, "size=" + (size.empty() ? "10GiB" : size)));
}

void add_filter(Flags& flags, CacheFilter& filter, bool with_age) {
  flags.value("--fingerprint", filter.fingerprint, "only records whose fingerprint begins with these digits",
              {.placeholder = "HEX"});
  if (with_age)
    flags.value("--older-than", filter.older_than, "only records that were last used so long ago: 12h, 7d",
                {.placeholder = "TIME"});
}

void check_filter(const CacheFilter& filter) {
  if (filter.fingerprint.find_first_not_of("0123456789abcdef") != std::string::npos || filter.fingerprint.size() > 32)
    throw Error(Code::kBadInput, "is '" + filter.fingerprint + "', expected up to 32 hexadecimal digits in lower case",
                "--fingerprint");
  if (!filter.older_than.empty()) store::parse_time(filter.older_than, "--older-than");
}

bool old_enough(const CacheFilter& filter, const store::Item& item) {
  if (filter.older_than.empty()) return true;
  const auto age =
      std::chrono::duration_cast<std::chrono::seconds>(store::parse_time(filter.older_than, "--older-than"));
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return item.used > 0 && item.used <= (now - age).count();
}

bool passes(const CacheFilter& filter, const store::Item& item) {
  if (!filter.fingerprint.empty() && !store::to_hex(item.fingerprint).starts_with(filter.fingerprint)) return false;
  return old_enough(filter, item);
}

std::vector<store::Item> inventory(store::Backend& backend, store::Check check, const char* doing,
                                   const store::Wanted& wanted) {
  ProgressBar progress(doing);
  return store::take_inventory(
      backend, check, [&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); }, wanted);
}

std::uint64_t total_bytes(const std::vector<store::Item>& items) {
  std::uint64_t bytes = 0;
  for (const store::Item& i : items) bytes += i.bytes;
  return bytes;
}

std::string records_text(std::uint64_t n) { return fmt::format("{} record{}", n, n == 1 ? "" : "s"); }

std::string origin_text(const store::Item& item) {
  return item.origin == store::root_key(item.fingerprint) ? "open" : store::to_hex(item.origin).substr(0, 12);
}

}  // namespace kvasir::cli
