#include "serve/admit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "serve/exchange.hpp"

namespace kvasir::serve {
namespace {

Response forbidden(std::string message, std::string code) {
  return error_response({.status = 403, .message = std::move(message), .code = std::move(code)});
}

Response preflight(const HttpRequest& request) {
  Response r{.status = 204};
  const std::string_view wanted = request.header("access-control-request-headers");
  const bool plain = wanted.size() <= 1024 && !wanted.empty();
  r.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
               {"Access-Control-Allow-Headers", plain ? std::string(wanted) : "authorization, content-type"},
               {"Access-Control-Max-Age", "86400"}};
  return r;
}

Response method_not_allowed(const HttpRequest& request) {
  std::string allowed = "OPTIONS";
  for (const auto& entry : routes())
    if (match_path(entry.value->path, request.path, nullptr)) allowed += ", " + std::string(entry.value->method);
  Response r = error_response({.status = 405,
                               .message = fmt::format("{} is not served with {}", request.path, request.method),
                               .code = "method_not_allowed"});
  r.headers.emplace_back("Allow", allowed);
  return r;
}

Response unauthorized(bool given) {
  Response r =
      error_response({.status = 401,
                      .message = given ? "the API key is wrong" : "an API key is needed: Authorization: Bearer KEY",
                      .type = "authentication_error",
                      .code = "invalid_api_key"});
  r.headers.emplace_back("WWW-Authenticate", "Bearer");
  return r;
}

// A proxy in front might see another end of the request: what follows it must not be taken for the next one.
Response unknown_encoding() {
  Response r = error_response({.status = 501,
                               .message = "this transfer encoding is not supported, expected chunked or none",
                               .code = "unsupported_transfer_encoding"});
  r.close = true;
  return r;
}

bool is_chunked(std::string_view encoding) {
  constexpr std::string_view kChunked = "chunked";
  return std::equal(encoding.begin(), encoding.end(), kChunked.begin(), kChunked.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace

Admission admit(HttpRequest& request, bool target_ok, const KeyRing& keys, const Context& context, bool loopback) {
  if (!target_ok)
    return {nullptr, error_response({.message = "the request's target is not a path", .code = "bad_request"})};
  const std::string_view encoding = request.header("transfer-encoding");
  if (!encoding.empty() && !is_chunked(encoding)) return {nullptr, unknown_encoding()};
  const std::string_view host = request.header("host");
  if (loopback && !host.empty() && !host_allowed(host, context.options.allowed_hosts))
    return {nullptr, forbidden("this host name is not allowed here (see --allowed-host)", "host_not_allowed")};
  if (!origin_allowed(request.header("origin"), host, context.options))
    return {nullptr, forbidden("web pages of this origin may not call (see --cors-origin)", "origin_not_allowed")};
  if (request.method == "OPTIONS") return {nullptr, preflight(request)};
  const RouteMatch match = find_route(request.method, request.path, &request.parameter);
  if (!match.entry)
    return {nullptr,
            error_response(
                {.status = 404, .message = fmt::format("nothing is served at {}", request.path), .code = "not_found"})};
  if (!match.method_allowed) return {match.entry, method_not_allowed(request)};
  const bool open = match.entry->value->open || (context.options.open_metrics && match.entry->name == "metrics");
  if (!keys.empty() && !open) {
    const auto tenant = keys.tenant(request.header("authorization"));
    if (!tenant) return {match.entry, unauthorized(!request.header("authorization").empty())};
    request.tenant = *tenant;
  }
  if (context.draining.load() && !match.entry->value->open)
    return {match.entry, error_response({.status = 503,
                                         .message = "the server is shutting down",
                                         .type = "server_error",
                                         .code = "draining",
                                         .retry_after = 5})};
  return {match.entry, std::nullopt};
}

Admission too_many_connections() {
  Response r = error_response({.status = 503,
                               .message = "the server has as many connections as it takes",
                               .type = "server_error",
                               .code = "too_many_connections",
                               .retry_after = 1});
  r.close = true;
  return {nullptr, std::move(r)};
}

bool valid_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:") ==
             std::string_view::npos;
}

}  // namespace kvasir::serve
