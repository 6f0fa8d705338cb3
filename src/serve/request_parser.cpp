#include "serve/request_parser.hpp"

#include <boost/beast/http/error.hpp>
#include <optional>
#include <utility>

#include "serve/admit.hpp"

namespace kvasir::serve {

namespace http = boost::beast::http;
using boost::system::error_code;

void set_limits(RequestParser& parser, const ServerOptions& options) {
  parser.header_limit(static_cast<std::uint32_t>(options.max_header));
  parser.body_limit(static_cast<std::uint64_t>(options.max_body));
}

HttpRequest to_request(const RequestParser::value_type& message, Context& context, const std::string& peer,
                       bool& target_ok) {
  HttpRequest r;
  r.method = std::string(message.method_string());
  std::string_view target(message.target().data(), message.target().size());
  const std::optional<std::string> authority = take_authority(target);
  target_ok = split_target(target, r.path, r.query);
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    // The target's authority stands for the header.
    if (authority && name == "host") continue;
    r.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  if (authority) r.headers.emplace_back("host", *authority);
  r.keep_alive = message.keep_alive();
  r.http10 = message.version() < 11;
  r.peer = peer;
  const std::string_view id = r.header("x-request-id");
  r.id = valid_request_id(id) ? std::string(id) : context.next_id("req-");
  return r;
}

bool is_protocol_error(const error_code& ec) {
  return ec.category() == http::make_error_code(http::error::bad_method).category() &&
         ec != http::error::end_of_stream && ec != http::error::partial_message;
}

ApiError protocol_error(const error_code& ec) {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return {.status = 431, .message = "the request's header is too long", .code = "header_too_long"};
  if (ec == http::error::body_limit)
    return {.status = 413, .message = "the request's body is too long", .code = "body_too_long"};
  return {.status = 400, .message = "not a valid HTTP request: " + ec.message(), .code = "bad_request"};
}

}  // namespace kvasir::serve
