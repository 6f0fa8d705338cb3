// One step of a model: the next tokens of one or more sequences through all layers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/team.hpp"
#include "cpu/experts.hpp"
#include "cpu/head_products.hpp"
#include "cpu/products.hpp"
#include "cpu/rows.hpp"
#include "kv/cache.hpp"
#include "kv/turn.hpp"
#include "model/model.hpp"
#include "model/rows.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::model {

// A run of tokens of one sequence inside a step.
struct Input {
  kv::Sequence* sequence = nullptr;
  std::span<const std::int32_t> tokens;  // at least 1, the sequence's next ones; ids in [0, vocab), or of rows
  int logits = 1;                        // rows of logits wanted: those of the last `logits` tokens (0..tokens.size())
  bool decode = false;                   // the tokens were generated: see kv::Slice
  const float* states = nullptr;         // with Embedding::join: (tokens, dim), what is read with them
  std::int64_t second = -1;              // of encoders: the tokens from here on are of a second text; -1: there is one
  std::span<const RowRun> runs = {};     // of the text, with the rows that stand in it ...
  std::int64_t at = 0;                   // ... whose element `at` is the first of the tokens
};

class Forward {
 public:
  // Reserves scratch for steps of up to max_tokens tokens and max_logits rows of logits. The references must outlive
  // it.
  Forward(Team& team, const Model& model, kv::Cache& cache, int max_tokens, int max_logits);
  // Of an encoder (ModelSpec::causal is false). Every input is a whole text, without a sequence, and wants no logits.
  Forward(Team& team, const Model& model, int max_tokens);

  // Sees queries (rows, heads, d) and keys (rows, kv_heads, d), rotated, and values (rows, kv_heads, dv), as the cache
  // gets them; null for layers without attention.
  using Observer = std::function<void(int, std::span<const kv::Slice>, const float*, const float*, const float*)>;

  int max_tokens() const { return max_tokens_; }
  int max_logits() const { return max_logits_; }
  // Whether steps of many rows are computed in tiles of rows, each by one thread. Results do not depend on it.
  bool in_tiles() const { return tiles_; }

  // Runs one step. Returns the wanted rows of logits in the order of the inputs, (rows, vocab), valid until the next
  // step. Throws Error(kMemory) when the cache cannot hold the tokens; nothing has changed then. Throws Error(kIo) when
  // a disk does not give the weights that are streamed; the inputs' sequences are empty then, and the next step may
  // succeed. Does not allocate once every number of inputs has been seen. REQUIRES: the token counts sum
  // to 1..max_tokens, the logits to at most max_logits, ids are in range, no sequence grows beyond
  // ModelSpec::most_positions.
  std::span<const float> step(std::span<const Input> inputs);

  // Takes the tokens through the first `layer` layers only, and shows `observer` what that layer gets: of `layer`
  // alone. The sequences are good for nothing afterwards but further calls for the same layer, and to be released.
  // Throws as step.
  // REQUIRES as step, and that no input wants logits.
  void look(std::span<const Input> inputs, int layer, const Observer& observer);

  // Logits of `count` rows of the last step, from `first` on, over all of its inputs: (count, vocab), valid until the
  // next call of this or of step(), whose rows they replace. REQUIRES: count in 1..max_logits.
  std::span<const float> logits_of(int first, int count);
  // The embedding's rows of tokens, (tokens, dim), as RowBlock has them. REQUIRES: ids in range.
  std::vector<float> rows_of(std::span<const std::int32_t> tokens) const;
  // What the head reads of a row of the last step: its state behind the last layer, normed. (dim)
  void state_of(int row, float* out) const;
  // What the model's head that ranks makes of such a state, (labels). REQUIRES: there is one.
  std::vector<float> rank(std::span<const float> state);
  // A text's vector of the states that were pooled: (ModelSpec::vector_width) of (dim).
  std::vector<float> project(std::vector<float> pooled);

  // Calls `observer(layer, slices, q, k, v)` from now on for every layer of every step, before attention. An empty one
  // ends it.
  void observe(Observer observer) { observer_ = std::move(observer); }

  // For tests of what falls otherwise: `chosen(e, row)` is called for every row of a step with its experts of `e`, in
  // ascending order; `bias(e, row)`, if it gives any, is (experts) in place of Experts::choice_bias. In any thread.
  struct ExpertHooks {
    std::function<const float*(const Experts& e, std::int64_t row)> bias;
    std::function<void(const Experts& e, std::int64_t row, std::span<const std::int32_t> experts)> chosen;
  };
  void hook_experts(ExpertHooks hooks) { expert_hooks_ = std::move(hooks); }

  // Packed bytes of weights that the last step read: of experts those that one of its tokens used.
  std::int64_t weight_bytes() const { return weight_bytes_; }

  std::size_t scratch_bytes() const { return memory_.size(); }
  // What a Forward for these steps allocates.
  static std::int64_t planned_scratch(const ModelSpec& spec, int max_tokens, int max_logits, int threads);

