// One step of a model: the next tokens of one or more sequences through all layers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/team.hpp"
#include "kv/cache.hpp"
#include "model/forward/embed.hpp"
#include "model/forward/feed.hpp"
#include "model/forward/head.hpp"
#include "model/forward/mixers.hpp"
#include "model/forward/residuals.hpp"
#include "model/forward/step_state.hpp"
#include "model/forward/streams.hpp"
#include "model/model.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::model {

class Forward {
 public:
  // Reserves scratch for steps of up to max_tokens tokens and max_logits rows of logits. The references must outlive
  // it. A device, if there is one, multiplies the rows of prompts.
  Forward(Team& team, const Model& model, kv::Cache& cache, int max_tokens, int max_logits,
          cpu::ProductDevice* device = nullptr);
  // Of a model that reads the keys and values of another one's cache (model/assistant.hpp), for up to `texts` of that
  // model's texts. Every input is one token behind such a text, with its `states`; nothing is appended.
  Forward(Team& team, const Model& model, kv::Reader& reader, int texts);
  // Of an encoder (ModelSpec::causal is false). Every input is a whole text, without a sequence, and wants no logits.
  Forward(Team& team, const Model& model, int max_tokens);

  // Sees queries (rows, heads, d) and keys (rows, kv_heads, d), rotated, and values (rows, kv_heads, dv), as the cache
  // gets them; null for layers without attention.
  using Observer = std::function<void(int, std::span<const kv::Slice>, const float*, const float*, const float*)>;

  int max_tokens() const { return step_.max_tokens; }
  int max_logits() const { return max_logits_; }
  // Whether steps of many rows are computed in tiles of rows, each by one thread. Results do not depend on it.
  bool in_tiles() const { return step_.tiles; }

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
  // What is made of the rows of the last step, and of states.
  const OutputHead& head() const { return head_; }

  // Calls `observer(layer, slices, q, k, v)` from now on for every layer of every step, before attention. An empty one
  // ends it.
  void observe(Observer observer) { observer_ = std::move(observer); }
  void hook_experts(ExpertHooks hooks) { feed_.experts().hook(std::move(hooks)); }

  // Packed bytes of weights that the last step read: of experts those that one of its tokens used.
  std::int64_t weight_bytes() const { return weight_bytes_; }

  std::size_t scratch_bytes() const { return memory_.size(); }
  // What a Forward for these steps allocates.
  static std::int64_t planned_scratch(const ModelSpec& spec, int max_tokens, int max_logits, int threads);

 private:
  struct Scratch {
    Embedder::Scratch embed;
    MixerRows mixers;
    ResidualStates::Scratch residuals;
    Streams::Scratch streams;
    FeedForward::Scratch feed;
    float* logits;
    StepState::Scratch step;

    static Scratch place(ScratchPlan& plan);
  };
  Forward(Team& team, const Model& model, Attends attends, int max_tokens, int max_logits,
          cpu::ProductDevice* device = nullptr);
  int begin(std::span<const Input> inputs);
  void pass(std::span<const Input> inputs, int layers, bool ends);
  void project(cpu::Rows& rows, int layer);
  void mix(int layer);
  void feed(cpu::Rows& rows, int layer);
  void feed_with_residuals(cpu::Rows& rows, int layer);
  void feed_with_streams(cpu::Rows& rows, int layer);
  const Vector* output(cpu::Rows& rows, const LayerSpec& layer);
  void add(const cpu::Rows& rows, const LayerSpec& layer, const Norm& post, const Vector* bias, bool last,
           const Norm& sum = {});

  const ModelSpec& spec_;
  LayerWeights& weights_;
  const int max_logits_;
  const std::int64_t shared_bytes_;  // of weights that every step reads
  std::int64_t weight_bytes_ = 0;
  const tensor::Buffer memory_;
  const Scratch scratch_;
  StepState step_;
  Embedder embed_;
  ResidualStates residuals_;
  Streams streams_;
  FeedForward feed_;
  OutputHead head_;
  Observer observer_;
};

}  // namespace kvasir::model
