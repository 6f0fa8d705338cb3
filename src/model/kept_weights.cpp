#include "model/kept_weights.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKeptEnding = ".packed";

struct KeptFile {
  fs::path path;
  fs::file_time_type used;
  std::int64_t bytes = 0;
};

// Those in the folder, the least recently used first.
std::vector<KeptFile> kept_files(const std::string& folder) {
  std::vector<KeptFile> files;
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, none)) {
    if (!e.is_regular_file(none) || e.path().extension() != kKeptEnding) continue;
    files.push_back({e.path(), e.last_write_time(none), static_cast<std::int64_t>(e.file_size(none))});
  }
  std::sort(files.begin(), files.end(), [](const KeptFile& a, const KeptFile& b) { return a.used < b.used; });
  return files;
}

}  // namespace

KeptWeights::KeptWeights(const KeepWeights& keep, const weights::PackedFingerprint& fingerprint,
                         std::vector<std::int64_t> block_bytes, std::vector<std::byte*> places)
    : keep_(keep),
      fingerprint_(fingerprint),
      bytes_(std::move(block_bytes)),
      places_(std::move(places)),
      path_((fs::path(keep.folder) / (weights::hex_of(fingerprint) + std::string(kKeptEnding))).string()),
      size_(weights::PackedLayout(bytes_).end) {}

KeptWeights::~KeptWeights() {
  if (writer_.joinable()) writer_.join();
}

bool KeptWeights::read(Team& team) {
  std::error_code none;
  if (!fs::exists(path_, none)) return false;
  try {
    const weights::PackedFile file(path_, fingerprint_, bytes_);
    const MappedFile mapped(path_);
    struct Piece {
      int block;
      std::int64_t piece;
    };
    std::vector<Piece> pieces;
    for (int b = 0; b < file.layout().count(); ++b)
      for (std::int64_t p = 0; p < weights::pieces_in(file.layout().bytes[static_cast<std::size_t>(b)]); ++p)
        pieces.push_back({b, p});
    std::atomic<bool> right{true};
    team.parallel_for(static_cast<std::int64_t>(pieces.size()), 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end && right; ++i) {
        const auto [b, p] = pieces[static_cast<std::size_t>(i)];
        const auto block = static_cast<std::size_t>(b);
        const std::int64_t from = p * weights::kPieceBytes;
        const std::int64_t stored = std::min(weights::kPieceBytes, file.layout().bytes[block] - from);
        const std::byte* const at = mapped.bytes().data() + file.layout().at[block] + from;
        if (weights::piece_checksum({at, static_cast<std::size_t>(stored)}) != file.checksum(b, p)) right = false;
        const std::int64_t used = std::min(stored, bytes_[block] - from);  // blocks are padded in the file
        if (used > 0) std::memcpy(places_[block] + from, at, static_cast<std::size_t>(used));
      }
    });
    if (!right) throw Error(Code::kBadInput, "a checksum does not match", path_);
  } catch (const Error& e) {
    fs::remove(path_, none);
    say(fmt::format("kept weights were damaged and are made again: {}", e.what()));
    return false;
  }
  fs::last_write_time(path_, fs::file_time_type::clock::now(), none);
  return true;
}

void KeptWeights::write() {
  writer_ = std::thread([this] {
    // A limit of file sizes is an error of this file, not the end of the program.
    sigset_t limit;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, nullptr);
    try {
      fs::create_directories(keep_.folder);
      make_room();
      weights::write_packed_file(path_, fingerprint_, bytes_, [&](int block, std::span<std::byte> to) {
        const auto b = static_cast<std::size_t>(block);
        std::memcpy(to.data(), places_[b], static_cast<std::size_t>(bytes_[b]));
      });
      say(fmt::format("packed weights are kept for the next start: {:.2f} GB in {}", static_cast<double>(size_) / 1e9,
                      path_));
    } catch (const std::exception& e) {
      say(fmt::format("packed weights are not kept: {}", e.what()));
    }
  });
}

// What processes that were killed had begun to write: NAME.packed.partial.PROCESS (weights::write_packed_file).
static void remove_broken_off(const std::string& folder) {
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, none)) {
    const std::string name = e.path().filename().string();
    const std::size_t at = name.rfind(".packed.partial.");
    if (at == name.npos) continue;
    const int process = std::atoi(name.c_str() + name.rfind('.') + 1);
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) fs::remove(e.path(), none);
  }
}

void KeptWeights::make_room() {
  remove_broken_off(keep_.folder);
  const std::string what = fmt::format("take {:.2f} GB", static_cast<double>(size_) / 1e9);
  if (size_ > keep_.bytes)
    throw Error(Code::kMemory, fmt::format("{}, more than --keep-weights allows", what), keep_.folder);
  std::vector<KeptFile> files = kept_files(keep_.folder);
  std::int64_t kept = 0;
  for (const KeptFile& f : files) kept += f.bytes;
  std::error_code none;
  for (std::size_t i = 0; i < files.size() && kept + size_ > keep_.bytes; ++i) {
    fs::remove(files[i].path, none);
    kept -= files[i].bytes;
  }
  const fs::space_info room = fs::space(keep_.folder);
  if (room.available < 2 * static_cast<std::uint64_t>(size_))
    throw Error(Code::kIo,
                fmt::format("{}, and the disk has {:.2f} GB left", what, static_cast<double>(room.available) / 1e9),
                keep_.folder);
}

}  // namespace kvasir::model
