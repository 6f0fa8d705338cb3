// Qwen 2 and 2.5: biases on q, k and v.
#include "model/archs/common.hpp"

namespace kvasir::model::entries::archs {

static constexpr TensorRule kTensors[] = {
    KVASIR_DECODER_TENSORS,
    KVASIR_LAYER(kAttnQBias, "attn_q.bias", kOne, kQuery),
    KVASIR_LAYER(kAttnKBias, "attn_k.bias", kOne, kKey),
    KVASIR_LAYER(kAttnVBias, "attn_v.bias", kOne, kValue),
};

extern const Arch qwen2;
const Arch qwen2 = {"Qwen 2 and 2.5", kernel::RopePairs::kSplitHalf, kTensors};

}  // namespace kvasir::model::entries::archs
