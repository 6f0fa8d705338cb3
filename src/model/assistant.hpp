// A model that drafts for another one and has no keys and values of its own (Gemma 4's assistants, as transformers'
// modeling_gemma4_assistant.py and SinglePositionMultiTokenCandidateGenerator compute them).
//
//   x = given([scaled embedding of the last token, by the model's table | state of the token before it])
//   its layers, whose queries stand at the last token's position and see what the model's cache has before it: each
//   layer reads the model's last layer that keeps keys and values and has a window, or has none, as it does
//   logits = output(norm(x))
// The state is what the model's head reads, and next(norm(x)) for draft tokens further ahead; all draft tokens of a
// step are made at the one position.
#pragma once

#include <string>
#include <vector>

#include "kv/reader.hpp"
#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

// For texts of up to `tokens` tokens. Throws Error(kBadInput) naming file and field for the file of a model that drafts
// for none, else as read_spec.
ModelSpec read_assistant(const weights::ModelFile& file, std::int64_t tokens);

// What the assistant's layers read of the model's cache. Throws Error(kBadInput) naming `path`, the field and what the
// model has, where they do not fit together.
std::vector<kv::ReaderLayer> layers_read(const ModelSpec& assistant, const ModelSpec& model, const std::string& path);

}  // namespace kvasir::model
