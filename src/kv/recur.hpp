// The recurrence of one step in one layer: every head of every slice goes through its tokens one after the other.
//
// The state is what the token before left, whether that was in this step or in an earlier one, so the bits are the same
// for prompts in chunks of any size, for tokens that are generated, and for a state that is computed once more from the
// boundary after a cut or a restore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/team.hpp"
#include "kv/arena.hpp"
#include "kv/options.hpp"

namespace kvasir::kv {

class Recurrence {
 public:
  Recurrence(Team& team, const Arena& arena);
  std::size_t scratch_bytes() const { return workers_.size() + zeros_.size(); }

  struct Tensors {
    int layer;
    Recurrent how;
    const float* x;      // (n, channels)
    const float* gates;  // (n, gates)
    float* out;          // (n, outputs)
  };
  void run(std::span<const Slice> slices, const Tensors& x);
  // The convolutions alone, of which gates may be made; out is (n, channels), and nothing is kept.
  void convolve(std::span<const Slice> slices, const Tensors& x);

 private:
  struct Past;  // where the rows of a slice lie, those of this step and those before
  struct Span;  // tokens to go through

  void take(const Past& past, const Tensors& x, int unit, int worker) const;
  void advance(const Past& past, const Tensors& x, int head, const Span& span, float* scratch) const;
  void convolve(const Past& past, const Tensors& x, int piece) const;
  template <class F>
  void each(std::span<const Slice> slices, const Tensors& x, int units, F f);
  void keep(const Past& past, const Tensors& x, int piece) const;

  Team& team_;
  const Arena& arena_;
  std::size_t worker_floats_;
  tensor::Buffer workers_;
  tensor::Buffer zeros_;  // rows before a text
};

}  // namespace kvasir::kv
