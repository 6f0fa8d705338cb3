// DeepSeek V3.2: V3 with an index whose rows are turned by halves; every layer has one.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_deepseek32 {

static ModelSpec describe(const Hparams& h) { return indexed_model(h, kernel::RopePairs::kSplitHalf); }

const Arch entry{.summary = "DeepSeek V3.2 (latent attention on the tokens that an index chooses)",
                 .describe = describe,
                 .hub = {{.types = {"deepseek_v32"}, .names = hub::kIndexer, .read = hub::read_indexed}}};

}  // namespace kvasir::model::archs_deepseek32
