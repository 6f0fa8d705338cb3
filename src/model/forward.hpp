// One step of a model: the next tokens of one or more sequences through all layers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/team.hpp"
#include "kv/cache.hpp"
#include "model/model.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::model {

// A run of tokens of one sequence inside a step.
struct Input {
  kv::Sequence* sequence = nullptr;
  std::span<const std::int32_t> tokens;  // at least 1, the sequence's next ones; ids in [0, vocab)
  int logits = 1;                        // rows of logits wanted: those of the last `logits` tokens (0..tokens.size())
  bool decode = false;                   // the tokens were generated: see kv::Slice
};

class Forward {
 public:
  // Reserves scratch for steps of up to max_tokens tokens and max_logits rows of logits. The references must outlive
  // it.
  Forward(Team& team, const Model& model, kv::Cache& cache, int max_tokens, int max_logits);

  // What attention multiplies products of queries and keys with.
  static float score_scale(const Config& config);

  int max_tokens() const { return max_tokens_; }
  int max_logits() const { return max_logits_; }
  // Whether steps of many rows are computed in tiles of rows, each by one thread. Results do not depend on it.
  bool in_tiles() const { return tiles_; }

  // Runs one step. Returns the wanted rows of logits in the order of the inputs, (rows, vocab), valid until the next
  // step. Throws Error(kMemory) when the cache cannot hold the tokens; nothing has changed then. Does not allocate once
  // every number of inputs has been seen. REQUIRES: the token counts sum to 1..max_tokens, the logits to at most
  // max_logits, ids are in range.
  std::span<const float> step(std::span<const Input> inputs);

  // Calls `observer(layer, slices, q, k, v)` from now on for every layer of every step, before attention: queries
  // (rows, heads, d) and keys (rows, kv_heads, d), rotated, and values (rows, kv_heads, dv), as the cache gets them. An
  // empty one ends it.
  using Observer = std::function<void(int, std::span<const kv::Slice>, const float*, const float*, const float*)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  std::size_t scratch_bytes() const { return scratch_.size(); }
  // What a Forward for these steps allocates.
  static std::int64_t planned_scratch(const Config& config, int max_tokens, int max_logits, int threads);

 private:
  // Bytes of every scratch array, in the order of the members below.
  struct Sizes {
    std::int64_t floats[11];
    std::int64_t prepared[kernel::kActivationKinds];
    std::int64_t gate;
    std::int64_t total() const;
  };
  static Sizes sizes(const Config& config, int max_tokens, int max_logits, int threads);
  // Rows of a step and what computes them: the whole team, or one of its threads by itself. Scratch is (rows, ...).
  struct Block {
    std::int64_t first;
    int rows;
    int worker;  // of the thread; -1: the team
    float* norm;
    float* y;
    std::array<kernel::Activations, kernel::kActivationKinds> prepared;  // by kind
    kernel::Activations gated;                                           // silu(gate x) * (up x)
  };
  struct Range {
    std::int64_t begin, end;
  };
  // How items are shared out, see Team::parallel_for.
  struct Share {
    std::int64_t first, grain;
  };
  void embed(std::span<const Input> inputs);
  void rotate_tables(std::span<const Input> inputs);
  Block whole(int rows);
  Block tile(std::int64_t first, int worker);
  template <class F>
  void in_blocks(const F& f);
  void split(const Block& b, std::int64_t n, Share share, Team::Pieces f) const;
  void project_in(Block& b, const Layer& layer);
  void project_out(Block& b, const Layer& layer);
  void rotate(float* q, float* k, const Layer& layer, std::int64_t row);
  void prepare(Block& b, std::span<const Matrix* const> users, const float* x, std::int64_t k, const float* norm);
  void multiply(const Block& b, std::span<const Matrix* const> matrices, std::span<float* const> outs);
  void multiply(const Block& b, const Matrix& m, const kernel::Activations& x, float* out);
  void multiply_gated(const Block& b, const Matrix& gate, const Matrix& up);
  void gated_piece(const Block& b, const Matrix& gate, const Matrix& up, Range panels, Range columns, int worker);
  void add_residual(const Block& b);
  Share share(std::int64_t panels, std::int64_t panel_bytes, int rows) const;
  std::int64_t grain(std::int64_t panels) const;

  Team& team_;
  const Model& model_;
  kv::Cache& cache_;
  int max_tokens_, max_logits_;
  tensor::Buffer scratch_;
  // (max_tokens, ...) each
  float* x_ = nullptr;      // residual, dim
  float* norm_ = nullptr;   // normed row, dim
  float* q_ = nullptr;      // H d
  float* k_ = nullptr;      // KV d
  float* v_ = nullptr;      // KV dv
  float* heads_ = nullptr;  // H dv
  float* y_ = nullptr;      // dim
  float* gated_ = nullptr;  // (threads, 2, tile of columns, rows of a piece)
  float* cos_ = nullptr;    // n_rot / 2
  float* sin_ = nullptr;
  float* logits_ = nullptr;  // (max_logits, vocab)
  // By kind: activations as the matrices to be multiplied next want them. The memory fits the widest input.
  std::array<std::byte*, kernel::kActivationKinds> prepared_;
  std::byte* gate_ = nullptr;  // activations with ffn elements, of any kind
  bool tiles_ = false;         // many rows are computed in tiles, each by one thread
  std::vector<kv::Slice> slices_;
  std::vector<std::int64_t> positions_;  // of every row of the step
  int rows_ = 0;
  Observer observer_;
};

}  // namespace kvasir::model
