// Synthetic models: the real shape of a known model with random weights, for speed work without a download.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "base/team.hpp"

namespace kvasir::model {

struct SpecialToken {
  int id;
  std::string_view text;
};

struct SynthTokens {
  bool add_bos = false;
  int bos = 1, eos = 2;
  std::vector<SpecialToken> special = {{0, "<|endoftext|>"}, {1, "<|im_start|>"}, {2, "<|im_end|>"}};
};

// Hyper-parameters as the publisher's config.json gives them. The defaults are those of small shapes for tests.
struct SynthShape {
  std::string_view name;
  std::string_view arch;                     // general.architecture
  std::string_view pretokenizer = "smollm";  // tokenizer.ggml.pre
  int layers = 2;
  int dim = 128;
  int ffn = 256;
  int heads = 2;
  int kv_heads = 1;
  int head_dim = 64;
  int context = 8192;
  int vocab = 1024;
  float rope_base = 1000000.f;
  float norm_epsilon = 1e-6f;
  float rope_factor = 0.f;   // of Llama 3's frequency scaling (original context 8192, factors 1 and 4); 0: none
  int window = 0;            // attention.sliding_window; 0: none
  int rotated = 0;           // elements of a head that are rotated; 0: all
  int original_context = 0;  // of LongRoPE, whose factors are all 1 here, or of YaRN; 0: none
  float yarn = 0.f;          // rope.scaling.factor of YaRN; 0: LongRoPE or none
  int experts = 0;           // 0: none
  int experts_used = 0;
  int expert_ffn = 0;
  int experts_shared = 0;  // expert_shared_count
  int dense_layers = 0;    // the first ones have no experts
  int latent = 0;          // attention.kv_lora_rank of latent attention, whose heads have head_dim elements; 0: none
  int latent_values = 0;   // elements of a head's values there
  // Of gated DeltaNet layers: heads of keys and values, their size, and that every so many'th layer is attention; 0:
  // none.
  int delta_key_heads = 0;
  int delta_heads = 0;
  int delta_dim = 0;
  int attention_interval = 0;
  // Of Gemma 4: every second layer has a window, and the last so many read another's keys and values. 0: none.
  int shared_layers = 0;
  int loops = 0;  // num_loops: passes of a token through the layers; 0: none is said
  // Blocks behind the layers that predict further tokens (nextn_predict_layers). REQUIRES: an architecture that has
  // them.
  int nextn = 0;
  // The block has the weights of the last layer and reads nothing but the token, as that does in a model of one layer:
  // so its draft tokens are nearly always right.
  bool drafts_right = false;
  bool tied = false;  // the output matrix is the token embedding
  SynthTokens tokens = {};
};

const std::vector<SynthShape>& synth_shapes();
std::string synth_shape_names();                       // "llama-3.2-1b, …"
const SynthShape& find_synth_shape(std::string_view);  // throws Error(kBadInput) naming the known ones

// Strings of a byte-level BPE vocabulary of shape.vocab tokens: the 256 bytes, the special tokens at their ids, the
// results of `synth_merges`, and unique fillers, so that any text can be tokenised and any id printed.
std::vector<std::string> synth_tokens(const SynthShape& shape);
std::vector<std::string> synth_merges();

// The weight type that a matrix with rows of `columns` elements gets when `quant` is asked: types whose block does not
// divide the row fall back as in llama.cpp's quantiser (q4_k -> q5_0, q5_k -> q5_1, q6_k -> q8_0, q2_k and q3_k ->
// q4_0, blocks of 32 -> f16).
std::string synth_quant(std::string_view quant, std::int64_t columns);

// Elements of all tensors: the publisher's figure (and the rope factors, which are a tensor here).
std::uint64_t synth_parameters(const SynthShape& shape);

struct SynthResult {
  std::uint64_t bytes = 0;       // of the file
  std::uint64_t parameters = 0;  // elements of all tensors
};

// Writes `shape` to a GGUF file that Kvasir and engines of the llama.cpp family load. Matrices are of type `quant` and
// drawn from a normal-like distribution of deviation 1 / sqrt(columns), norms are 1, biases 0. The same seed
// gives the same file whatever the number of threads. `progress` is called with bytes done and bytes in all. Throws
// Error(kBadInput) for an unknown type, Error(kIo).
SynthResult write_synthetic_model(const std::string& path, const SynthShape& shape, std::string_view quant,
                                  std::uint64_t seed, Team& team,
                                  FunctionRef<void(std::uint64_t, std::uint64_t)> progress);

}  // namespace kvasir::model
