// Requests as Beast parses them: the limits, what becomes of them here, and what a client is told that speaks no HTTP.
// For what is compiled with Boost.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "serve/context.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

void set_limits(RequestParser& parser, const ServerOptions& options);

// Everything but the body. The id is the client's where that may be echoed. `target_ok`: see split_target.
HttpRequest to_request(const RequestParser::value_type& message, Context& context, const std::string& peer,
                       bool& target_ok);

// What the client wrote is wrong, as opposed to a connection that ended.
bool is_protocol_error(const boost::system::error_code& ec);
ApiError protocol_error(const boost::system::error_code& ec);

}  // namespace kvasir::serve
