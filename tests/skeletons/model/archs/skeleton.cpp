// An architecture: copy to src/model/archs/NAME.cpp and rename `skeleton` to NAME (the value of general.architecture).
// Contract: model/arch.hpp.
#include "model/arch.hpp"

namespace kvasir::model::entries::archs {
namespace {

constexpr TensorRule kTensors[] = {
    KVASIR_TENSOR(kTokenEmbd, "token_embd.weight", kVocab, kModel),
    KVASIR_LAYER(kAttnNorm, "attn_norm.weight", kOne, kModel),
};

}  // namespace

extern const Arch skeleton;
const Arch skeleton{.summary = "an architecture that no file has", .tensors = kTensors};

}  // namespace kvasir::model::entries::archs