 private:
  // (max_tokens, ...) each, but for the logits.
  struct Scratch {
    float *x, *q, *k, *v, *gate, *heads, *cos, *sin;  // residual; of one layer; of every RoPE in turn
    std::int64_t gate_width;                          // of a row, the widest layer's
    float* inputs;                                    // of layers that have some: Embedding::layers, all layers'
    std::int64_t input_width;                         // of a row
    float* token_inputs;                              // (threads, input_width)
    float* joined;                                    // (max_tokens, 2 dim), with Embedding::join
    float* branch;                                    // of DenseAndExperts, Experts::out or a mixer
    float *narrow, *narrow_y;                         // with Experts::into: what experts read, and what they give
    float *low, *own, *values;  // of latent layers: Latent::down, queries before their keys' matrices, what `o` reads
    // Of recurrent layers: rows of the cache's recurrence and their gates, products that these are made of, what the
    // answers are gated with, answers, and what a mixer beside another gives.
    float *channels, *steps, *mixed, *z, *states, *beside;
    std::int64_t z_width;  // of a row, the widest layer's
    float* logits;         // (max_logits, vocab)
    float* whole;          // of encoders: (threads, whole_stride)
    std::int64_t whole_stride;
    cpu::RowScratch rows;
    cpu::ExpertScratch experts;
    cpu::HeadScratch head_inputs;
  };
  static Scratch place(const ModelSpec& spec, int max_tokens, int max_logits, int threads, cpu::Placer& p);
  Forward(Team& team, const Model& model, kv::Cache* cache, int max_tokens, int max_logits);
  using Rows = cpu::Rows;
  template <class F>
  void in_rows(const F& f) {
    cpu::in_rows(team_, s_.rows, rows_, tiles_, f);
  }
  int take(std::span<const Input> inputs);
  void pass(std::span<const Input> inputs, int layers, bool ends);
  void row_of(std::int32_t token, float* x) const;
  void embed(std::span<const Input> inputs);
  void join(std::span<const Input> inputs);
  void angles();
  std::int64_t angles_at(int rope) const;
  void before(Rows& rows, const LayerSpec& layer);
  void before(Rows& rows, const LayerSpec& layer, const Attention& a);
  void before_latent(Rows& rows, const LayerSpec& layer, const Attention& a);
  void values_of_latent(const Rows& rows, const Attention& a);
  void before(Rows& rows, const LayerSpec& layer, const ShortConv& c);
  void before(Rows& rows, const LayerSpec& layer, const Delta& d);
  void before(Rows& rows, const LayerSpec& layer, const Mamba2& m);
  void before(Rows&, const LayerSpec&, const NoMixer&) {}
  static void part_heads(const Delta& d, const float* from, float* to, float* z);
  void mix(int layer);
  void attend(int layer, const Attention& a);
  template <class M>
  void recur(int layer, const M& mixer);
  void attend_whole(const Attention& a);
  void after(Rows& rows, std::size_t layer);
  void add_deep(const Rows& rows, std::size_t layer);
  const Linear& answer(Rows& rows, const Attention& a);
  const Linear& answer(Rows& rows, const ShortConv& c);
  const Linear& answer(Rows& rows, const Delta& d);
  const Linear& answer(Rows& rows, const Mamba2& m);
  void add_beside(Rows& rows, const Mamba2& m);
  void multiply_answer(Rows& rows, const Linear& o, const float* x, float* y);
  void feed(Rows& rows, const Norm& norm, const Experts& e, std::size_t layer);
  void feed(Rows& rows, const LayerSpec& layer, const DenseAndExperts& both, std::size_t l);
  void expect(Rows& rows, std::size_t layer);
  void add_narrow(Rows& rows, const Experts& e, const cpu::ExpertStacks& stacks);
  void choose(const Experts& e, std::int64_t begin, std::int64_t end);
  void hide(Rows& rows, const LayerSpec& layer, const Dense& feed);
  void make_inputs(std::span<const Input> inputs);
  void add_input(Rows& rows, std::size_t layer);
  void make_hidden(Rows& rows, const Dense& feed);
  void add(const Rows& rows, const LayerSpec& layer, const Norm& post, const Vector& bias, bool last,
           const Norm& sum = {});
  void finish_heads(float* x, const Attention& a, const Linear& l, const Norm& norm, int heads, std::int64_t row) const;
  void finish_values(float* v, const Attention& a, std::int64_t width) const;
  void heat(float* q, const Attention& a, std::int64_t row) const;
  void gate_heads(const Rows& rows, const Attention& a);
  // Of these rows alone, however wide: while a tile makes the gates of a layer, another still uses those of the last.
  float* gates(const Rows& rows) const { return s_.gate + rows.first * s_.gate_width; }
  float* z(const Rows& rows) const { return s_.z + rows.first * s_.z_width; }
  void prepare(Rows& rows, std::span<const cpu::Matrix* const> users, const float* x, const Norm& norm);
  std::span<const float> logits(std::span<const Input> inputs, int wanted);
  std::span<const float> multiply_head(const float* x, int rows);
  std::vector<float> multiply_one(const Linear& l, const std::vector<float>& x);

  Team& team_;
  const ModelSpec& spec_;
  LayerWeights& weights_;
  kv::Cache* const cache_;  // null: an encoder
  int max_tokens_, max_logits_;
  tensor::Buffer memory_;
  Scratch s_{};
  cpu::Products products_;
  cpu::ExpertProducts experts_;
  cpu::HeadProducts head_products_;
  std::int64_t shared_bytes_ = 0;  // of weights that every step reads
  std::int64_t weight_bytes_ = 0;
  bool tiles_ = false;
  std::vector<kv::Turn> turns_;  // of every RoPE
  std::vector<kv::Slice> slices_;
  std::vector<kv::BothWays> both_;
  std::vector<std::int64_t> positions_;  // of every row of the step, among its text's elements
  std::vector<Position> places_;         // the same where ModelSpec::has_places
  struct DeepRow {
    std::int64_t row;  // of the step
    const RowBlock* block;
    std::int64_t i;  // of the block
  };
  std::vector<DeepRow> deep_;      // ascending
  std::vector<std::int32_t> ids_;  // of every row, where layers have inputs
  int rows_ = 0;
  Observer observer_;
  ExpertHooks expert_hooks_;
};

}  // namespace kvasir::model
