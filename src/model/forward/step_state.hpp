// What the parts of a forward pass share: the step's rows, where they stand in their texts, and products with them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "cpu/products.hpp"
#include "cpu/rows.hpp"
#include "kv/cache.hpp"
#include "kv/rotation.hpp"
#include "model/rows.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

// A run of tokens of one sequence inside a step.
struct Input {
  kv::Sequence* sequence = nullptr;
  std::span<const std::int32_t> tokens;  // at least 1, the sequence's next ones; ids in [0, vocab), or of rows
  int logits = 1;                        // rows of logits wanted: those of the last `logits` tokens (0..tokens.size())
  bool decode = false;                   // the tokens were generated: see kv::Slice
  // With Embedding::join: (tokens, dim), what is read with them; with Embedding::given: (tokens, columns), in their
  // place.
  const float* states = nullptr;
  std::int64_t second = -1;              // of encoders: the tokens from here on are of a second text; -1: there is one
  std::span<const RowRun> runs = {};     // of the text, with the rows that stand in it ...
  std::int64_t at = 0;                   // ... whose element `at` is the first of the tokens; all where cache says
  std::span<const float> adapters = {};  // scales of the model's adapters; empty: Adapters::scales
};

// Lays out the scratch of steps of up to max_tokens tokens, part by part; StepState's comes last.
struct ScratchPlan {
  const ModelSpec& spec;
  int max_tokens, max_logits, threads;
  cpu::Placer placer;
  cpu::Widths widths = {};  // of rows: every part widens what it needs
  std::int64_t gates = 0;   // likewise: StepState::gates

  float* rows(std::int64_t width) { return placer.take<float>(max_tokens * width); }  // (max_tokens, width)
};

// The angles of one row's RoPE.
struct Angles {
  const float *cos, *sin;
  std::int64_t pairs;
  kernel::RopePairs layout;

  void rotate(float* head) const { kernel::ops().rope(head, cos, sin, pairs, layout); }
};

// Where attention's keys and values are: in a cache of the model's own, or in another model's, or (none) in the step.
struct Attends {
  kv::Cache* cache = nullptr;
  kv::Reader* reader = nullptr;
};

struct StepState {
  struct Scratch {
    float* x;                 // (max_tokens, dim)
    float* gates;             // (max_tokens, gate_width)
    std::int64_t gate_width;  // of the widest layer
    float *cos, *sin;         // (max_tokens, pairs) of every RoPE in turn
    cpu::RowScratch rows;

    static Scratch place(ScratchPlan& plan);
  };

  StepState(Team& team, const ModelSpec& spec, Attends attends, int max_tokens, bool tiles, const Scratch& scratch,
            cpu::ProductDevice* device);

  // Takes in the rows of a step, and says how many of them want logits.
  int begin(std::span<const Input> inputs);
  void compute_angles();
  Angles angles(int rope, std::int64_t row) const;

  // The residual stream of rows: (r.count, dim).
  float* residual(const cpu::Rows& r) const { return scratch.x + r.first * spec.dim; }
  // What a layer's mixer, and then its input, makes gates in: (rows.count, width of the layer's). It is of these rows
  // alone, however wide: while a tile makes the gates of a layer, another still uses those of the last.
  float* gates(const cpu::Rows& r) const { return scratch.gates + r.first * scratch.gate_width; }

  // f(rows), for all rows of the step at once or in tiles.
  template <class F>
  void in_rows(const F& f) {
    cpu::in_rows(team, scratch.rows, rows, tiles, [&](cpu::Rows& r) {
      r.scales = adapted() ? scales.data() + r.first : nullptr;
      f(r);
    });
  }
  // All rows of the step.
  cpu::Rows whole() const {
    cpu::Rows r = scratch.rows.whole(rows);
    r.scales = adapted() ? scales.data() : nullptr;
    return r;
  }
  // Adapters add to some row.
  bool adapted() const { return !scales.empty(); }
  // Prepares norm(x), or x without a norm, for the matrices.
  void prepare(cpu::Rows& rows, std::span<const cpu::Matrix* const> users, const float* x, const Norm& norm) const;
  struct Product {
    const Linear& of;
    float* out;  // (rows.count, of.rows), without the bias
  };
  // Products of norm(x), or x without a norm, with those of the matrices that are there.
  void multiply(cpu::Rows& rows, const float* x, const Norm& norm, std::initializer_list<Product> wanted) const;
  // Makes the hidden rows of a feed forward from the prepared rows.
  void make_hidden(cpu::Rows& rows, const Dense& feed) const;

  Team& team;
  const ModelSpec& spec;
  kv::Cache* const cache;  // null: see Attends
  kv::Reader* const reader;
  const int max_tokens;
  const bool tiles;
  const Scratch scratch;
  const cpu::Products products;
  std::vector<kv::Rotation> rotations;  // of every RoPE
  // Of the step.
  int rows = 0;
  std::vector<kv::Slice> slices;
  std::vector<kv::BothWays> both;
  std::vector<std::int64_t> positions;  // of every row, among its text's elements
  std::vector<Position> places;         // the same where ModelSpec::has_places
  std::vector<const float*> scales;     // of the adapters, of every row; empty: they add to none

 private:
  void take_scales(std::span<const Input> inputs);
};

}  // namespace kvasir::model
