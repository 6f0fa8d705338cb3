// The web page's files (web/), as the build put them into the program.
#pragma once

#include <span>
#include <string_view>

#include "serve/http.hpp"

namespace kvasir::serve {

struct WebFile {
  std::string_view name, content_type, bytes, gzip;
};

// Empty: ./dev found no npm when this was built. Defined by a source file that the build generates (cmake/web.cmake).
std::span<const WebFile> web_files();

// A file of the page, compressed where the client takes that. Throws ApiException(404) for names that are none.
Response web_response(const HttpRequest& request, std::string_view name);

}  // namespace kvasir::serve
