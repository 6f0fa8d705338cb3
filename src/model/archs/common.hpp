// Rows of tensor tables that many architectures share.
#pragma once

#include "model/arch.hpp"

// clang-format off
#define KVASIR_DECODER_TENSORS \
    KVASIR_TENSOR(kTokenEmbd, "token_embd.weight", kVocab, kModel), \
    KVASIR_TENSOR(kOutputNorm, "output_norm.weight", kOne, kModel), \
    KVASIR_TENSOR_OPT(kOutput, "output.weight", kVocab, kModel), /* absent: tied to token_embd */ \
    KVASIR_TENSOR_OPT(kRopeFreqs, "rope_freqs.weight", kOne, kPairs), \
    KVASIR_LAYER(kAttnNorm, "attn_norm.weight", kOne, kModel), \
    KVASIR_LAYER(kAttnQ, "attn_q.weight", kQuery, kModel), \
    KVASIR_LAYER(kAttnK, "attn_k.weight", kKey, kModel), \
    KVASIR_LAYER(kAttnV, "attn_v.weight", kValue, kModel), \
    KVASIR_LAYER(kAttnOutput, "attn_output.weight", kModel, kOut), \
    KVASIR_LAYER(kFfnNorm, "ffn_norm.weight", kOne, kModel), \
    KVASIR_LAYER(kFfnGate, "ffn_gate.weight", kFfn, kModel), \
    KVASIR_LAYER(kFfnUp, "ffn_up.weight", kFfn, kModel), \
    KVASIR_LAYER(kFfnDown, "ffn_down.weight", kModel, kFfn)
// clang-format on
