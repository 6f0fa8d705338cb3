#include "kv/selector.hpp"

namespace kvasir::kv::entries::selectors {
namespace {

int select(const Selection& what, std::int32_t* pages) {
  for (std::int32_t i = what.first; i < what.last; ++i) *pages++ = i;
  return what.last - what.first;
}

}  // namespace

extern const Selector all;
const Selector all = {"every page: dense attention", select};

}  // namespace kvasir::kv::entries::selectors
