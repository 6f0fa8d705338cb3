#include "cli/flag_text.hpp"

#include <nlohmann/json.hpp>

namespace kvasir::cli {

std::string flag_names(const OptionSpec& spec) {
  std::string names = (spec.letter ? std::string("-") + spec.letter + "," : "") + spec.flag;
  if (!spec.alias.empty()) names += "," + spec.alias;
  if (spec.kind == OptionKind::kBool && !spec.flag.starts_with("--no-")) names += ",!--no-" + spec.flag.substr(2);
  return names;
}

std::string flag_help(const OptionSpec& spec, const OptionValue& preset) {
  const std::string default_text = options_to_json({&spec, 1}, {&preset, 1}).at(spec.name).dump();
  std::string help = spec.help;
  const bool limited = spec.kind == OptionKind::kInt || spec.kind == OptionKind::kFloat || !spec.choices.empty();
  std::string notes = limited ? spec.expects() : "";
  if (!spec.unit.empty()) notes += (notes.empty() ? "" : ", ") + ("in " + spec.unit);
  if (default_text != "\"\"" && default_text != "[]" && default_text != "false")
    notes += (notes.empty() ? "" : "; ") + ("default " + default_text);
  return notes.empty() ? help : help + " (" + notes + ")";
}

}  // namespace kvasir::cli
