// The flags of an options table (base/options.hpp) on a CLI11 parser.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"

namespace kvasir::cli {

// The text that follows a flag in the help: type, range, unit and default.
std::string flag_help(const OptionSpec& spec, const std::string& default_text);
std::string flag_names(const OptionSpec& spec);  // "-n,--n", "--exact,!--no-exact"

// Adds every option of `table` as a flag that writes into `target` (which must live as long as `app` is used). A flag's
// own value replaces what `target` held, except that each use of a list's flag appends one item. Errors are
// Error(kBadInput) thrown out of app.parse, naming the flag and the range. `without`: names of options to leave out.
template <class T>
void add_options(CLI::App& app, const OptionTable<T>& table, T& target,
                 std::initializer_list<std::string_view> without = {}) {
  for (std::size_t i = 0; i < table.specs().size(); ++i) {
    const OptionSpec& spec = table.specs()[i];
    if (std::find(without.begin(), without.end(), spec.name) != without.end()) continue;
    const std::string names = flag_names(spec);
    const auto defaults = table.to_json(target);
    const std::string help = flag_help(spec, defaults.at(spec.name).dump());
    CLI::Option* option = nullptr;
    if (spec.kind == OptionKind::kBool) {
      option = app.add_flag_function(
          names, [&table, &target, i, flag = spec.flag](std::int64_t n) { table.set(target, i, n > 0, flag); }, help);
    } else if (spec.kind == OptionKind::kStrings) {
      option = app.add_option_function<std::vector<std::string>>(
          names,
          [&table, &target, i](const std::vector<std::string>& items) {
            for (const std::string& item : items) table.set_text(target, i, item);
          },
          help);
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
    } else {
      option = app.add_option_function<std::string>(
          names, [&table, &target, i](const std::string& text) { table.set_text(target, i, text); }, help);
    }
    if (spec.kind != OptionKind::kBool) option->type_name(spec.placeholder);
    option->group(table.title())->required(spec.required);
  }
}

}  // namespace kvasir::cli
