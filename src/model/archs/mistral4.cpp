// Mistral 4: DeepSeek V2's layers, with queries that grow at long contexts.
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_mistral4 {

const Arch entry = {"Mistral 4", latent_model};

}  // namespace kvasir::model::archs_mistral4
