// Parts of specifications that many architectures share: what an entry of model/archs is made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "model/arch.hpp"
#include "model/hparams.hpp"

namespace kvasir::model {

enum class Bias { kNone, kRequired, kIfPresent };

// Tensors of one layer ("blk.N." before their names) or, without a layer, of the model. Names are without ".weight" and
// ".bias"; shapes are rows x columns.
class Names {
 public:
  explicit Names(const Hparams& h, int layer = -1)
      : h_(h), layer_(layer), prefix_(layer < 0 ? "" : "blk." + std::to_string(layer) + ".") {}

  const Hparams& h() const { return h_; }
  int layer() const { return layer_; }
  Vector vector(std::string_view name, std::int64_t columns) const;  // the whole name, such as "ssm_dt.bias"
  Linear linear(std::string_view name, std::int64_t rows, std::int64_t columns, Bias bias = Bias::kNone) const;
  // Of the residual stream, unless a width is given.
  Norm rms(std::string_view name, std::int64_t width = 0) const;
  Norm layer_norm(std::string_view name, Bias bias = Bias::kRequired) const;
  bool has(std::string_view name) const { return h_.has_tensor(full(name)); }
  std::string full(std::string_view name) const { return prefix_ + std::string(name) + ".weight"; }

 private:
  Vector bias_of(std::string_view name, std::int64_t columns, Bias bias) const;

  const Hparams& h_;
  int layer_;
  std::string prefix_;
};

// Rows [first, first + rows) of a tensor that is several matrices; its bias is cut likewise.
Linear part_of(const Linear& fused, std::int64_t first, std::int64_t rows);

// Sizes from the hyper-parameters, scale attention.scale or 1 / sqrt(d), RoPE number 0; attn_q, attn_k, attn_v and
// attn_output. Where the file has attn_qkv, that is all three.
Attention attention(const Names& n, Bias qkv = Bias::kIfPresent, Bias o = Bias::kIfPresent);
// The same with attn_qkv.
Attention fused_attention(const Names& n, Bias qkv = Bias::kIfPresent, Bias o = Bias::kIfPresent);
// RMS norms of every query and key head: attn_q_norm and attn_k_norm of d elements.
void norm_heads(const Names& n, Attention& a);
// RMS norms of all query heads together, and of all key heads: attn_q_norm and attn_k_norm of so many rows.
void norm_all_heads(const Names& n, Attention& a);
// Layer norms of every query and key head with weights of its own, where the file has them.
void layer_norm_heads(const Names& n, Attention& a);
// ffn_gate, ffn_up, ffn_down. `width` 0: that of the hyper-parameters.
Dense gated(const Names& n, Activation activation, Bias bias = Bias::kIfPresent, std::int64_t width = 0);
// Rows of the layer's matrix `name`, or `fallback` where it is not there.
std::int64_t width_of(const Names& n, std::string_view name, std::int64_t fallback);
// ffn_up has the rows of the gate before its own.
Dense fused_gated(const Names& n, Activation activation);
// ffn_up and ffn_down.
Dense plain(const Names& n, Activation activation, Bias bias, std::int64_t width = 0);

// Slopes of ALiBi (arXiv:2108.12409) for a most of `most`: 2^(-most * (h + 1) / p) for the p heads of the largest power
// of two, and between these for the others.
std::vector<float> linear_slopes(int heads, double most);

// The window of layer `layer` of families whose configuration may have one that GGUF's converter does not write: where
// the file says which layers have it, else 0.
std::int64_t stated_window(const Hparams& h, int layer);
// What "activation" names (relu, gelu: by erf, gelu_tanh, silu), which folders alone say.
Activation stated_activation(const Hparams& h, Activation fallback);

// Qwen 2, which has biases on q, k and v, and 3 (dense), which has norms of heads; also the text half of their models
// of pictures.
ModelSpec qwen_model(const Hparams& h, bool head_norms);
// RoPE of the text half of Qwen's models of pictures, and the layers that these add rows to (n_deepstack_layers).
// `interleaved`: as Hparams::rope_of_places.
void see_pictures(const Hparams& h, bool interleaved, ModelSpec& m);

// Llama without scales: RMS norms, gated feed forwards, RoPE on whole heads unless rope.dimension_count says otherwise.
ModelSpec llama_like_model(const Hparams& h, kernel::RopePairs pairs);

// The model's layers `passes` times in all, one pass behind the other, whose keys and values are their own. The last
// layer of every pass but the last ends with `between`. REQUIRES: their mixers are attention of their own keys.
void loop(ModelSpec& m, int passes, const Norm& between);

// Says of every smoothing which one it is (Smoothing::state).
void number_smoothings(ModelSpec& m);

// Layer norms and two matrices with a squared ReLU between them: Nemotron, Jais 2.
ModelSpec nemotron_model(const Hparams& h);

// GPT-2 and StarCoder, whose queries may share one key and value: learned positions, layer norms and biases everywhere.
ModelSpec gpt2_model(const Hparams& h);

// A model without layers: token_embd; output_norm as given; output, or token_embd once more where the file has none.
ModelSpec around(const Hparams& h, const Norm& output_norm);
// around() with a layer for each number that `layer` makes and one RoPE on whole heads. Without a norm: RMS,
// output_norm.
using MakeLayer = FunctionRef<LayerSpec(const Names& n)>;
ModelSpec layered(const Hparams& h, const Norm& output_norm, kernel::RopePairs pairs, MakeLayer layer);
ModelSpec layered(const Hparams& h, kernel::RopePairs pairs, MakeLayer layer);
// Layers with RMS norms before attention and feed forward (attn_norm, ffn_norm), behind both (post_attention_norm,
// post_ffw_norm), and on both sides.
LayerSpec normed_before(const Names& n, const Mixer& mixer, const Feed& feed);
LayerSpec normed_behind(const Names& n, const Mixer& mixer, const Feed& feed);
LayerSpec normed_around(const Names& n, const Mixer& mixer, const Feed& feed);
// Layers with layer norms before both (attn_norm, ffn_norm), and of the sums behind both (attn_output_norm,
// layer_output_norm), as BERT has them.
LayerSpec layer_normed_before(const Names& n, const Mixer& mixer, const Feed& feed, Bias bias = Bias::kRequired);
LayerSpec norms_of_sums(const Names& n, const Mixer& mixer, const Feed& feed);
// Layers whose attention and feed forward stand side by side on one layer norm, attn_norm.
LayerSpec layer_normed_beside(const Names& n, const Mixer& mixer, const Feed& feed, Bias bias = Bias::kRequired);
// embedding_scale, and logit_scale, by which logits are divided.
void scale_as_granite(const Hparams& h, ModelSpec& m);
// The same for one that writes no texts: token_embd, token_types where the file has them, token_embd_norm.
ModelSpec encoder(const Hparams& h);
// Whose state encoders' ranks are of: classifier.pooling_type (1 mean, 2 first token), else `fallback`.
Pooling rank_pooling(const Hparams& h, Pooling fallback);
// Gemma 3, also EmbeddingGemma.
ModelSpec gemma3_model(const Hparams& h);

}  // namespace kvasir::model
