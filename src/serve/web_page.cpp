#include "serve/web_page.hpp"

#include <fmt/format.h>

namespace kvasir::serve {

Response web_response(const HttpRequest& request, std::string_view name) {
  for (const WebFile& file : web_files()) {
    if (file.name != name) continue;
    const bool packed = request.header("accept-encoding").find("gzip") != std::string_view::npos;
    Response r{.content_type = std::string(file.content_type) + "; charset=utf-8",
               .body = std::string(packed ? file.gzip : file.bytes)};
    if (packed) r.headers.emplace_back("Content-Encoding", "gzip");
    r.headers.emplace_back("Vary", "Accept-Encoding");
    r.headers.emplace_back("Cache-Control", "no-cache");
    // The page asks this server and no other, runs its own script only, and stands in no other page.
    r.headers.emplace_back(
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; media-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    r.headers.emplace_back("X-Content-Type-Options", "nosniff");
    r.headers.emplace_back("Referrer-Policy", "no-referrer");
    return r;
  }
  throw ApiException({.status = 404, .message = fmt::format("the page has no file '{}'", name), .code = "not_found"});
}

}  // namespace kvasir::serve
