// kvasir(1), made of what the commands say of themselves.
#include <fmt/format.h>

#include "cli/describe.hpp"

namespace kvasir::cli {
namespace {

// Hyphens that are typed, and no line that begins with a control character of roff.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

void describe_command(const CommandText& c, const std::string& before, std::string& out) {
  const std::string name = before + " " + c.name;
  out += fmt::format(".SS {}\n{}.\n", roff(name), roff(c.summary));
  std::string group;
  for (const OptionText& o : c.options) {
    if (o.group != group && !o.group.empty()) out += fmt::format(".P\n.I {}\n", roff(o.group));
    group = o.group;
    std::string names;
    for (const std::string& n : o.names) names += (names.empty() ? "" : ", ") + ("\\fB" + roff(n) + "\\fR");
    if (!o.value.empty() && !o.positional()) names += " \\fI" + roff(o.value) + "\\fR";
    out += fmt::format(".TP\n{}\n{}\n", names, roff(o.help));
    if (!o.choices.empty()) {
      std::string all;
      for (const std::string& choice : o.choices) all += (all.empty() ? "" : ", ") + choice;
      if (o.help.find(o.choices.back()) == o.help.npos) out += roff("One of " + all + ".") + "\n";
    }
  }
  for (const CommandText& inner : c.commands) describe_command(inner, name, out);
}

}  // namespace

std::string manual_page(std::span<const CommandText> commands, const std::string& version) {
  std::string out = fmt::format(
      ".TH KVASIR 1 \"\" \"kvasir {}\" \"User Commands\"\n"
      ".SH NAME\n"
      "kvasir \\- CPU inference engine for large language models, with a compressed KV cache that outlives restarts\n"
      ".SH SYNOPSIS\n"
      ".B kvasir\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.br\n.B kvasir\n\\fICOMMAND\\fR \\fB\\-\\-help\\fR\n.br\n"
      ".B kvasir \\-\\-version\n"
      ".SH COMMANDS\n",
      roff(version));
  for (const CommandText& c : commands) describe_command(c, "kvasir", out);
  out +=
      ".SH EXIT STATUS\n"
      ".TP\n0\nsuccess\n"
      ".TP\n1\nthe run failed because of files, memory or the machine, or was stopped\n"
      ".TP\n2\nan option is wrong, or the content of a file that an option names\n";
  return out;
}

}  // namespace kvasir::cli
