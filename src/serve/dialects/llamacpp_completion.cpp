// llama.cpp's /completion: text that goes on.
#include "serve/families/llamacpp.hpp"

namespace kvasir::serve::dialects_llamacpp_completion {

const Dialect entry{.path = "/completion", .parse = parse_llamacpp_completion, .writer = llamacpp_writer};

}  // namespace kvasir::serve::dialects_llamacpp_completion
