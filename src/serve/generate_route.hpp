// What the routes that generate have in common.
#pragma once

#include <vector>

#include "serve/encoded_prompt.hpp"
#include "serve/exchange.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

// Parses in the dialect of the request's path, tokenises and submits; the answer follows through the exchange. Throws
// as these do.
void answer_in_dialect(Context& context, const std::shared_ptr<Exchange>& exchange);

RequestLimits request_limits(Context& context, const HttpRequest& request, PictureUrls* urls = nullptr);

// One per prompt, with what is remembered of the tenant's answers. Throws as encode_prompts.
std::vector<EncodedPrompt> encode_request(Context& context, const ApiRequest& request, const std::string& tenant);

}  // namespace kvasir::serve
