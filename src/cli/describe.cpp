#include "cli/describe.hpp"

#include <list>

#include "cli/flag_text.hpp"
#include "cli/flags.hpp"

namespace kvasir::cli {
namespace {

// "-m,--model" or "--exact,!--no-exact" as a list of names.
std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    std::string name = names.substr(begin, end - begin);
    if (name.starts_with('!')) name.erase(0, 1);
    if (!name.empty()) all.push_back(std::move(name));
    begin = end + 1;
  }
  return all;
}

// Writes down what a command registers; nothing is parsed.
class Recorder final : public Flags {
 public:
  void flag(const std::string& names, bool& /*to*/, const std::string& help) override { add(names, "", help); }
  void value(const std::string& names, std::string& /*to*/, const std::string& help, ValueInfo info) override {
    add(names, info.placeholder.empty() ? "TEXT" : info.placeholder, help, {}, info.group);
  }
  void values(const std::string& names, std::vector<std::string>& /*to*/, int /*count*/, const std::string& help,
              ValueInfo info) override {
    add(names, info.placeholder.empty() ? "TEXT" : info.placeholder, help, {}, info.group);
  }
  void number(const std::string& names, int& /*to*/, int low, int high, const std::string& help) override {
    add(names, "N", help + " (" + std::to_string(low) + " to " + std::to_string(high) + ")");
  }
  void option(const OptionSpec& spec, const OptionValue& preset, const std::string& group, SetText /*set*/) override {
    const bool number = spec.kind == OptionKind::kInt || spec.kind == OptionKind::kFloat;
    const std::string value = spec.kind == OptionKind::kBool ? ""
                              : !spec.placeholder.empty()    ? spec.placeholder
                              : number                       ? "N"
                                                             : "TEXT";
    add(flag_names(spec), value, flag_help(spec, preset), spec.choices, group);
  }
  void make_optional(const std::string& /*name*/) override {}

  Flags& command(const std::string& name, const std::string& summary) override {
    inner_.emplace_back();
    inner_.back().text_.name = name;
    inner_.back().text_.summary = summary;
    return inner_.back();
  }
  void require_command() override {}
  bool chosen() const override { return false; }
  std::string given(std::initializer_list<std::string_view> /*groups*/) const override { return ""; }

  CommandText finish() {
    add("--help,-h", "", "print this and exit");
    for (Recorder& r : inner_) text_.commands.push_back(r.finish());
    return std::move(text_);
  }
  CommandText& text() { return text_; }

 private:
  void add(const std::string& names, std::string value, const std::string& help, std::vector<std::string> choices = {},
           std::string group = "") {
    text_.options.push_back({split_names(names), std::move(value), help, std::move(choices), std::move(group)});
  }

  CommandText text_;
  std::list<Recorder> inner_;  // commands keep references to them
};

}  // namespace

std::vector<CommandText> describe(std::span<const Entry<Command>> commands) {
  std::vector<CommandText> all;
  for (const auto& c : commands) {
    if (c.value->hidden) continue;
    Recorder recorder;
    recorder.text().name = c.name;
    recorder.text().summary = c.value->summary;
    const Action action = c.value->setup(recorder);  // owns what options would write to
    all.push_back(recorder.finish());
  }
  return all;
}

}  // namespace kvasir::cli
