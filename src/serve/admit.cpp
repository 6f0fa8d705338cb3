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
  for (const auto& entry : all_routes())
    if (match_path(entry.value->path, request.path, nullptr)) allowed += ", " + std::string(entry.value->method);
  Response r = error_response({.status = 405,
                               .message = fmt::format("{} is not served with {}", request.path, request.method),
                               .code = "method_not_allowed"});
  r.headers.emplace_back("Allow", allowed);
  return r;
}

// Clients of Anthropic's API send the key alone, in a header of its own.
std::string authorization(const HttpRequest& request) {
  const std::string_view key = request.header("x-api-key");
  const std::string_view given = request.header("authorization");
  return !given.empty() || key.empty() ? std::string(given) : "Bearer " + std::string(key);
}

Response unauthorized(bool given) {
  Response r = error_response(
      {.status = 401,
       .message = given ? "the API key is wrong" : "an API key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY",
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

bool same_word(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

// RFC 9110, section 15.5.16.
Response encoded_content(std::string_view encoding) {
  Response r = error_response(
      {.status = 415,
       .message = fmt::format("Content-Encoding: {} is not supported, send the body as it is", encoding.substr(0, 64)),
       .param = "Content-Encoding",
       .code = "unsupported_content_encoding"});
  r.headers.emplace_back("Accept-Encoding", "identity");
  return r;
}

}  // namespace

Admission admit(HttpRequest& request, bool target_ok, const KeyRing& keys, const Context& context, bool loopback) {
  if (!target_ok)
    return {nullptr, error_response({.message = "the request's target is not a path", .code = "bad_request"})};
  const std::string_view encoding = request.header("transfer-encoding");
  if (!encoding.empty() && !same_word(encoding, "chunked")) return {nullptr, unknown_encoding()};
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
    const std::string key = authorization(request);
    const auto tenant = keys.tenant(key);
    if (!tenant) return {match.entry, unauthorized(!key.empty())};
    request.tenant = *tenant;
  }
  const std::string_view content = request.header("content-encoding");
  if (!content.empty() && !same_word(content, "identity")) return {match.entry, encoded_content(content)};
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
