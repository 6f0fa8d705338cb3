#include "weights/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"

namespace kvasir::weights {
namespace {

constexpr int kStreamAttempts = 3;  // of a piece, until it counts as failed

std::vector<std::int64_t> bytes_of(const PackedFile& file, const std::vector<int>& blocks) {
  std::vector<std::int64_t> bytes;
  for (const int b : blocks) bytes.push_back(file.layout().bytes[static_cast<std::size_t>(b)]);
  return bytes;
}

// What is wrong with an answer to a request for `bytes`; empty: nothing, though it may be shorter.
std::string flaw_of(std::int64_t result) {
  if (result < 0) return std::strerror(static_cast<int>(-result));
  return result == 0 ? "the file ends there" : "";
}

Error failed_read(const PackedFile& file, int block, std::int64_t from, const std::string& what) {
  return Error(Code::kIo,
               fmt::format("reading block {} at byte {} failed: {}", block,
                           file.layout().at[static_cast<std::size_t>(block)] + from, what),
               file.path());
}

Error damaged_block(Code code, const PackedFile& file, int block, std::int64_t from) {
  return Error(
      code,
      fmt::format("block {} is damaged at byte {}: the checksum does not match; delete the file, and it is made "
                  "again from the model",
                  block, file.layout().at[static_cast<std::size_t>(block)] + from),
      file.path());
}

bool sound(const PackedFile& file, int block, std::int64_t from, std::span<const std::byte> piece) {
  return piece_checksum(piece) == file.checksum(block, from / kPieceBytes);
}

}  // namespace

void read_block(const PackedFile& file, Reads& reads, int block, std::byte* to) {
  const std::int64_t at = file.layout().at[static_cast<std::size_t>(block)];
  const std::int64_t bytes = file.layout().bytes[static_cast<std::size_t>(block)];
  struct Part {
    std::int64_t done = 0;
    int attempts = 0;
  };
  std::vector<Part> parts(static_cast<std::size_t>(pieces_in(bytes)));
  const auto size_of = [&](std::size_t p) {
    return std::min(kPieceBytes, bytes - static_cast<std::int64_t>(p) * kPieceBytes);
  };
  int in_flight = 0;
  const auto ask = [&](std::size_t p) {
    const std::int64_t from = static_cast<std::int64_t>(p) * kPieceBytes + parts[p].done;
    reads.start({at + from, size_of(p) - parts[p].done, to + from, p});
    ++in_flight;
  };
  std::optional<Error> failure;
  for (std::size_t next = 0; next < parts.size() || in_flight > 0;) {
    while (!failure && next < parts.size() && in_flight < kMostReads) ask(next++);
    if (in_flight == 0) break;
    const ReadAnswer answer = reads.wait();
    --in_flight;
    if (failure) continue;
    Part& part = parts[answer.tag];
    const std::int64_t begin = static_cast<std::int64_t>(answer.tag) * kPieceBytes;
    const std::string flaw = flaw_of(answer.result);
    bool again = !flaw.empty();
    if (flaw.empty()) {
      // Direct reads go on at whole pages only.
      part.done += answer.result / kBlockAlign * kBlockAlign;
      if (part.done < size_of(answer.tag)) {
        if (answer.result >= kBlockAlign || ++part.attempts < kStreamAttempts)
          ask(answer.tag);
        else
          failure = failed_read(file, block, begin, "too few bytes came");
        continue;
      }
      again = !sound(file, block, begin, {to + begin, static_cast<std::size_t>(size_of(answer.tag))});
    }
    if (!again) continue;
    part.done = 0;
    if (++part.attempts < kStreamAttempts)
      ask(answer.tag);
    else
      failure =
          flaw.empty() ? damaged_block(Code::kBadInput, file, block, begin) : failed_read(file, block, begin, flaw);
  }
  if (failure) throw Error(*failure);
}

Stream::Stream(const PackedFile& file, std::vector<int> blocks, std::int64_t room, std::unique_ptr<Reads> reads)
    : file_(file),
      blocks_(std::move(blocks)),
      memory_(tensor::Tag::kWeights, room),
      reads_(std::move(reads)),
      ring_(bytes_of(file, blocks_), room),
      pieces_(kMostReads) {
  thread_ = std::thread([this] { run(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

const std::byte* Stream::acquire(int i) {
  std::unique_lock lock(mutex_);
  ++stats_.blocks;
  if (failure_ && !ring_.ready(i)) {  // of what was read ahead, maybe long ago
    failure_.reset();
    ring_.restart(i);
  }
  if (!ring_.want(i)) ++stats_.restarts;
  settle();
  wake_.notify_one();
  if (!ring_.ready(i)) {
    ++stats_.late;
    const double start = steady_seconds();
    arrived_.wait(lock, [&] { return failure_ || ring_.ready(i); });
    stats_.stall_seconds += steady_seconds() - start;
  }
  if (failure_ && !ring_.ready(i)) {
    const Error e = *failure_;
    failure_.reset();
    ring_.restart(i);
    settle();
    throw Error(e);
  }
  return memory_.data() + ring_.hold(i);
}

void Stream::release(int i) {
  {
    const std::lock_guard lock(mutex_);
    ring_.release(i);
  }
  wake_.notify_one();
}

StreamStats Stream::stats() const {
  const std::lock_guard lock(mutex_);
  StreamStats f = stats_;
  if (in_flight_ > 0) f.busy_seconds += steady_seconds() - busy_since_;
  return f;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!stop_ && !failure_ && in_flight_ < kMostReads && start_one()) {
    }
    if (in_flight_ == 0) {
      if (stop_) return;
      wake_.wait(lock);
      continue;
    }
    lock.unlock();
    const ReadAnswer answer = reads_->wait();
    lock.lock();
    answered(lock, answer);
  }
}

// The next piece of the block that is being read, or the first one of the next block. False: there is nothing to read.
bool Stream::start_one() {
  Pending* block = nullptr;
  for (Pending& p : pending_)
    if (!p.failed &&
        p.started < file_.layout().bytes[static_cast<std::size_t>(blocks_[static_cast<std::size_t>(p.read.block)])] &&
        ring_.wanted(p.read.id)) {
      block = &p;
      break;
    }
  if (!block) {
    const std::optional<Ring::Read> read = ring_.next();
    if (!read) return false;
    block = &pending_.emplace_back(Pending{*read});
  }
  const std::int64_t bytes =
      file_.layout().bytes[static_cast<std::size_t>(blocks_[static_cast<std::size_t>(block->read.block)])];
  const auto slot = std::find_if(pieces_.begin(), pieces_.end(), [](const Piece& p) { return !p.used; });
  *slot = {block->read, block->started, std::min(kPieceBytes, bytes - block->started), 0, 0, true};
  block->started += slot->bytes;
  ++block->in_flight;
  start(static_cast<std::size_t>(slot - pieces_.begin()));
  return true;
}

void Stream::start(std::size_t slot) {
  const Piece& p = pieces_[slot];
  const int block = blocks_[static_cast<std::size_t>(p.read.block)];
  if (in_flight_++ == 0) busy_since_ = steady_seconds();
  reads_->start({file_.layout().at[static_cast<std::size_t>(block)] + p.from + p.done, p.bytes - p.done,
                 memory_.data() + p.read.at + p.from + p.done, slot});
}

Stream::Pending& Stream::pending(std::uint64_t id) {
  const auto at = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.read.id == id; });
  KVASIR_CHECK(at != pending_.end());
  return *at;
}

void Stream::answered(std::unique_lock<std::mutex>& lock, const ReadAnswer& answer) {
  if (--in_flight_ == 0) stats_.busy_seconds += steady_seconds() - busy_since_;
  Piece& p = pieces_[answer.tag];
  const int block = blocks_[static_cast<std::size_t>(p.read.block)];
  if (!ring_.wanted(p.read.id) || pending(p.read.id).failed || stop_) return end_piece(p, false);
  const std::string flaw = flaw_of(answer.result);
  if (answer.result > 0) stats_.bytes_read += static_cast<std::uint64_t>(answer.result);
  bool good = flaw.empty();
  if (good) {
    // Direct reads go on at whole pages only.
    p.done += answer.result / kBlockAlign * kBlockAlign;
    if (p.done < p.bytes) {
      ++stats_.retries;
      if (answer.result >= kBlockAlign || ++p.attempts < kStreamAttempts) return start(answer.tag);
      failure_ = failed_read(file_, block, p.from, "too few bytes came");
      return end_piece(p, false);
    }
    lock.unlock();
    good = sound(file_, block, p.from, {memory_.data() + p.read.at + p.from, static_cast<std::size_t>(p.bytes)});
    lock.lock();
    if (good) return end_piece(p, true);
  }
  if (!ring_.wanted(p.read.id)) return end_piece(p, false);
  p.done = 0;
  ++stats_.retries;
  if (++p.attempts < kStreamAttempts) return start(answer.tag);
  failure_ = flaw.empty() ? damaged_block(Code::kIo, file_, block, p.from) : failed_read(file_, block, p.from, flaw);
  end_piece(p, false);
}

void Stream::end_piece(Piece& piece, bool whole) {
  Pending& block = pending(piece.read.id);
  piece.used = false;
  --block.in_flight;
  if (whole)
    block.over += piece.bytes;
  else
    block.failed = true;
  settle();
}

// Blocks of which nothing is in flight any more and that are whole, or not wanted.
void Stream::settle() {
  bool news = failure_.has_value();
  for (std::size_t i = 0; i < pending_.size();) {
    Pending& p = pending_[i];
    const std::int64_t bytes =
        file_.layout().bytes[static_cast<std::size_t>(blocks_[static_cast<std::size_t>(p.read.block)])];
    const bool whole = p.over == bytes;
    if (p.in_flight > 0 || (!whole && !p.failed && ring_.wanted(p.read.id))) {
      ++i;
      continue;
    }
    ring_.arrived(p.read.id, whole);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    news = true;
  }
  if (news) arrived_.notify_all();
}

}  // namespace kvasir::weights
