#include "api/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "run/elsewhere.hpp"

namespace kvasir {
namespace detail {

std::string option_text(double value) { return fmt::format("{}", value); }
std::string option_text(float value) { return fmt::format("{}", value); }
std::string option_text(long long value) { return fmt::format("{}", value); }
std::string option_text(unsigned long long value) { return fmt::format("{}", value); }

}  // namespace detail

void api::unknown_option(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::string> names = known;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = run::key_hint(name, names);
  throw Error(Code::kBadInput, fmt::format("is no option here{}, expected one of {}", hint, fmt::join(names, ", ")),
              name);
}

}  // namespace kvasir
