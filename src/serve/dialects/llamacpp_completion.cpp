// llama.cpp's /completion: text that goes on.
#include "serve/families/llamacpp.hpp"

namespace kvasir::serve::entries::dialects {

extern const Dialect llamacpp_completion;
const Dialect llamacpp_completion{.path = "/completion", .parse = parse_llamacpp_completion, .writer = llamacpp_writer};

}  // namespace kvasir::serve::entries::dialects
