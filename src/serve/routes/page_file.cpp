// Script and style of the web page.
#include "serve/exchange.hpp"
#include "serve/route.hpp"
#include "serve/web_page.hpp"

namespace kvasir::serve::routes_page_file {

const Route entry{.method = "GET",
                  .path = "/web/{file}",
                  .open = true,
                  .handle = [](Context&, const std::shared_ptr<Exchange>& exchange) {
                    exchange->reply(web_response(exchange->request(), exchange->request().parameter));
                  }};

}  // namespace kvasir::serve::routes_page_file
