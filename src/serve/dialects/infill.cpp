// llama.cpp's /infill: fills a gap in a text.
#include "serve/families/llamacpp.hpp"

namespace kvasir::serve::dialects_infill {

const Dialect entry{.path = "/infill", .parse = parse_llamacpp_infill, .writer = llamacpp_writer};

}  // namespace kvasir::serve::dialects_infill
