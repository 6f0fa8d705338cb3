// Requests and responses as routes see them, without a network.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"

namespace kvasir::serve {

struct HttpRequest {
  std::string method;
  std::string path;                                          // percent-decoded, without the query
  std::string query;                                         // as it came
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  bool keep_alive = true;
  bool http10 = false;

  std::string id;         // client's x-request-id or our own
  std::string peer;       // address:port
  std::string tenant;     // derived from the API key
  std::string parameter;  // what {...} in the route's path stands for

  std::string_view header(std::string_view name) const;  // "" when absent
};

// A message for the client: HTTP status and OpenAI's error object.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  // the field; "": null
  std::string code = {};   // "": null
  int retry_after = 0;     // seconds; 0: no header
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool close = false;
  std::optional<ApiError> error = {};  // what the body says: a dialect may say it in a form of its own
};

std::string_view reason(int status);
// Ill-formed UTF-8 becomes U+FFFD. U+0085, U+2028 and U+2029 are escapes: clients of streams cut lines at them.
std::string dump(const Json& json);
Json error_json(const ApiError& error);
// Whether the same request may succeed later. Clients try errors from 500 on again unless `x-should-retry` says not to.
bool retry_helps(const ApiError& error);
using ErrorShape = Json (*)(const ApiError& error);  // null: error_json
Response error_response(const ApiError& error);
Response json_response(const Json& json);

// What an exception means to the client. `param` of Error is its context.
ApiError api_error(const Error& error);

// Thrown by whatever reads a request; Error does the same with less to say.
class ApiException : public std::runtime_error {
 public:
  explicit ApiException(ApiError error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

// Takes "http://AUTHORITY" from a target in absolute form (RFC 9112, section 3.2.2), so that a path is left. Nothing
// for other targets.
std::optional<std::string> take_authority(std::string_view& target);

// Splits a request target into path and query and decodes the path. False: not an absolute path, a bad escape, or a
// NUL.
bool split_target(std::string_view target, std::string& path, std::string& query);

// "/v1/models/{id}" against "/v1/models/a/b": {id} is the rest and never empty. `parameter` may be null.
bool match_path(std::string_view pattern, std::string_view path, std::string* parameter);

// Whether `host` (a Host header) is one of `names` or a loopback name, whatever the port.
bool host_allowed(std::string_view host, const std::vector<std::string>& names);

}  // namespace kvasir::serve
