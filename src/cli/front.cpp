#include "cli/front.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "cli/parser.hpp"
#include "cli/version.hpp"
#include "run/elsewhere.hpp"

namespace kvasir::cli {
namespace {

void print_error(const std::string& message) {
  std::fflush(stdout);
  const std::string line = "kvasir: " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // fmt::print would throw where stderr cannot be written
}

std::string usage(std::span<const Entry<Command>> commands) {
  std::string text =
      "kvasir: runs language models with the KV cache as the centre of the design\n\n"
      "usage: kvasir COMMAND [OPTIONS]\n       kvasir COMMAND --help\n       kvasir --version\n\ncommands:\n";
  std::size_t width = 0;
  for (const auto& c : commands) width = std::max(width, c.name.size());
  for (const auto& c : commands)
    if (!c.value->hidden) text += fmt::format("  {:<{}}  {}\n", c.name, width, c.value->summary);
  return text;
}

int unknown_command(const std::string& name, std::span<const Entry<Command>> commands) {
  std::vector<std::string> known;
  for (const auto& c : commands) known.emplace_back(c.name);
  if (name.starts_with("-"))
    print_error(fmt::format("unknown option '{}' before a command; see kvasir --help", name));
  else
    print_error(fmt::format("unknown command '{}'{}; one of {}", name, did_you_mean(name, known), names(commands)));
  return kBadUsage;
}

// Messages about a file that is no model are the user's business (2), those about the machine are not (1).
int status_of(const Error& e) { return e.code() == Code::kBadInput ? kBadUsage : kFailure; }

// The commands that have a flag: "kvasir bench or serve"; empty: none.
std::string owners_of(const std::string& flag, std::span<const Entry<Command>> commands) {
  std::vector<std::string_view> owners;
  for (const auto& c : commands) {
    const std::unique_ptr<Parser> parser = make_parser(c.value->summary, std::string(c.name));
    c.value->setup(*parser);
    if (parser->knows(flag)) owners.push_back(c.name);
  }
  return owners.empty() ? "" : fmt::format("kvasir {}", fmt::join(owners, " or "));
}

// What helps with an argument that nothing takes: our name for it, who has it, or the name it is near to.
std::string hint_for(const std::string& argument, const Parser& parser, std::span<const Entry<Command>> commands) {
  if (argument.size() < 2 || argument[0] != '-' || (argument[1] >= '0' && argument[1] <= '9') || argument[1] == '.')
    return {};
  const std::string typed = argument.substr(0, argument.find('='));
  const std::string theirs(run::elsewhere(typed));
  if (!theirs.empty() && theirs[0] != '-') return typed + ": " + theirs;
  std::string same = typed;
  std::replace(same.begin() + 2, same.end(), '_', '-');
  const std::string ours = theirs.empty() ? same : theirs, flag = ours.substr(0, ours.find_first_of(" ,"));
  if (parser.knows(flag)) return flag == typed ? "" : fmt::format("{} is {} here", typed, ours);
  if (const std::string field = run::request_field(flag); !field.empty() && parser.knows("--port"))
    return fmt::format("{}: a request says it, as '{}'", typed, field);
  const std::string owners = owners_of(flag, commands);
  if (flag != typed) return fmt::format("{} is {}{}", typed, ours, owners.empty() ? " here" : " of " + owners);
  if (!owners.empty()) return fmt::format("{} is an option of {}", typed, owners);
  const std::string near = nearest(typed, parser.chosen_flags());
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

std::string not_expected(const std::vector<std::string>& arguments, const Parser& parser,
                         std::span<const Entry<Command>> commands) {
  std::vector<std::string> hints;
  for (const std::string& a : arguments)
    if (std::string hint = hint_for(a, parser, commands); !hint.empty()) hints.push_back(std::move(hint));
  const std::string text = fmt::format("not expected: {}", fmt::join(arguments, " "));
  return hints.empty() ? text : fmt::format("{} ({})", text, fmt::join(hints, ", "));
}

int run_command(const Entry<Command>& command, std::vector<std::string> arguments,
                std::span<const Entry<Command>> all) {
  const std::string name(command.name);
  const std::unique_ptr<Parser> parser = make_parser(command.value->summary, "kvasir " + name);
  const Action action = command.value->setup(*parser);
  const Parser::Outcome outcome = parser->parse(std::move(arguments));
  if (outcome.help) {
    fmt::print("{}", *outcome.help);
    return kSuccess;
  }
  if (!outcome.unexpected.empty()) {
    print_error(
        fmt::format("{}: {}; see kvasir {} --help", name, not_expected(outcome.unexpected, *parser, all), name));
    return kBadUsage;
  }
  if (outcome.error) {
    print_error(fmt::format("{}: {}; see kvasir {} --help", name, *outcome.error, name));
    return kBadUsage;
  }
  return action();
}

int dispatch(const std::vector<std::string>& arguments, std::span<const Entry<Command>> commands) {
  if (arguments.empty()) {
    fmt::print(stderr, "{}", usage(commands));
    return kBadUsage;
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h") {
    fmt::print("{}", usage(commands));
    return kSuccess;
  }
  if (first == "--version") {
    fmt::print("kvasir {}\n", version());
    return kSuccess;
  }
  for (const auto& c : commands)
    if (c.name == first) return run_command(c, {arguments.begin() + 1, arguments.end()}, commands);
  return unknown_command(first, commands);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, std::span<const Entry<Command>> commands) {
  try {
    const int status = dispatch(arguments, commands);
    // A full disk shows at the latest here; without the check the output would be cut and the status 0.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw Error(Code::kIo, "cannot write", "standard output");
    return status;
  } catch (const Error& e) {
    print_error(e.what());
    return status_of(e);
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::system_error& e) {
    print_error(e.what());
  } catch (const std::exception& e) {
    print_error(fmt::format("internal error: {}", e.what()));
  } catch (...) {
    print_error("internal error: unknown");
  }
  return kFailure;
}

int run_command_line(const std::vector<std::string>& arguments) { return run_command_line(arguments, commands()); }

}  // namespace kvasir::cli
