// The block of a model's file that predicts further tokens, as a specification of its own: multi-token prediction
// (DeepSeek-V3, arXiv:2412.19437, section 2.2; "nextn" in GGUF).
//
// Its row p has the embedding of token p + 1 and what the model's head reads behind token p, and its logits predict
// token p + 2. What its own head reads takes the place of the model's for a draft token further ahead.
//
//   x = eh_proj([enorm(embedding of token p + 1) | hnorm(state p)]);  one layer;  the head
// Tensors blk.N.nextn.{eh_proj, enorm, hnorm}, blk.N's layer, and of nextn.{embed_tokens, shared_head_norm,
// shared_head_head} those that the file has; the others are the model's. A file may have several blocks, each for one
// token further: the first one is used, for all of them.
#pragma once

#include <cstdint>

#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

// For texts of up to `tokens` tokens (0: the model's context). The output matrix is the model's (Linear::lent) unless
// the block has one. Throws Error(kUnsupported) naming file and field where there is no such block, or none that this
// architecture is known to have; else as read_spec.
ModelSpec read_mtp_head(const weights::ModelFile& file, std::int64_t tokens = 0);

}  // namespace kvasir::model
