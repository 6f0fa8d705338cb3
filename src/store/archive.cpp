#include "store/archive.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/file.hpp"
#include "store/inventory.hpp"

namespace kvasir::store {
namespace {

constexpr char kMagic[4] = {'K', 'V', 'e', 'x'};
constexpr char kEntryMagic[4] = {'K', 'V', 'e', 'n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kAlign = 16;

// docs/formats/archive.md. Fields are naturally aligned, so there is no hidden padding; little-endian as record.cpp.
struct Header {
  char magic[4];
  std::uint32_t version;
  std::uint64_t records;
  std::uint64_t body;  // bytes behind the header
  std::byte zero[32];
  std::uint64_t checksum;  // XXH3-64 of the bytes before it
};
static_assert(sizeof(Header) == 64);

struct EntryHead {
  char magic[4];
  std::uint32_t zero;
  std::byte key[32];
  std::uint64_t size;      // of the record
  std::uint64_t checksum;  // XXH3-64 of the bytes before it and of the record
  std::uint64_t zero64;
};
static_assert(sizeof(EntryHead) == 64);

std::uint64_t padded(std::uint64_t size) { return (size + kAlign - 1) / kAlign * kAlign; }

std::uint64_t checksum_of(const Header& h) { return XXH3_64bits(&h, offsetof(Header, checksum)); }

std::uint64_t checksum_of(const EntryHead& e, std::span<const std::byte> record) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &e, offsetof(EntryHead, checksum));
  XXH3_64bits_update(&state, record.data(), record.size());
  return XXH3_64bits_digest(&state);
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

bool all_zero(std::span<const std::byte> bytes) {
  for (const std::byte b : bytes)
    if (b != std::byte{0}) return false;
  return true;
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(Code::kIo, std::string(what) + ": " + std::strerror(errno), path);
}

Header read_header(std::span<const std::byte> bytes, const std::string& name) {
  Header h{};
  if (bytes.size() < sizeof h.magic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    throw Error(Code::kBadInput, "is no archive of a cache: expected a file of `kvasir cache export`", name);
  if (bytes.size() < sizeof h) throw Error(Code::kBadInput, "is cut off within its header", name);
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.version != kVersion)
    throw Error(Code::kBadInput, fmt::format("is an archive of version {}, expected {}", h.version, kVersion), name);
  if (h.checksum != checksum_of(h) || !all_zero(h.zero)) throw Error(Code::kBadInput, "has a damaged header", name);
  const std::uint64_t body = bytes.size() - sizeof h;
  if (body != h.body)
    throw Error(Code::kBadInput,
                fmt::format("{}: it has {} bytes behind its header, expected {}",
                            body < h.body ? "is cut off" : "is longer than it says", body, h.body),
                name);
  return h;
}

}  // namespace

ArchiveWriter::ArchiveWriter(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".partial." + std::to_string(::getpid())) {
  check_replaceable(path_);
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(path_, "cannot create");
  file_ = ::fdopen(fd, "wb");
  if (!file_) {
    const int saved = errno;
    ::close(fd);
    ::unlink(temporary_.c_str());
    errno = saved;
    fail(path_, "cannot create");
  }
  try {
    write(bytes_of(Header{}));  // its place
  } catch (...) {
    std::fclose(file_);
    ::unlink(temporary_.c_str());
    throw;
  }
}

ArchiveWriter::~ArchiveWriter() {
  if (!file_) return;
  std::fclose(file_);
  ::unlink(temporary_.c_str());
}

void ArchiveWriter::write(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail(path_, "cannot write");
}

void ArchiveWriter::add(const Key& key, std::span<const std::byte> record) {
  EntryHead e{};
  std::memcpy(e.magic, kEntryMagic, sizeof kEntryMagic);
  std::memcpy(e.key, key.bytes.data(), sizeof e.key);
  e.size = record.size();
  e.checksum = checksum_of(e, record);
  constexpr std::byte kZeros[kAlign]{};
  write(bytes_of(e));
  write(record);
  write(std::span(kZeros).first(padded(e.size) - e.size));
  ++records_;
  body_ += sizeof e + padded(e.size);
}

std::uint64_t ArchiveWriter::bytes() const { return sizeof(Header) + body_; }

void ArchiveWriter::finish() {
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.records = records_;
  h.body = body_;
  h.checksum = checksum_of(h);
  if (std::fseek(file_, 0, SEEK_SET) != 0) fail(path_, "cannot write");
  write(bytes_of(h));
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail(path_, "cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot rename into place");
  std::fclose(file_);
  file_ = nullptr;
}

std::vector<ArchiveEntry> read_archive(std::span<const std::byte> bytes, const std::string& name) {
  const Header h = read_header(bytes, name);
  std::vector<ArchiveEntry> entries;
  std::uint64_t at = sizeof h;
  const auto wrong = [&](std::string_view what) {
    throw Error(Code::kBadInput, fmt::format("record {} at byte {} {}", entries.size(), at, what), name);
  };
  while (at < bytes.size()) {
    EntryHead e{};
    const std::span<const std::byte> rest = bytes.subspan(at);
    if (rest.size() < sizeof e) wrong("is cut off");
    std::memcpy(&e, rest.data(), sizeof e);
    if (std::memcmp(e.magic, kEntryMagic, sizeof kEntryMagic) != 0 || e.zero != 0 || e.zero64 != 0) wrong("is damaged");
    if (e.size > rest.size() - sizeof e || padded(e.size) > rest.size() - sizeof e) wrong("is cut off");
    ArchiveEntry entry{{}, rest.subspan(sizeof e, e.size)};
    std::memcpy(entry.key.bytes.data(), e.key, sizeof e.key);
    if (checksum_of(e, entry.record) != e.checksum ||
        !all_zero(rest.subspan(sizeof e + e.size, padded(e.size) - e.size)))
      wrong("is damaged");
    const Parsed parsed = parse_record(entry.record, Check::kFull);
    if (!parsed) wrong(fmt::format("holds no usable record ({})", flaw_name(parsed.flaw)));
    if (!key_fits(entry.key, parsed.record)) wrong("has a key that is not its own");
    entries.push_back(entry);
    at += sizeof e + padded(e.size);
  }
  if (entries.size() != h.records)
    throw Error(Code::kBadInput, fmt::format("holds {} records, its header says {}", entries.size(), h.records), name);
  return entries;
}

}  // namespace kvasir::store
