// Whose cache bytes these are: everything that decides what the keys and values of given tokens are, bit for bit.
#pragma once

#include <string>

#include "run/engine.hpp"

namespace kvasir::run {

// Lines of text, to be hashed: the specification of the model, weights (16 samples of 4 KB of every tensor, its type
// and shape), codecs, window or residual, and sinks, arithmetic (instruction set, --arithmetic), version of the cache's
// formats. Reads the model file. REQUIRES: the engine has its codecs.
std::string describe_cache(const Engine& engine);

}  // namespace kvasir::run
