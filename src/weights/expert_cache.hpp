// Experts of a model that are read from a packed file when a router chooses them. Every layer has the same number of
// places; the experts that are used most stay.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cpu/experts.hpp"
#include "weights/packed_file.hpp"
#include "weights/reads.hpp"
#include "weights/stream_stats.hpp"

namespace kvasir::weights {

// For one thread.
class ExpertCache {
 public:
  struct Layer {
    int first_block = 0;  // of its experts, each a block of the file, all of one size
    int count = 0;
  };
  // `places` for every layer. The file must outlive this. REQUIRES: places >= 1.
  ExpertCache(const PackedFile& file, const std::vector<Layer>& layers, int places, std::unique_ptr<Reads> reads);
  ~ExpertCache();
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;

  cpu::ExpertSource& layer(int i) { return *sources_[static_cast<std::size_t>(i)]; }
  // Where the experts of a layer lie; null: not in memory. Valid for as long as this.
  const std::byte* const* places(int layer) const;
  const StreamStats& stats() const { return stats_; }
  std::int64_t bytes() const { return memory_.size(); }

 private:
  class Source;
  struct Place {
    int expert = -1;  // none
    bool ready = false;
    std::int64_t left = 0;  // bytes that are still to come
  };
  struct State {
    Layer layer;
    std::int64_t bytes = 0, at = 0;  // of an expert; of the first place
    std::vector<Place> places;
    std::vector<int> place_of;              // of every expert; -1: none
    std::vector<const std::byte*> address;  // of every expert that is ready
    std::vector<float> uses;                // of every expert, older ones count less
    std::vector<std::uint64_t> needed;      // when it was last needed
    int calls = 0;
  };
  struct Piece {
    int layer = 0, place = 0;
    std::int64_t from = 0, bytes = 0, done = 0;
    int attempts = 0;
    bool used = false;
  };
  void need(int layer, std::span<const std::int32_t> experts);
  void expect(int layer, std::span<const std::int32_t> experts);
  int place_for(State& s) const;
  void read(int layer, int expert, int place, bool first);
  void pump();
  void start(std::size_t slot);
  void answered(const ReadAnswer& answer);
  [[noreturn]] void fail();

  const PackedFile& file_;
  std::unique_ptr<Reads> reads_;
  std::vector<State> layers_;
  std::vector<std::unique_ptr<cpu::ExpertSource>> sources_;
  PageBuffer memory_;
  std::deque<Piece> waiting_;
  std::vector<Piece> pieces_;
  int in_flight_ = 0;
  std::uint64_t now_ = 0;  // calls of need
  std::optional<Error> failure_;
  double busy_since_ = 0;
  StreamStats stats_;
};

}  // namespace kvasir::weights
