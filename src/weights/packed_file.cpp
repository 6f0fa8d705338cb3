#include "weights/packed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"

namespace kvasir::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

constexpr char kMagic[8] = {'K', 'V', 'w', 'e', 'i', 'g', 'h', 't'};
constexpr std::uint32_t kVersion = 1;

// All fields are naturally aligned. Behind it: (blocks) bytes of every block as uint64, (pieces) checksums as uint64.
struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t piece_bytes;
  PackedFingerprint fingerprint;
  std::uint64_t blocks;
  std::uint64_t pieces;
  std::uint64_t file_bytes;
  std::uint64_t checksum;  // XXH3-64 of the header without these 8 bytes, and of both tables
};
static_assert(sizeof(Header) == 64);

std::int64_t table_bytes(std::int64_t blocks, std::int64_t pieces) {
  return static_cast<std::int64_t>(sizeof(Header)) + 8 * (blocks + pieces);
}

std::int64_t all_pieces(std::span<const std::int64_t> bytes) {
  std::int64_t pieces = 0;
  for (const std::int64_t b : bytes) pieces += pieces_in(padded(b));
  return pieces;
}

std::uint64_t header_checksum(std::span<const std::byte> head) {
  alignas(64) XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, head.data(), offsetof(Header, checksum));
  XXH3_64bits_update(&state, head.data() + sizeof(Header), head.size() - sizeof(Header));
  return XXH3_64bits_digest(&state);
}

[[noreturn]] void io_error(const std::string& path, const std::string& what) {
  throw Error(Code::kIo, what + ": " + std::strerror(errno), path);
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error(Code::kBadInput, what + "; delete the file, and it is made again from the model", path);
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void write_at(int fd, const std::string& path, std::span<const std::byte> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error(path, fmt::format("cannot write at byte {}", at));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
}

void check_room(const std::string& path, std::int64_t bytes) {
  struct statvfs fs {};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::statvfs(folder.c_str(), &fs) != 0) return;  // creating the file says what is wrong
  const std::uint64_t room = static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
  if (room < static_cast<std::uint64_t>(bytes))
    throw Error(Code::kIo,
                fmt::format("takes {} MB and the disk has {} MB left; --weights-file names another place",
                            bytes / 1000000, room / 1000000),
                path);
}

}  // namespace

PackedFingerprint packed_fingerprint(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  PackedFingerprint f;
  std::memcpy(f.data(), &hash.low64, 8);
  std::memcpy(f.data() + 8, &hash.high64, 8);
  return f;
}

std::string hex_of(const PackedFingerprint& fingerprint) {
  std::string text;
  for (const std::byte b : fingerprint) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

std::uint64_t piece_checksum(std::span<const std::byte> piece) { return XXH3_64bits(piece.data(), piece.size()); }

PackedLayout::PackedLayout(std::span<const std::int64_t> block_bytes) {
  end = padded(table_bytes(static_cast<std::int64_t>(block_bytes.size()), all_pieces(block_bytes)));
  for (const std::int64_t b : block_bytes) {
    at.push_back(end);
    bytes.push_back(padded(b));
    end += padded(b);
  }
}

PackedFile::PackedFile(std::string path, const PackedFingerprint& fingerprint,
                       std::span<const std::int64_t> block_bytes)
    : path_(std::move(path)), layout_(block_bytes) {
  Descriptor d{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (d.fd < 0) io_error(path_, "cannot open");
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) io_error(path_, "cannot stat");
  const std::int64_t pieces = all_pieces(block_bytes);
  std::vector<std::byte> head(static_cast<std::size_t>(table_bytes(layout_.count(), pieces)));
  std::size_t got = 0;
  while (got < head.size()) {
    const ssize_t n = ::pread(d.fd, head.data() + got, head.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error(path_, "cannot read");
    if (n == 0) damaged(path_, fmt::format("is no file of packed weights, or ends after {} bytes", got));
    got += static_cast<std::size_t>(n);
  }
  Header h;
  std::memcpy(&h, head.data(), sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) damaged(path_, "is no file of packed weights");
  if (h.version != kVersion)
    damaged(path_, fmt::format("has version {} of packed weights, expected {}", h.version, kVersion));
  if (h.fingerprint != fingerprint)
    damaged(path_,
            fmt::format("was made of another model, or packed in another way: its fingerprint is {}, expected {}",
                        hex_of(h.fingerprint), hex_of(fingerprint)));
  if (h.checksum != header_checksum(head)) damaged(path_, "its header is damaged");
  bool fits = h.blocks == block_bytes.size() && h.pieces == static_cast<std::uint64_t>(pieces) &&
              h.piece_bytes == kPieceBytes && h.file_bytes == static_cast<std::uint64_t>(layout_.end);
  for (int b = 0; fits && b < layout_.count(); ++b) {
    std::uint64_t bytes;
    std::memcpy(&bytes, head.data() + sizeof h + 8 * static_cast<std::size_t>(b), 8);
    fits = bytes == static_cast<std::uint64_t>(layout_.bytes[static_cast<std::size_t>(b)]);
  }
  if (!fits) damaged(path_, "its blocks are not those of this model");
  if (st.st_size != layout_.end) damaged(path_, fmt::format("has {} bytes, expected {}", st.st_size, layout_.end));
  checksums_.resize(static_cast<std::size_t>(pieces));
  std::memcpy(checksums_.data(), head.data() + sizeof h + 8 * static_cast<std::size_t>(layout_.count()),
              8 * checksums_.size());
  std::int64_t first = 0;
  for (const std::int64_t b : layout_.bytes) {
    first_.push_back(first);
    first += pieces_in(b);
  }
}

void check_blocks(const PackedFile& file, std::span<const std::byte> mapped) {
  const PackedLayout& layout = file.layout();
  KVASIR_CHECK(static_cast<std::int64_t>(mapped.size()) == layout.end);
  for (int b = 0; b < layout.count(); ++b) {
    const auto i = static_cast<std::size_t>(b);
    for (std::int64_t p = 0; p < pieces_in(layout.bytes[i]); ++p) {
      const std::int64_t from = p * kPieceBytes, at = layout.at[i] + from;
      const std::int64_t bytes = std::min(kPieceBytes, layout.bytes[i] - from);
      if (piece_checksum(mapped.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes))) !=
          file.checksum(b, p))
        damaged(file.path(), fmt::format("block {} is damaged at byte {}: the checksum does not match", b, at));
    }
  }
}

