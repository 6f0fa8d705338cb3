#include "cli/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"
#include "run/selection.hpp"

namespace kvasir::cli {

Config::Config(Flags& flags) {
  flags.value("--config", file_, "options from a file as --print-config writes it; those given here win",
              {.placeholder = "FILE"});
  flags.flag("--print-config", print_, "print all options as JSON for --config, and exit");
}

void Config::read_file() {
  const nlohmann::json all = parse_json(read_text_file(file_), file_);
  if (!all.is_object()) throw Error(Code::kBadInput, "expected an object with one object per table of options", file_);
  std::vector<std::string> titles;
  for (const Table& t : tables_) titles.push_back(t.title);
  for (const auto& [title, values] : all.items()) {
    const auto engine =
        std::find_if(tables_.begin(), tables_.end(), [](const Table& t) { return t.title == "engine"; });
    if (title == "long_context" && engine != tables_.end()) {
      try {
        engine->read(run::ktransformers_options(values));
      } catch (const Error& e) {
        throw Error(e.code(), e.what(), file_);
      }
      continue;
    }
    const auto table = std::find_if(tables_.begin(), tables_.end(), [&](const Table& t) { return t.title == title; });
    if (table == tables_.end())
      throw Error(Code::kBadInput,
                  fmt::format("unknown table '{}'{}, expected {}", title.substr(0, 40), did_you_mean(title, titles),
                              fmt::join(titles, ", ")),
                  file_);
    try {
      table->read(values);
    } catch (const Error& e) {
      throw Error(e.code(), e.what(), file_);
    }
  }
}

bool Config::resolve() {
  if (!file_.empty()) read_file();
  for (const auto& set : typed_) set();
  if (settle_) settle_();
  if (print_) {
    Json all = Json::object();
    for (const Table& t : tables_) all[t.title] = t.write();
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
    return false;
  }
  for (const Required& r : required_)
    if (r.missing()) throw Error(Code::kBadInput, fmt::format("is required, here or as {} in --config", r.key), r.flag);
  return true;
}

}  // namespace kvasir::cli
