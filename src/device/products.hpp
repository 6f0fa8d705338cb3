// Products of prompts on an OpenCL device (cpu/product_device.hpp): which weights stay there, and which go there anew
// for every step that needs them.
//
// While the weights that it takes fit into the budget, each is copied when it is first needed and stays. Else two
// places of the largest are for those that come and go, and the first ones that fit into the rest stay. While one of
// the two is multiplied, and until the next product, the other gets the weights that came next the last time.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>

#include "base/team.hpp"
#include "cpu/product_device.hpp"
#include "device/integer_dots.hpp"
#include "device/multiply.hpp"

namespace kvasir::device {

class WeightProducts final : public cpu::ProductDevice {
 public:
  struct Options {
    std::int64_t memory = 0;  // bytes for weights, at most
    int from_rows = 0;        // 0: measured
    bool streamed = false;    // panels may be read within `multiply` alone: nothing is copied ahead
  };
  explicit WeightProducts(const Found& device) : context_(with_checked_dots(device)) {
    stats_.name = context_.device().name;
  }
  ~WeightProducts() override { settle(); }

  // Takes the matrices whose types it knows. Compiles, and checks on a few rows that products have the processor's
  // bits. Throws Error(kUnsupported) where they do not or where there is no such type, Error(kMemory) where no matrix
  // fits.
  void open(std::span<const cpu::Matrix* const> matrices, const Options& options, Team& team);

  // It is never used; why, for stats.
  void leave(const std::string& why) { stats_.note = why; }

  int from_rows() const noexcept override { return stats_.from_rows; }
  bool takes(const cpu::Matrix& m) const noexcept override;
  bool multiply(std::span<const cpu::Matrix* const> matrices, std::span<const kernel::Activations* const> x,
                std::span<float* const> outs, bool again) noexcept override;
  cpu::ProductDeviceStats stats() const override { return stats_; }

 private:
  struct Known {
    const WeightForm* form = nullptr;
    bool stays = false;
    Buffer there;
    const cpu::Matrix* next = nullptr;  // of those that come and go: most likely
  };
  struct Place {
    Buffer buffer;
    const cpu::Matrix* of = nullptr;
    Event copied;      // false: long ago
    Event multiplied;  // the last time
  };

  void decide(std::int64_t memory);
  void measure(const cpu::Matrix& m, const WeightForm& form, Team& team);
  void room(Buffer& buffer, std::size_t bytes);
  bool keep(const cpu::Matrix& m, Known& known);
  Place& place_of(const cpu::Matrix& m);
  void copy(const cpu::Matrix& m, Place& to);
  void copy_ahead(const Place& used, Known& known);
  void multiply(const cpu::Matrix& m, std::int64_t columns, std::int64_t out_at, bool again);
  void settle() noexcept;
  void run(std::span<const cpu::Matrix* const> matrices, std::span<const kernel::Activations* const> x,
           std::span<float* const> outs, bool again);

  Context context_;
  Programs programs_;
  std::unique_ptr<Multiplier> multiplier_;
  std::unordered_map<const cpu::Matrix*, Known> known_;
  std::size_t place_bytes_ = 0;  // of a matrix that comes and goes, at most
  std::array<Place, 2> places_;
  Place* last_place_ = &places_[1];    // that was multiplied with last
  const cpu::Matrix* last_ = nullptr;  // of those that come and go
  bool ahead_ = true;
  Buffer x_;
  Buffer out_;
  cpu::ProductDeviceStats stats_;
};

}  // namespace kvasir::device
