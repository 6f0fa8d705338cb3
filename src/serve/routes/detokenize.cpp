// Token ids to text. Body: `tokens`. Bytes that are no UTF-8 come back as U+FFFD.
#include "serve/body.hpp"
#include "serve/exchange.hpp"
#include "serve/route.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve::routes_detokenize {
namespace {

void handle_detokenize(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  if (!tokenizer) throw ApiException({.status = 501, .message = "this model has no tokenizer", .code = "unsupported"});
  const Json body = parse_body(exchange->request().body);
  const Json* tokens = Fields(body).array("tokens");
  if (!tokens) bad_field("tokens", "is missing", "missing_required_parameter");
  const auto ids = read_ids(*tokens, "tokens", context.service.card().vocabulary);
  const std::string content = unicode::to_valid_utf8(tokenizer->decode(ids, true));
  exchange->reply(json_response({{"content", content}, {"prompt", content}}));
}

}  // namespace

const Route entry{
    .method = "POST", .path = "/detokenize", .open = false, .handle = handle_detokenize, .needs_model = true};

}  // namespace kvasir::serve::routes_detokenize
