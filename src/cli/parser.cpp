#include "cli/parser.hpp"

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "cli/flag_text.hpp"
#include "run/elsewhere.hpp"

namespace kvasir::cli {
namespace {

class CommandFlags final : public Parser {
 public:
  explicit CommandFlags(CLI::App& app) : app_(app) {}
  CommandFlags(const std::string& summary, const std::string& program)
      : own_(std::make_unique<CLI::App>(summary, program)), app_(*own_) {
    app_.set_help_flag("--help,-h", "print this and exit");  // subcommands inherit it
  }

  void flag(const std::string& names, bool& to, const std::string& help) override { app_.add_flag(names, to, help); }
  void value(const std::string& names, std::string& to, const std::string& help, ValueInfo info) override {
    describe(app_.add_option(names, to, help), info);
  }
  void values(const std::string& names, std::vector<std::string>& to, int count, const std::string& help,
              ValueInfo info) override {
    describe(app_.add_option(names, to, help)->expected(count), info);
  }
  void number(const std::string& names, int& to, int low, int high, const std::string& help) override {
    app_.add_option(names, to, help)->check(CLI::Range(low, high));
  }

  void option(const OptionSpec& spec, const OptionValue& preset, const std::string& group, SetText set) override {
    const std::string names = flag_names(spec);
    const std::string help = flag_help(spec, preset);
    CLI::Option* option = nullptr;
    if (spec.kind == OptionKind::kBool) {
      option = app_.add_flag_function(
          names, [set = std::move(set)](std::int64_t n) { set(n > 0 ? "true" : "false"); }, help);
    } else if (spec.kind == OptionKind::kStrings) {
      option = app_.add_option_function<std::vector<std::string>>(
          names,
          [set = std::move(set)](const std::vector<std::string>& items) {
            for (const std::string& item : items) set(item);
          },
          help);
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
    } else {
      option = app_.add_option_function<std::string>(names, std::move(set), help);
    }
    if (spec.kind != OptionKind::kBool) option->type_name(spec.placeholder);
    option->group(group)->required(spec.required);
  }
  void make_optional(const std::string& name) override { app_.get_option(name)->required(false); }

  Flags& command(const std::string& name, const std::string& summary) override {
    commands_.push_back(std::make_unique<CommandFlags>(*app_.add_subcommand(name, summary)));
    return *commands_.back();
  }
  void require_command() override { app_.require_subcommand(1); }

  bool chosen() const override { return app_.parsed(); }
  std::string given(std::initializer_list<std::string_view> groups) const override {
    for (const CLI::Option* o : std::as_const(app_).get_options())
      if (o->count() > 0 && std::find(groups.begin(), groups.end(), o->get_group()) != groups.end())
        return o->get_name();
    return "";
  }

  bool knows(const std::string& flag) const override {
    const auto has = [&](const auto& self, const CLI::App& app) -> bool {
      if (app.get_option_no_throw(flag)) return true;
      for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
        if (self(self, *sub)) return true;
      return false;
    };
    return has(has, app_);
  }
  std::vector<std::string> chosen_flags() const override {
    std::vector<std::string> all;
    const auto add = [&](const auto& self, const CLI::App& app) -> void {
      for (const CLI::Option* o : app.get_options())
        for (const std::string& name : o->get_lnames()) all.push_back("--" + name);
      for (const CLI::App* sub : app.get_subcommands()) self(self, *sub);
    };
    add(add, app_);
    return all;
  }

  Outcome parse(std::vector<std::string> arguments) override {
    if (const std::string theirs = run_together(arguments); !theirs.empty()) return {.unexpected = {theirs}};
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      return {.help = app_.help()};
    } catch (const CLI::ExtrasError&) {
      return {.unexpected = app_.remaining(true)};
    } catch (const CLI::ParseError& e) {
      return {.error = e.what()};
    }
    return {};
  }

 private:
  // An option of others that would be read as one of ours with its value: "-ngl" as "-n gl". Empty: there is none.
  std::string run_together(const std::vector<std::string>& arguments) const {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& a = arguments[i];
      if (a.size() < 3 || a[0] != '-' || a[1] == '-' || run::elsewhere(a).empty()) continue;
      const CLI::Option* before = i > 0 ? std::as_const(app_).get_option_no_throw(arguments[i - 1]) : nullptr;
      if (!before || before->get_items_expected_max() == 0) return a;  // else it is the value of that one
    }
    return {};
  }

  static void describe(CLI::Option* option, const ValueInfo& info) {
    option->required(info.required);
    if (!info.placeholder.empty()) option->type_name(info.placeholder);
    if (!info.group.empty()) option->group(info.group);
  }

  std::unique_ptr<CLI::App> own_;  // null in subcommands
  CLI::App& app_;
  std::vector<std::unique_ptr<CommandFlags>> commands_;
};

}  // namespace

std::unique_ptr<Parser> make_parser(const std::string& summary, const std::string& program) {
  return std::make_unique<CommandFlags>(summary, program);
}

}  // namespace kvasir::cli
