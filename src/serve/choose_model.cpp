#include "serve/choose_model.hpp"

#include <atomic>
#include <nlohmann/json.hpp>

#include "serve/body.hpp"

namespace kvasir::serve {
namespace {

std::string model_in_body(const HttpRequest& request) {
  const Json body = parse_body(request.body);
  const bool ollama = request.path.starts_with("/api/");
  if (body.is_object())
    for (const char* key : {"model", "name"}) {
      const auto at = body.find(key);
      if (at != body.end() && at->is_string()) return at->get<std::string>();
      if (!ollama) break;
    }
  // Its clients always name one; another one must not be loaded to find out that they did not.
  if (ollama) bad_field("model", "is missing", "missing_required_parameter");
  return {};
}

}  // namespace

std::string model_in_query(std::string_view query) {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (!pair.starts_with("model=")) continue;
    std::string path, more;
    // As a path is decoded.
    if (split_target("/" + std::string(pair.substr(6)), path, more)) return path.substr(1);
  }
  return {};
}

void choose_model(Roster& roster, const std::shared_ptr<Exchange>& exchange, std::function<void()> then) {
  const std::string name = model_in_body(exchange->request());
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->post([exchange, gone] { exchange->on_close([gone] { gone->store(true); }); });
  roster.acquire(name, {.ready =
                            [exchange, then = std::move(then)](std::shared_ptr<Context> context) {
                              exchange->post([exchange, then, context = std::move(context)] {
                                if (!exchange->open()) return;
                                exchange->adopt(context);
                                then();
                              });
                            },
                        .failed = [exchange](const ApiError& error) { exchange->reply(error_response(error)); },
                        .wanted = [gone] { return !gone->load(); }});
}

}  // namespace kvasir::serve
