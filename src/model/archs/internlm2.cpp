// InternLM 2: Llama, whose folders have queries, keys and values in one matrix by KV head.
#include "model/blocks.hpp"

namespace kvasir::model::archs_internlm2 {

static ModelSpec describe(const Hparams& h) { return llama_like_model(h, kernel::RopePairs::kAdjacent); }

const Arch entry = {"InternLM 2 and 2.5", describe};

}  // namespace kvasir::model::archs_internlm2
