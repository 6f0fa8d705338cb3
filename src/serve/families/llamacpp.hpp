// The API of llama.cpp's own server for texts: /completion and /infill.
// https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
#pragma once

#include <memory>

#include "serve/dialect.hpp"

namespace kvasir::serve {

// The defaults of sampling are llama.cpp's. `prompt` is what parse_completion takes.
ApiRequest parse_llamacpp_completion(const Json& body, const RequestLimits& limits);
// `input_prefix` and then `prompt` stand in front of the gap, `input_suffix` behind it; `input_extra` has
// [{"filename", "text"}]. At least one of them has to be there.
ApiRequest parse_llamacpp_infill(const Json& body, const RequestLimits& limits);

std::unique_ptr<AnswerWriter> llamacpp_writer(const AnswerInfo& info);

}  // namespace kvasir::serve
