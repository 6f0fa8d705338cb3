// Llama 1 to 3.x, Mistral, SmolLM2: RoPE on adjacent pairs (the converter permuted the weights), optional biases.
#include "model/archs/common.hpp"

namespace kvasir::model::entries::archs {

static constexpr TensorRule kTensors[] = {
    KVASIR_DECODER_TENSORS,
    KVASIR_LAYER_OPT(kAttnQBias, "attn_q.bias", kOne, kQuery),
    KVASIR_LAYER_OPT(kAttnKBias, "attn_k.bias", kOne, kKey),
    KVASIR_LAYER_OPT(kAttnVBias, "attn_v.bias", kOne, kValue),
};

extern const Arch llama;
const Arch llama = {"Llama 1-3.x, Mistral, SmolLM2", kernel::RopePairs::kAdjacent, kTensors};

}  // namespace kvasir::model::entries::archs
