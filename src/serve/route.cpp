#include "serve/route.hpp"

#include "serve/http.hpp"

namespace kvasir::serve {

RouteMatch find_route(std::string_view method, std::string_view path, std::string* parameter) {
  if (method == "HEAD") method = "GET";
  static const auto all = routes();
  RouteMatch best;
  for (const bool exact : {true, false}) {
    for (const auto& entry : all) {
      const Route& route = *entry.value;
      if ((route.path.find('{') == std::string_view::npos) != exact) continue;
      if (!match_path(route.path, path, parameter)) continue;
      if (route.method == method) return {&entry, true};
      if (!best.entry) best.entry = &entry;
    }
  }
  return best;
}

}  // namespace kvasir::serve
