// `--kv auto` where no prompt is there yet.
#pragma once

#include "run/engine.hpp"

namespace kvasir::cli {

// Chooses the codecs by a built-in text: always the same choice, so that what is stored fits every later start. Does
// nothing when they are chosen. Before a library is opened. REQUIRES: the engine has a tokenizer and no sequences.
void choose_codecs(run::Engine& engine);

}  // namespace kvasir::cli
