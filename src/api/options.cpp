#include "api/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "run/blend.hpp"
#include "run/drafting.hpp"
#include "run/elsewhere.hpp"
#include "run/engine.hpp"
#include "run/pictures.hpp"
#include "run/request_options.hpp"
#include "run/sampling_options.hpp"
#include "run/scheduler.hpp"
#include "store/reuse_options.hpp"

namespace kvasir {
namespace {

template <class T>
void describe(std::vector<OptionDescription>& all, const OptionTable<T>& table) {
  static constexpr std::string_view kTypes[] = {"boolean", "integer", "number", "text", "list of texts"};
  const auto presets = table.to_json(T{});
  for (const OptionSpec& s : table.specs())
    all.push_back(
        {s.name, std::string(kTypes[static_cast<int>(s.kind)]), s.expects(), presets[s.name].dump(), s.unit, s.help});
}

}  // namespace

std::vector<OptionDescription> engine_options() {
  std::vector<OptionDescription> all;
  describe(all, run::engine_table());
  describe(all, run::scheduler_table());
  describe(all, run::blend_table());
  describe(all, run::draft_table());
  describe(all, run::picture_table());
  describe(all, store::reuse_table());
  return all;
}

std::vector<OptionDescription> request_options() {
  std::vector<OptionDescription> all;
  describe(all, run::request_table());
  describe(all, run::sampling_table());
  describe(all, run::blend_table());
  return all;
}

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
  std::string hint = run::key_hint(name, names);
  if (hint.empty()) hint = did_you_mean(name, names);
  throw Error(Code::kBadInput, fmt::format("is no option here{}, expected one of {}", hint, fmt::join(names, ", ")),
              name);
}

}  // namespace kvasir
