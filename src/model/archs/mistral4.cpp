// Mistral 4: DeepSeek V2's layers, with queries that grow at long contexts.
#include "model/latent_blocks.hpp"

namespace kvasir::model::entries::archs {

extern const Arch mistral4;
const Arch mistral4 = {"Mistral 4", latent_model};

}  // namespace kvasir::model::entries::archs