void write_packed_file(const std::string& path, const PackedFingerprint& fingerprint,
                       std::span<const std::int64_t> block_bytes,
                       const std::function<void(int, std::span<std::byte>)>& fill) {
  check_replaceable(path);
  const PackedLayout layout(block_bytes);
  check_room(path, layout.end);
  const std::string temporary = path + ".partial." + std::to_string(::getpid());
  // Past the page cache, which a model larger than memory would fill for nothing; where files cannot do that, through
  // it.
  constexpr int kFlags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
  Descriptor d{::open(temporary.c_str(), kFlags | O_DIRECT, 0644)};
  if (d.fd < 0 && errno == EINVAL) d.fd = ::open(temporary.c_str(), kFlags, 0644);
  if (d.fd < 0) io_error(path, "cannot create");
  try {
    std::int64_t largest = padded(table_bytes(layout.count(), all_pieces(block_bytes)));
    for (const std::int64_t b : layout.bytes) largest = std::max(largest, b);
    const PageBuffer room(tensor::Tag::kScratch, largest);
    std::vector<std::uint64_t> checksums;
    for (int b = 0; b < layout.count(); ++b) {
      const auto i = static_cast<std::size_t>(b);
      const std::span<std::byte> block(room.data(), static_cast<std::size_t>(layout.bytes[i]));
      std::fill(block.begin(), block.end(), std::byte{0});
      fill(b, block);
      for (std::size_t p = 0; p < block.size(); p += kPieceBytes)
        checksums.push_back(piece_checksum(block.subspan(p, std::min<std::size_t>(kPieceBytes, block.size() - p))));
      write_at(d.fd, path, block, layout.at[i]);
    }
    const std::int64_t bytes = table_bytes(layout.count(), static_cast<std::int64_t>(checksums.size()));
    const std::span<std::byte> head(room.data(), static_cast<std::size_t>(padded(bytes)));
    std::fill(head.begin(), head.end(), std::byte{0});
    Header h{};
    std::memcpy(h.magic, kMagic, sizeof kMagic);
    h.version = kVersion;
    h.piece_bytes = kPieceBytes;
    h.fingerprint = fingerprint;
    h.blocks = static_cast<std::uint64_t>(layout.count());
    h.pieces = checksums.size();
    h.file_bytes = static_cast<std::uint64_t>(layout.end);
    std::memcpy(head.data(), &h, sizeof h);
    for (std::size_t b = 0; b < layout.bytes.size(); ++b)
      std::memcpy(head.data() + sizeof h + 8 * b, &layout.bytes[b], 8);
    std::memcpy(head.data() + sizeof h + 8 * layout.bytes.size(), checksums.data(), 8 * checksums.size());
    h.checksum = header_checksum(head.first(static_cast<std::size_t>(bytes)));
    std::memcpy(head.data(), &h, sizeof h);
    write_at(d.fd, path, head, 0);
    if (::fdatasync(d.fd) != 0) io_error(path, "cannot write to the disk");
    if (::rename(temporary.c_str(), path.c_str()) != 0) io_error(path, "cannot rename into place");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace kvasir::weights
