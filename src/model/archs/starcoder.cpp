// StarCoder: GPT-2 whose queries may share one key and value.
#include "model/blocks.hpp"

namespace kvasir::model::archs_starcoder {

const Arch entry = {"StarCoder, SantaCoder", gpt2_model};

}  // namespace kvasir::model::archs_starcoder
