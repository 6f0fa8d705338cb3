// llama.cpp's /infill: fills a gap in a text.
#include "serve/families/llamacpp.hpp"

namespace kvasir::serve::entries::dialects {

extern const Dialect infill;
const Dialect infill{.path = "/infill", .parse = parse_llamacpp_infill, .writer = llamacpp_writer};

}  // namespace kvasir::serve::entries::dialects
