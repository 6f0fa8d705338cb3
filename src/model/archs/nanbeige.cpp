// Nanbeige 4.2: Llama whose layers a token goes through num_loops times, with keys and values of their own every time.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_nanbeige {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = llama_like_model(h, kernel::RopePairs::kAdjacent);
  const auto passes = static_cast<int>(h.integer_or("num_loops", 1, 4096 / h.layers(), 1));
  loop(m, passes, h.flag_or("skip_loop_final_norm", false) ? Norm{} : m.head.norm);
  return m;
}

const Arch entry{.summary = "Nanbeige 4.2 (layers of several passes)",
                 .describe = describe,
                 .hub = {{.types = {"nanbeige"}, .pairs = true, .read = hub::read_nanbeige}}};

}  // namespace kvasir::model::archs_nanbeige
