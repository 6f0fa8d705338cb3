#include "cli/auto_codecs.hpp"

#include "run/calibration.hpp"

namespace kvasir::cli {

void choose_codecs(run::Engine& engine) {
  engine.choose_codecs(run::calibration_tokens(*engine.tokenizer(), engine.context()));
}

}  // namespace kvasir::cli
