#include "serve/dialect.hpp"

namespace kvasir::serve {

const Dialect* find_dialect(std::string_view path) {
  for (const Entry<Dialect>& entry : dialects())
    if (entry.value->path == path) return entry.value;
  return nullptr;
}

std::string sse(std::string_view name, const Json& data) {
  std::string out;
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  return out.append("data: ").append(dump(data)).append("\n\n");
}

}  // namespace kvasir::serve
