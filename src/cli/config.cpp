#include "cli/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"
#include "cli/yaml.hpp"
#include "run/elsewhere.hpp"
#include "run/selection.hpp"

namespace kvasir::cli {

Config::Config(Flags& flags) {
  flags.value("--config", file_, "options from a file as --print-config writes it, JSON or YAML; those given here win",
              {.placeholder = "FILE"});
  flags.flag("--print-config", print_, "print all options as JSON for --config, and exit");
}

namespace {

using nlohmann::json;

// Other sections of KTransformers' own file.
constexpr std::string_view kSections[] = {"log", "server", "db",         "user",         "model", "web",
                                          "ext", "attn",   "local_chat", "async_server", "kvc2"};
constexpr const char* kLongContext = "long_context";

json read_config(const std::string& file) {
  const std::string text = read_text_file(file);
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return parse_yaml(text, file);
  return parse_json(text, file);
}

bool is_section(const std::string& name) {
  return std::find(std::begin(kSections), std::end(kSections), name) != std::end(kSections);
}

}  // namespace

// Its section long_context, and what else means something here; the rest is named. What it calls server has other keys
// than ours.
void Config::read_ktransformers(const json& all) {
  json engine = run::ktransformers_options(all.at(kLongContext));
  const auto take = [&](const char* section, const char* key, json& to, const char* ours) {
    if (const auto at = all.find(section); at != all.end() && at->is_object())
      if (const auto value = at->find(key); value != at->end() && !value->is_null() && !to.contains(ours))
        to[ours] = *value;
  };
  take("ext", "cpu_infer", engine, "threads");
  take("attn", "chunk_size", engine, "chunk");
  table("engine")->read(engine);
  if (const Table* server = table("server")) {
    json listens = json::object();
    take("server", "ip", listens, "host");
    take("server", "port", listens, "port");
    server->read(listens);
  }
  std::vector<std::string> others;
  for (const auto& [name, values] : all.items())
    if (name != kLongContext && name != "ext" && name != "attn" && name != "server") others.push_back(name);
  if (!others.empty()) fmt::print(stderr, "{}: not used here: {}\n", file_, fmt::join(others, ", "));
}

const Config::Table* Config::table(const std::string& title) const {
  const auto at = std::find_if(tables_.begin(), tables_.end(), [&](const Table& t) { return t.title == title; });
  return at == tables_.end() ? nullptr : &*at;
}

void Config::read_tables(json all) {
  if (!all.is_object()) throw Error(Code::kBadInput, "expected an object with one object per table of options");
  std::vector<std::string> titles;
  for (const Table& t : tables_) titles.push_back(t.title);
  // KTransformers' tutorial shows the section alone.
  if (table("engine") && all.contains("block_size") && all.contains("local_windows_len")) all = {{kLongContext, all}};
  if (table("engine") && all.contains(kLongContext)) {
    bool theirs = false;
    for (const auto& [name, values] : all.items()) theirs = theirs || (is_section(name) && !table(name));
    if (theirs) return read_ktransformers(all);
    table("engine")->read(run::ktransformers_options(all[kLongContext]));
    all.erase(kLongContext);
  }
  for (const auto& [title, values] : all.items()) {
    const Table* const known = table(title);
    if (!known) {
      std::string hint = run::key_hint(title);
      if (hint.empty()) hint = did_you_mean(title, titles);
      throw Error(Code::kBadInput,
                  fmt::format("unknown table '{}'{}, expected {}", title.substr(0, 40), hint, fmt::join(titles, ", ")));
    }
    known->check(values);
    known->read(values);
    for (const auto& [key, value] : values.items()) given_.insert(fmt::format("{}.{}", title, key));
  }
}

void Config::read_file() {
  try {
    read_tables(read_config(file_));
  } catch (const Error& e) {
    if (e.context() == file_) throw;
    throw Error(e.code(), e.what(), file_);
  }
}

// Names of other programs get a hint; what else is wrong the table says.
void Config::Table::check(const json& values) const {
  if (!values.is_object()) return;
  for (const auto& [key, value] : values.items()) {
    const bool known = std::any_of(specs.begin(), specs.end(), [&](const OptionSpec& s) { return s.name == key; });
    if (const std::string hint = known ? "" : run::key_hint(key); !hint.empty())
      throw Error(Code::kBadInput, fmt::format("unknown option '{}'{}", key, hint), title);
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
