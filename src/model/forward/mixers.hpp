// Mixers: what the rows of a text have to do with each other. A kind of mixer is a file of this folder with
//   widen    what its rows take, from the specification alone
//   project  what attention, or the cache's recurrence, reads: from the residual rows, normed
//   mix      attention or recurrence, of all rows of the step (recurrences share one)
//   finish   what the output matrix `o` reads: from what attention or recurrence gave
// and a member of model::Mixer. project and finish take any rows of a step, whole or in tiles.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "cpu/head_products.hpp"
#include "model/cache_shape.hpp"
#include "model/forward/step_state.hpp"

namespace kvasir::model {

// Floats of a row, of the widest layer's mixer.
struct MixerWidths {
  std::int64_t gates = 0;                       // StepState::gates
  std::int64_t q = 0, k = 0, v = 0, heads = 0;  // attention's
  std::int64_t low = 0, own = 0,
               head_inputs = 0;  // with Latent::down, queries before their keys' matrices, `o`'s input
  std::int64_t latent_heads = 0, latent_width = 0;
  std::int64_t index_q = 0, index_k = 0, index_weights = 0;
  // What a smoothing gives, taps of keys and of values, numbers of Distances, sinks of rows.
  std::int64_t smoothed = 0, k_taps = 0, v_taps = 0, distances = 0, row_sinks = 0;
  // The cache's recurrence and its gates, products that these are made of, what the answers are gated with, answers.
  std::int64_t channels = 0, steps = 0, mixed = 0, z = 0, states = 0;
};

struct MixerRows {
  float *q, *k, *v, *heads, *low, *own, *head_inputs;  // (max_tokens, ...) each, as MixerWidths has them
  cpu::HeadScratch latent;
  float *index_q, *index_k, *index_weights;                   // (max_tokens, ...)
  float *smoothed, *k_taps, *v_taps, *distances, *row_sinks;  // (max_tokens, ...)
  float* whole;                                               // of encoders: (threads, whole_stride)
  std::int64_t whole_stride;
  float *channels, *steps, *mixed, *states;
  float* beside;  // (max_tokens, dim): what a mixer beside another gives

  static MixerRows place(ScratchPlan& plan);
  float* z(const cpu::Rows& rows) const { return all_z + rows.first * z_width; }  // of these rows alone, as gates are

  float* all_z;
  std::int64_t z_width;
};

void widen(MixerWidths& w, const Attention& a);
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Attention& a);
void mix(const StepState& step, const MixerRows& m, int layer, const Attention& a);
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const Attention& a);

// The same of rows that are not those of the residual stream alone: with Residuals. REQUIRES: all rows of the step.
struct MixerInput {
  const float* x;  // (rows.count, dim)
  const Norm& norm;
};
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const MixerInput& q, const MixerInput& k,
             const MixerInput& v, const Attention& a);
// x (rows of the step, channels) in place; `taps` (rows of the step, Smoothing::taps).
void smooth(const StepState& step, const MixerRows& m, const Smoothing& s, float* x, const float* taps = nullptr);

void widen(MixerWidths& w, const ShortConv& c);
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const ShortConv& c);
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const ShortConv& c);

void widen(MixerWidths& w, const Delta& d);
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Delta& d);
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const Delta& d);

void widen(MixerWidths& w, const KeyedDelta& d);
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const KeyedDelta& d);
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const KeyedDelta& d);

void widen(MixerWidths& w, const Mamba& m);
void project(const StepState& step, const MixerRows& rows_of, cpu::Rows& rows, const Norm& norm, const Mamba& m);
void mix(StepState& step, const MixerRows& rows_of, int layer, const Mamba& m);  // in rows once more
const float* finish(const StepState& step, const MixerRows& rows_of, const cpu::Rows& rows, const Mamba& m);

void widen(MixerWidths& w, const Mamba2& b);
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Mamba2& b);
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const Mamba2& b);

// What every recurrence takes, but for `mixed`.
void widen(MixerWidths& w, const kv::RecurrentShape& shape);
template <class Recurrence>
void mix(const StepState& step, const MixerRows& m, int layer, const Recurrence& r) {
  step.cache->recur(layer, recurrence_of(r), m.channels, m.steps, m.states);
}

// f(mixer) for what a layer has: none, one, or two beside each other.
template <class F>
void each_mixer(const LayerSpec& layer, F&& f) {
  std::visit(
      [&](const auto& mixer) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(mixer)>, NoMixer>) f(mixer);
      },
      layer.mixer);
  if (layer.beside) f(layer.beside);
}

}  // namespace kvasir::model
