// The web page. It needs no key, since it holds nothing: what it asks needs one.
#include "serve/exchange.hpp"
#include "serve/route.hpp"
#include "serve/web_page.hpp"

namespace kvasir::serve::routes_page {

const Route entry{
    .method = "GET", .path = "/", .open = true, .handle = [](Context&, const std::shared_ptr<Exchange>& exchange) {
      if (!web_files().empty()) return exchange->reply(web_response(exchange->request(), "index.html"));
      exchange->reply({.content_type = "text/plain; charset=utf-8",
                       .body = "Kvasir is running. This build has no web page: install npm and build with "
                               "./dev.\n"});
    }};

}  // namespace kvasir::serve::routes_page
