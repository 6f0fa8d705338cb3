// Feed forwards of which each row uses a few of many, shared out over a team: the rows of every expert are gathered, so
// that its weights are read once for all of them. What an expert gives for a row depends on that row alone, and a row's
// experts are added in ascending order; so results depend neither on the other rows nor on the sharing.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/products.hpp"
#include "kernel/router.hpp"

namespace kvasir::cpu {

// Where the weights of one layer's experts come from, if they are not all in memory.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;
  // Experts that can be in memory at once.
  virtual int room() const = 0;
  // These experts' matrices are in memory and bound from here to the next call. Waits for them. Throws Error(kIo).
  // REQUIRES: at most room() of them.
  virtual void need(std::span<const std::int32_t> experts) = 0;
  // These will probably be needed soon.
  virtual void expect(std::span<const std::int32_t> experts) = 0;
};

// One layer's: weight_e * (down_e(act(gate_e x + gate_bias_e) * (up_e x + up_bias_e)) + down_bias_e), summed.
struct ExpertStacks {
  kernel::Activation activation;
  const MatrixStack* gate;  // nullptr: none
  const float* gate_bias;   // (experts, rows of gate); nullptr: none, as the others
  const MatrixStack& up;
  const float* up_bias;
  const MatrixStack& down;
  const float* down_bias;
  bool weigh_inputs;  // weight_e multiplies x, and not what the expert gives
  ExpertSource* source = nullptr;
};

// The memory of one step's experts.
class ExpertScratch {
 public:
  struct Widths {
    std::int64_t dim = 0;     // what experts read
    std::int64_t hidden = 0;  // their longest hidden row
    int experts = 0, used = 0;
    bool rounded = false;  // ModelSpec::rounded
  };
  static ExpertScratch place(const Widths& widths, int max_rows, Placer& p);

  float* logits() const { return logits_; }                  // (rows, experts), the caller's
  float* shared_weights() const { return shared_weights_; }  // (rows), likewise

 private:
  friend class ExpertProducts;
  std::int64_t most_columns_ = 0;  // rows that are gathered at a time
  float* logits_ = nullptr;
  float* shared_weights_ = nullptr;
  std::int32_t* chosen_ = nullptr;  // (rows, used)
  float* weights_ = nullptr;        // (rows, used)
  std::int32_t* begin_ = nullptr;   // (experts + 1): where the rows of each begin in
  std::int32_t* rows_ = nullptr;    // (rows * used)
  float* row_weights_ = nullptr;    // (rows * used)
  std::int32_t* active_ = nullptr;  // (experts): those that have rows
  std::array<std::byte*, kernel::kActivationKinds> inputs_{};
  std::byte* hidden_ = nullptr;
};

class ExpertProducts {
 public:
  ExpertProducts(Team& team, const RowScratch& rows, const ExpertScratch& scratch)
      : team_(team), rows_(rows), scratch_(scratch) {}

  // The experts of rows [begin, end), from the scratch's logits. weight_scales (experts) may be null.
  void choose(Range rows, const kernel::Routing& rule, const float* choice_bias, const float* weight_scales) const;

  // The experts that rows [begin, end) would choose by other logits (rows, experts): distinct ones, ascending, in
  // memory that the next choose() overwrites.
  std::span<const std::int32_t> predict(Range rows, const kernel::Routing& rule, const float* choice_bias) const;

  std::span<const std::int32_t> chosen(std::int64_t row, const kernel::Routing& rule) const {
    return {scratch_.chosen_ + row * rule.used, static_cast<std::size_t>(rule.used)};
  }

  // rows.y += what the chosen experts give for x (rows.count, k of the experts). x of a single row is in rows.inputs as
  // well, in each form that experts want. REQUIRES: all rows of the step, chosen for, by the team.
  void add(const Rows& rows, const float* x, const ExpertStacks& e, const kernel::Routing& rule);

  // Packed bytes of the experts that were read since the last call.
  std::int64_t take_bytes_read();

 private:
  struct Pass;
  int sort(int rows, const kernel::Routing& rule);
  Rows part(const Rows& rows, const Pass& pass, int i, const ExpertStacks& e) const;
  void gather(const Rows& rows, const Pass& pass, const float* x, const ExpertStacks& e) const;
  void make_hidden(const Rows& rows, const Pass& pass, const ExpertStacks& e) const;
  void multiply(const Rows& rows, const Pass& pass, const ExpertStacks& e) const;

  Team& team_;
  const RowScratch& rows_;
  const ExpertScratch& scratch_;
  std::int64_t bytes_read_ = 0;
};

}  // namespace kvasir::cpu
