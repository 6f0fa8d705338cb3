// Qwen 3 (dense): RMS norm of every query and key head before RoPE.
#include "model/archs/common.hpp"

namespace kvasir::model::entries::archs {

static constexpr TensorRule kTensors[] = {
    KVASIR_DECODER_TENSORS,
    KVASIR_LAYER(kAttnQNorm, "attn_q_norm.weight", kOne, kHead),
    KVASIR_LAYER(kAttnKNorm, "attn_k_norm.weight", kOne, kHead),
};

extern const Arch qwen3;
const Arch qwen3 = {"Qwen 3 (dense)", kernel::RopePairs::kSplitHalf, kTensors};

}  // namespace kvasir::model::entries::archs
