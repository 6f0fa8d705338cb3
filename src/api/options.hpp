// Options of the C++ and C API, by the tables of the command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "kvasir/options.hpp"

namespace kvasir::api {

// Names that no table has, with those there are, as Error(kBadInput).
[[noreturn]] void unknown_option(const std::string& name, const std::vector<std::string>& known);

template <class T>
struct OptionTarget {
  const OptionTable<T>& table;
  T& object;

  bool set(const Option& option) const {
    for (std::size_t i = 0; i < table.specs().size(); ++i) {
      const OptionSpec& spec = table.specs()[i];
      if (spec.name != option.name) continue;
      OptionValue value = option_from_text(spec, option.value, option.name);
      if (auto* items = std::get_if<std::vector<std::string>>(&value)) {
        auto all = std::get<std::vector<std::string>>(table.get(object, i));
        all.insert(all.end(), items->begin(), items->end());
        value = std::move(all);
      }
      table.set(object, i, value, option.name);
      return true;
    }
    return false;
  }
};

// Sets each option in the first target whose table has it. Throws Error(kBadInput) for names that none has and for
// values outside their range.
template <class... T>
void set_options(const Options& options, OptionTarget<T>... targets) {
  for (const Option& o : options) {
    if ((targets.set(o) || ...)) continue;
    std::vector<std::string> known;
    const auto add = [&](const auto& target) {
      for (const OptionSpec& spec : target.table.specs()) known.push_back(spec.name);
    };
    (add(targets), ...);
    unknown_option(o.name, known);
  }
}

}  // namespace kvasir::api
