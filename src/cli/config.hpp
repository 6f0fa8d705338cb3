// Options of several tables from a file: --config FILE reads them, --print-config writes them.
//
// The file is an object with one object per table, named as the table: {"engine": {"model": "m.gguf"}, "server":
// {...}}. What the command line says wins over the file, also where it says a default. A list of the command line
// replaces that of the file.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli/flags.hpp"

namespace kvasir::cli {

class Config {
 public:
  explicit Config(Flags& flags);  // adds the two flags; must outlive the parsing

  // As add_options; `target` gets its values in resolve(). What stands in `without` has no flag here; a file may hold
  // it all the same, as other commands know it.
  template <class T>
  void add(Flags& flags, const OptionTable<T>& table, T& target, std::initializer_list<std::string_view> without = {}) {
    tables_.push_back({table.title(), table.specs(),
                       [&table, &target](const nlohmann::json& json) { table.from_json(target, json); },
                       [&table, &target] { return Json(table.to_json(target)); }});
    for (std::size_t i = 0; i < table.specs().size(); ++i) {
      const OptionSpec& spec = table.specs()[i];
      if (std::find(without.begin(), without.end(), spec.name) != without.end()) continue;
      const auto again = std::make_shared<bool>(false);
      flags.option(spec, table.get(target, i), table.title(),
                   [this, &table, &target, i, again](const std::string& text) {
                     T check{};
                     table.set_text(check, i, text);  // says at once what is wrong
                     given_.insert(table.title() + "." + table.specs()[i].name);
                     typed_.push_back([&table, &target, i, text, first = !std::exchange(*again, true)] {
                       if (first && table.specs()[i].kind == OptionKind::kStrings)
                         table.set(target, i, std::vector<std::string>{}, table.specs()[i].flag);
                       table.set_text(target, i, text);
                     });
                   });
      if (spec.required) {
        flags.make_optional(spec.flag);
        required_.push_back({spec.flag, table.title() + "." + spec.name,
                             [&table, &target, i] { return std::get<std::string>(table.get(target, i)).empty(); }});
      }
    }
  }

  void make_optional(const std::string& flag) {
    std::erase_if(required_, [&](const Required& r) { return r.flag == flag; });
  }

  // Called in resolve() when all values are there, before they are printed or used.
  void settle(std::function<void()> settle) { settle_ = std::move(settle); }

  // After parsing: the file's values, then the command line's. False: they were to be printed, and were. Throws
  // Error(kBadInput) that names file and key, and for what is required and stands in neither.
  bool resolve();

  // After resolve(): whether file or command line name the option "sampling.top_k", even with its preset.
  bool given(const std::string& key) const { return given_.count(key) > 0; }

 private:
  struct Table {
    std::string title;
    std::span<const OptionSpec> specs;
    std::function<void(const nlohmann::json&)> read;
    std::function<Json()> write;
    void check(const nlohmann::json& values) const;
  };
  struct Required {
    std::string flag, key;
    std::function<bool()> missing;
  };

  void read_file();
  void read_tables(nlohmann::json all);
  void read_ktransformers(const nlohmann::json& all);
  const Table* table(const std::string& title) const;  // null: this command has no such one

  std::string file_;
  bool print_ = false;
  std::vector<Table> tables_;
  std::vector<std::function<void()>> typed_;
  std::set<std::string> given_;
  std::vector<Required> required_;
  std::function<void()> settle_;
};

}  // namespace kvasir::cli
