#include "cli/parser.hpp"

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "cli/flag_text.hpp"

namespace kvasir::cli {
namespace {

// What others call our options; the second text is ours, or with a space in it says what holds here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"-c", "--ctx"},
    {"--ctx-size", "--ctx"},
    {"--max-model-len", "--ctx"},
    {"--num-ctx", "--ctx"},
    {"--cache-type-k", "--k-codec"},
    {"-ctk", "--k-codec"},
    {"--cache-type-v", "--v-codec"},
    {"-ctv", "--v-codec"},
    {"--kv-cache-dtype", "--kv"},
    {"--batch-size", "--chunk"},
    {"-b", "--chunk"},
    {"--ubatch-size", "--chunk"},
    {"-ub", "--chunk"},
    {"--temp", "--temperature"},
    {"--n-predict", "-n"},
    {"--predict", "-n"},
    {"--file", "-f"},
    {"--parallel", "--running"},
    {"-np", "--running"},
    {"--max-num-seqs", "--running"},
    {"--alias", "--name"},
    {"--served-model-name", "--name"},
    {"--api-key", "--api-key-file"},
    {"--chat-template-file", "--chat-template"},
    {"--ssl-cert-file", "--tls-cert"},
    {"--ssl-key-file", "--tls-key"},
    {"--slot-save-path", "--cache-dir"},
    {"--prompt-cache", "--cache-dir"},
    {"--cache-ram", "--ram-cache"},
    {"-cram", "--ram-cache"},
    {"--grammar-file", "--json-schema"},
    {"--metrics", "always served at /metrics"},
    {"--jinja", "always so"},
    {"-cb", "always so"},
    {"--cont-batching", "always so"},
    {"--cache-reuse", "always so: what begins alike is reused"},
    {"--enable-prefix-caching", "always so"},
    {"-fa", "not needed: attention never stores its scores"},
    {"--flash-attn", "not needed: attention never stores its scores"},
    {"-ngl", "not needed: all layers run on the processor"},
    {"--gpu-layers", "not needed: all layers run on the processor"},
    {"--n-gpu-layers", "not needed: all layers run on the processor"},
    {"--no-mmap", "not needed: weights are packed into memory"},
    {"--mlock", "not needed: weights are packed into memory"},
};

// " (-c is --ctx here)", or nothing.
std::string hint_for(std::string_view argument) {
  argument = argument.substr(0, argument.find('='));
  for (const auto& [theirs, ours] : kElsewhere) {
    if (argument != theirs) continue;
    const bool sentence = ours.find(' ') != ours.npos;
    return std::string(argument) + (sentence ? ": " : " is ") + std::string(ours) + (sentence ? "" : " here");
  }
  return {};
}

// What is left on the command line, in its order, with our name for what other engines call otherwise.
std::string not_expected(const std::vector<std::string>& arguments) {
  std::string text = "not expected:";
  std::string hints;
  for (const std::string& a : arguments) {
    text += " " + a;
    if (const std::string hint = hint_for(a); !hint.empty()) hints += (hints.empty() ? " (" : ", ") + hint;
  }
  return text + (hints.empty() ? "" : hints + ")");
}

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

  Outcome parse(std::vector<std::string> arguments) override {
    if (const std::string theirs = run_together(arguments); !theirs.empty()) return {.error = not_expected({theirs})};
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      return {.help = app_.help()};
    } catch (const CLI::ExtrasError&) {
      return {.error = not_expected(app_.remaining(true))};
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
      if (a.size() < 3 || a[0] != '-' || a[1] == '-' || hint_for(a).empty()) continue;
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
