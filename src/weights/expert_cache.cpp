#include "weights/expert_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"

namespace kvasir::weights {
namespace {

constexpr int kAttempts = 3;  // of a piece, until it counts as failed
constexpr int kForget = 256;  // steps after which earlier uses of an expert count half

}  // namespace

class ExpertCache::Source final : public cpu::ExpertSource {
 public:
  Source(ExpertCache& cache, int layer, int room) : cache_(cache), layer_(layer), room_(room) {}
  int room() const override { return room_; }
  void need(std::span<const std::int32_t> experts) override { cache_.need(layer_, experts); }
  void expect(std::span<const std::int32_t> experts) override { cache_.expect(layer_, experts); }

 private:
  ExpertCache& cache_;
  int layer_, room_;
};

ExpertCache::ExpertCache(const PackedFile& file, const std::vector<Layer>& layers, int places,
                         std::unique_ptr<Reads> reads)
    : file_(file), reads_(std::move(reads)), pieces_(kMostReads) {
  KVASIR_CHECK(places >= 1);
  std::int64_t bytes = 0;
  for (const Layer& l : layers) {
    State s;
    s.layer = l;
    s.bytes = file.layout().bytes[static_cast<std::size_t>(l.first_block)];
    s.at = bytes;
    s.places.resize(static_cast<std::size_t>(std::min(places, l.count)));
    const auto n = static_cast<std::size_t>(l.count);
    s.place_of.assign(n, -1);
    s.address.assign(n, nullptr);
    s.uses.assign(n, 0);
    s.needed.assign(n, 0);
    bytes += s.bytes * static_cast<std::int64_t>(s.places.size());
    sources_.push_back(
        std::make_unique<Source>(*this, static_cast<int>(layers_.size()), static_cast<int>(s.places.size())));
    layers_.push_back(std::move(s));
  }
  memory_ = PageBuffer(tensor::Tag::kWeights, bytes);
}

ExpertCache::~ExpertCache() {
  waiting_.clear();
  for (; in_flight_ > 0; --in_flight_) reads_->wait();
}

const std::byte* const* ExpertCache::places(int layer) const {
  return layers_[static_cast<std::size_t>(layer)].address.data();
}

void ExpertCache::need(int layer, std::span<const std::int32_t> experts) {
  State& s = layers_[static_cast<std::size_t>(layer)];
  KVASIR_CHECK(experts.size() <= s.places.size());
  ++now_;
  if (++s.calls % kForget == 0)
    for (float& u : s.uses) u *= 0.5f;
  for (const std::int32_t e : experts) {
    const auto i = static_cast<std::size_t>(e);
    s.uses[i] += 1;
    s.needed[i] = now_;
    ++stats_.experts;
  }
  bool waits = false;
  for (const std::int32_t e : experts) {
    const int at = s.place_of[static_cast<std::size_t>(e)];
    if (at >= 0 && s.places[static_cast<std::size_t>(at)].ready) continue;
    waits = true;
    if (at >= 0) {
      ++stats_.experts_expected;  // and still under way
      continue;
    }
    ++stats_.experts_read;
    int place;
    while ((place = place_for(s)) < 0) {  // all are under way: some were expected and are not needed
      KVASIR_CHECK(in_flight_ > 0 || !waiting_.empty());
      pump();
      answered(reads_->wait());
      if (failure_) fail();
    }
    read(layer, e, place, true);
  }
  if (!waits) return;
  const double start = steady_seconds();
  const auto ready = [&] {
    return std::all_of(experts.begin(), experts.end(),
                       [&](std::int32_t e) { return s.address[static_cast<std::size_t>(e)] != nullptr; });
  };
  while (!ready()) {
    pump();
    answered(reads_->wait());
    if (failure_) fail();
  }
  pump();
  stats_.stall_seconds += steady_seconds() - start;
}

void ExpertCache::expect(int layer, std::span<const std::int32_t> experts) {
  State& s = layers_[static_cast<std::size_t>(layer)];
  for (const std::int32_t e : experts) {
    if (s.place_of[static_cast<std::size_t>(e)] >= 0) continue;
    const int place = place_for(s);
    if (place < 0) break;
    ++stats_.experts_ahead;
    read(layer, e, place, false);
  }
  pump();
}

// An empty place, or that of the expert that is used least; of those that are needed now, or under way, none. -1: there
// is none.
int ExpertCache::place_for(State& s) const {
  int best = -1;
  for (std::size_t i = 0; i < s.places.size(); ++i) {
    const Place& p = s.places[i];
    if (p.expert < 0) return static_cast<int>(i);
    const auto e = static_cast<std::size_t>(p.expert);
    if (!p.ready || s.needed[e] == now_) continue;
    if (best < 0) {
      best = static_cast<int>(i);
      continue;
    }
    const auto b = static_cast<std::size_t>(s.places[static_cast<std::size_t>(best)].expert);
    if (s.uses[e] < s.uses[b] || (s.uses[e] == s.uses[b] && s.needed[e] < s.needed[b])) best = static_cast<int>(i);
  }
  return best;
}

// first: before what waits.
void ExpertCache::read(int layer, int expert, int place, bool first) {
  State& s = layers_[static_cast<std::size_t>(layer)];
  Place& p = s.places[static_cast<std::size_t>(place)];
  if (p.expert >= 0) {
    s.place_of[static_cast<std::size_t>(p.expert)] = -1;
    s.address[static_cast<std::size_t>(p.expert)] = nullptr;
  }
  p = {expert, false, s.bytes};
  s.place_of[static_cast<std::size_t>(expert)] = place;
  std::vector<Piece> list;
  for (std::int64_t from = 0; from < s.bytes; from += kPieceBytes)
    list.push_back({layer, place, from, std::min(kPieceBytes, s.bytes - from)});
  waiting_.insert(first ? waiting_.begin() : waiting_.end(), list.begin(), list.end());
}

void ExpertCache::pump() {
  while (in_flight_ < kMostReads && !waiting_.empty()) {
    const auto slot = std::find_if(pieces_.begin(), pieces_.end(), [](const Piece& p) { return !p.used; });
    *slot = waiting_.front();
    slot->used = true;
    waiting_.pop_front();
    start(static_cast<std::size_t>(slot - pieces_.begin()));
  }
}

void ExpertCache::start(std::size_t slot) {
  const Piece& p = pieces_[slot];
  const State& s = layers_[static_cast<std::size_t>(p.layer)];
  const int expert = s.places[static_cast<std::size_t>(p.place)].expert;
  if (in_flight_++ == 0) busy_since_ = steady_seconds();
  reads_->start({file_.layout().at[static_cast<std::size_t>(s.layer.first_block + expert)] + p.from + p.done,
                 p.bytes - p.done, memory_.data() + s.at + p.place * s.bytes + p.from + p.done, slot});
}

void ExpertCache::answered(const ReadAnswer& answer) {
  if (--in_flight_ == 0) stats_.busy_seconds += steady_seconds() - busy_since_;
  Piece& p = pieces_[answer.tag];
  State& s = layers_[static_cast<std::size_t>(p.layer)];
  Place& place = s.places[static_cast<std::size_t>(p.place)];
  const int block = s.layer.first_block + place.expert;
  const std::int64_t at = file_.layout().at[static_cast<std::size_t>(block)] + p.from;
  std::byte* const to = memory_.data() + s.at + p.place * s.bytes;
  std::string flaw = answer.result < 0    ? std::strerror(static_cast<int>(-answer.result))
                     : answer.result == 0 ? "the file ends there"
                                          : "";
  if (answer.result > 0) {
    stats_.bytes_read += static_cast<std::uint64_t>(answer.result);
    p.done += answer.result / kBlockAlign * kBlockAlign;  // direct reads go on at whole pages only
    if (p.done < p.bytes && answer.result >= kBlockAlign) {
      ++stats_.retries;
      return start(answer.tag);
    }
    if (p.done < p.bytes)
      flaw = "too few bytes came";
    else if (piece_checksum({to + p.from, static_cast<std::size_t>(p.bytes)}) !=
             file_.checksum(block, p.from / kPieceBytes))
      flaw = "the bytes are damaged: the checksum does not match";
  }
  if (!flaw.empty()) {
    ++stats_.retries;
    p.done = 0;
    if (++p.attempts < kAttempts) return start(answer.tag);
    failure_ = Error(Code::kIo, fmt::format("reading block {} at byte {} failed: {}", block, at, flaw), file_.path());
    p.used = false;
    return;
  }
  p.used = false;
  place.left -= p.bytes;
  if (place.left > 0) return;
  place.ready = true;
  s.address[static_cast<std::size_t>(place.expert)] = to;
}

// Forgets what is under way, and says why.
void ExpertCache::fail() {
  waiting_.clear();
  while (in_flight_ > 0) {
    pieces_[reads_->wait().tag].used = false;
    if (--in_flight_ == 0) stats_.busy_seconds += steady_seconds() - busy_since_;
  }
  for (State& s : layers_)
    for (Place& p : s.places) {
      if (p.expert < 0 || p.ready) continue;
      s.place_of[static_cast<std::size_t>(p.expert)] = -1;
      p = {};
    }
  const Error e = *failure_;
  failure_.reset();
  throw Error(e);
}

}  // namespace kvasir::weights
