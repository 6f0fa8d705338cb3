// Text or messages to token ids. Body: `content` (or `prompt`) with `add_special` (false) and `parse_special` (true),
// or `messages` as of a chat, whose pictures are negative numbers, one a row; `with_pieces` asks for the tokens' text
// too.
#include <fmt/format.h>

#include "serve/body.hpp"
#include "serve/exchange.hpp"
#include "serve/picture_urls.hpp"
#include "serve/pictures.hpp"
#include "serve/prompt.hpp"
#include "serve/route.hpp"
#include "text/prompt.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve::routes_tokenize {
namespace {

std::vector<std::int32_t> ids_of(Context& context, const text::Tokenizer& tokenizer, const Json& body,
                                 const std::string& tenant, PictureUrls* urls) {
  const Fields fields(body);
  if (fields.find("messages")) {
    ApiRequest chat{.is_chat = true, .chat = parse_messages(body, context.pictures != nullptr, urls)};
    read_pictures(chat, context.pictures);
    return encode_prompts(chat, &tokenizer, context.chat, {.context = INT64_MAX}, &context.turns, tenant).front().ids;
  }
  const std::string* content = fields.string("content");
  if (!content) content = fields.string("prompt");
  if (!content) bad_field("content", "is missing, as are 'prompt' and 'messages'", "missing_required_parameter");
  return text::encode_prompt(tokenizer, *content,
                             {.add_bos = fields.boolean("add_special").value_or(false) && tokenizer.add_bos(),
                              .parse_special = fields.boolean("parse_special").value_or(true)});
}

Json piece_json(const text::Tokenizer& tokenizer, std::int32_t id) {
  const std::string piece(tokenizer.piece(id));
  if (unicode::to_valid_utf8(piece) == piece) return {{"id", id}, {"piece", piece}};
  Json bytes = Json::array();  // as llama.cpp has it: a part of a character
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"id", id}, {"piece", std::move(bytes)}};
}

void tokenize(Context& context, const std::shared_ptr<Exchange>& exchange, PictureUrls* urls) {
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  if (!tokenizer) throw ApiException({.status = 501, .message = "this model has no tokenizer", .code = "unsupported"});
  const Json body = parse_body(exchange->request().body);
  const auto ids = ids_of(context, *tokenizer, body, exchange->request().tenant, urls);
  const bool pieces = Fields(body).boolean("with_pieces").value_or(false);
  // Written as text: a tree of millions of tokens would take a hundred times the bytes of the request.
  std::string out = R"({"tokens":[)";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += pieces ? dump(piece_json(*tokenizer, ids[i])) : std::to_string(ids[i]);
  }
  out += fmt::format(R"(],"count":{},"max_model_len":{}}})", ids.size(), context.service.card().context);
  exchange->reply({.body = std::move(out)});
}

void handle_tokenize(Context&, const std::shared_ptr<Exchange>& exchange) {
  with_picture_urls(exchange, [exchange](PictureUrls* urls) { tokenize(*exchange->context(), exchange, urls); });
}

}  // namespace

const Route entry{.method = "POST", .path = "/tokenize", .open = false, .handle = handle_tokenize, .needs_model = true};

}  // namespace kvasir::serve::routes_tokenize
