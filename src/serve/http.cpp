#include "serve/http.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hex.hpp"
#include "serve/options.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 415:
      return "Unsupported Media Type";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

std::string dump(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::pair<std::string_view, std::string_view> kSeparators[] = {
      {"\u0085", "\\u0085"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}};
  for (const auto& [separator, escape] : kSeparators)  // they stand in strings alone
    for (std::size_t at = text.find(separator); at != text.npos; at = text.find(separator, at + escape.size()))
      text.replace(at, separator.size(), escape);
  return text;
}

Json error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"error",
           {{"message", unicode::to_valid_utf8(error.message)},
            {"type", error.type},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

bool retry_helps(const ApiError& error) {
  return error.status != 501 && error.status != 507 && error.code != "no_room";
}

Response error_response(const ApiError& error) {
  Response response{.status = error.status, .body = dump(error_json(error)), .error = error};
  if (error.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.status >= 500 && !retry_helps(error)) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

Response json_response(const Json& json) { return {.body = dump(json)}; }

ApiError api_error(const Error& error) {
  switch (error.code()) {
    case Code::kBadInput:
      return {.status = 400, .message = error.what(), .param = error.context()};
    case Code::kUnsupported:
      return {.status = 400, .message = error.what(), .param = error.context(), .code = "unsupported"};
    case Code::kMemory:
      return {.status = 413, .message = error.what(), .param = error.context(), .code = "too_large"};
    case Code::kBusy:
      return {.status = 429,
              .message = error.what(),
              .type = "rate_limit_error",
              .code = "rate_limit_exceeded",
              .retry_after = 1};
    case Code::kCancelled:
      return {.status = 503, .message = error.what(), .type = "server_error", .code = "cancelled", .retry_after = 1};
    case Code::kIo:
      break;
  }
  return {.status = 500, .message = error.what(), .type = "server_error"};
}

std::optional<std::string> take_authority(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
    if (target.size() <= scheme.size() ||
        !std::equal(scheme.begin(), scheme.end(), target.begin(), [&](char s, char t) { return same(t, s); }))
      continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
    std::string authority(rest.substr(0, end));
    if (authority.empty() || authority.find('@') != std::string::npos) return std::nullopt;
    target = end < rest.size() && rest[end] == '/' ? rest.substr(end) : std::string_view("/");
    return authority;
  }
  return std::nullopt;
}

bool split_target(std::string_view target, std::string& path, std::string& query) {
  if (target.empty() || target[0] != '/') return false;
  const std::size_t mark = std::min(target.find('?'), target.size());
  query = mark < target.size() ? std::string(target.substr(mark + 1)) : std::string();
  path.clear();
  for (std::size_t i = 0; i < mark; ++i) {
    char c = target[i];
    if (c == '%') {
      const int byte = hex_byte(target.substr(0, mark).substr(i + 1, 2));
      if (byte < 0) return false;
      c = static_cast<char>(byte);
      i += 2;
    }
    if (c == '\0') return false;
    path += c;
  }
  return true;
}

bool match_path(std::string_view pattern, std::string_view path, std::string* parameter) {
  const std::size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) return pattern == path;
  if (path.size() <= brace || path.substr(0, brace) != pattern.substr(0, brace)) return false;
  if (parameter) *parameter = path.substr(brace);
  return true;
}

bool host_allowed(std::string_view host, const std::vector<std::string>& names) {
  const std::size_t bracket = host.rfind(']');  // of an IPv6 address, whose colons separate no port
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string name(host.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const bool numeric = name.find_first_not_of("0123456789.") == std::string::npos;  // not 127.0.0.1.attacker.example
  if (name == "localhost" || name == "[::1]" || (numeric && is_loopback(name))) return true;
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace kvasir::serve
