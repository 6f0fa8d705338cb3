#include "serve/route.hpp"

#include <vector>

#include "serve/dialect.hpp"
#include "serve/generate_route.hpp"

namespace kvasir::serve {

std::span<const Entry<Route>> all_routes() {
  struct Table {
    std::vector<Route> of_dialects;
    std::vector<Entry<Route>> all;
    Table() {
      of_dialects.reserve(dialects().size());
      all.assign(routes().begin(), routes().end());
      for (const Entry<Dialect>& d : dialects()) {
        of_dialects.push_back({"POST", d.value->path, false, answer_in_dialect, d.value->error, true});
        all.push_back({d.name, &of_dialects.back()});
      }
    }
  };
  static const Table table;
  return table.all;
}

ErrorShape error_shape(std::string_view path) {
  for (const Entry<Route>& entry : all_routes())
    if (match_path(entry.value->path, path, nullptr)) return entry.value->error ? entry.value->error : error_json;
  return error_json;
}

RouteMatch find_route(std::string_view method, std::string_view path, std::string* parameter) {
  if (method == "HEAD") method = "GET";
  static const auto all = all_routes();
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
