// A number format of weights: copy to src/weights/quants/NAME.cpp and rename `skeleton` to NAME. Compiled once per
// instruction set. Contract: weights/quant.hpp.
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

extern const Quant skeleton;
const Quant skeleton{.summary = "a type that no file has", .ggml_type = -1, .file_type = -1};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
