#include "model/arch.hpp"

namespace kvasir::hub {

std::vector<Family> families() {
  std::vector<Family> all;
  for (const auto& arch : model::archs())
    for (const Family& f : arch.value->hub) {
      all.push_back(f);
      all.back().arch = arch.name;
    }
  return all;
}

}  // namespace kvasir::hub
