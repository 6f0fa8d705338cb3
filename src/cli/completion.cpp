// Scripts that complete a command line, for three shells. Each knows every command, option and choice beforehand, so
// that completing starts no program.
#include <fmt/format.h>

#include <functional>

#include "base/check.hpp"
#include "cli/describe.hpp"

namespace kvasir::cli {
namespace {

std::string escaped(std::string_view text, std::string_view special, std::string_view with) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += with;
    out += c;
  }
  return out;
}

// In single quotes of a Bourne shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

bool names_file(const OptionText& o) {
  for (const char* word : {"FILE", "MODEL", "FOLDER", "DIR", "PATH", "IN", "OUT", "ARCHIVE"})
    if (o.value == word) return true;
  return false;
}

// Calls f(path, command) for every command and subcommand; the path of `kvasir cache ls` is "cache ls".
using Visit = std::function<void(const std::string& path, const CommandText& command)>;
void each(std::span<const CommandText> commands, const std::string& before, const Visit& f) {
  for (const CommandText& c : commands) {
    const std::string path = before.empty() ? c.name : before + " " + c.name;
    f(path, c);
    each(c.commands, path, f);
  }
}

std::string joined_names(std::span<const CommandText> commands) {
  std::string all;
  for (const CommandText& c : commands) all += (all.empty() ? "" : " ") + c.name;
  return all;
}

std::string bash(std::span<const CommandText> commands) {
  std::string subcommands, words, values;
  each(commands, "", [&](const std::string& path, const CommandText& c) {
    if (!c.commands.empty()) subcommands += fmt::format("    '{}') inner='{}' ;;\n", path, joined_names(c.commands));
    std::string names = joined_names(c.commands);
    for (const OptionText& o : c.options) {
      if (o.positional()) continue;
      std::string patterns;
      for (const std::string& name : o.names) {
        names += (names.empty() ? "" : " ") + name;
        patterns += (patterns.empty() ? "" : "|") + shell_quoted(path + " " + name);
      }
      if (o.value.empty()) continue;
      std::string choices;
      for (const std::string& choice : o.choices) choices += (choices.empty() ? "" : " ") + choice;
      values += fmt::format("    {}) {} ;;\n", patterns,
                            o.choices.empty()
                                ? names_file(o) ? "COMPREPLY=($(compgen -f -- \"$cur\")); return" : "return"
                                : "COMPREPLY=($(compgen -W " + shell_quoted(choices) + " -- \"$cur\")); return");
    }
    words += fmt::format("    '{}') words='{}' ;;\n", path, names);
  });
  return fmt::format(R"(# bash completion of kvasir, made by `kvasir completion bash`
_kvasir() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path=${{COMP_WORDS[1]}} inner= words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$cur"))
    return
  fi
  case $path in
{}  esac
  if [ -n "$inner" ] && [ "$COMP_CWORD" -gt 2 ]; then
    case " $inner " in *" ${{COMP_WORDS[2]}} "*) path="$path ${{COMP_WORDS[2]}}" ;; esac
  fi
  case "$path $before" in
{}  esac
  case $path in
{}  esac
  case $cur in
    -*) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$inner" -- "$cur") $(compgen -f -- "$cur")) ;;
  esac
}}
complete -o filenames -F _kvasir kvasir
)",
                     joined_names(commands), subcommands, values, words);
}

std::string zsh(std::span<const CommandText> commands) {
  const auto list = [](std::span<const CommandText> of) {
    std::string text;
    for (const CommandText& c : of) text += " " + shell_quoted(escaped(c.name, ":", "\\") + ":" + c.summary);
    return text;
  };
  std::string cases;
  each(commands, "", [&](const std::string& path, const CommandText& c) {
    std::string arguments;
    for (const OptionText& o : c.options) {
      if (o.positional()) continue;
      for (const std::string& name : o.names) {
        std::string spec = "*" + name + "[" + escaped(o.help, "[]\\", "\\") + "]";
        if (!o.value.empty()) {
          std::string choices;
          for (const std::string& choice : o.choices) choices += (choices.empty() ? "" : " ") + choice;
          spec += ":" + escaped(o.value, ":", "\\") + ":" +
                  (!choices.empty() ? "(" + choices + ")"
                   : names_file(o)  ? "_files"
                                    : "( )");
        }
        arguments += " \\\n      " + shell_quoted(spec);
      }
    }
    if (c.commands.empty())
      cases += fmt::format("    {}) _arguments{} \\\n      '*:file:_files' ;;\n", shell_quoted(path), arguments);
    else
      cases += fmt::format("    {}) local -a inner; inner=({}); _describe -t commands command inner; _arguments{} ;;\n",
                           shell_quoted(path), list(c.commands), arguments);
  });
  std::string nested;
  for (const CommandText& c : commands)
    for (const CommandText& inner : c.commands)
      nested += (nested.empty() ? "" : "|") + shell_quoted(c.name + " " + inner.name);
  const std::string join = nested.empty() ? ""
                                          : fmt::format(
                                                "  case \"$words[2] $words[3]\" in {}) (( CURRENT > 3 )) && "
                                                "path_=\"$words[2] $words[3]\" ;; esac\n",
                                                nested);
  return fmt::format(R"(#compdef kvasir
# zsh completion of kvasir, made by `kvasir completion zsh`
_kvasir() {{
  local -a commands
  commands=({})
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    return
  fi
  local path_=$words[2]
{}  case $path_ in
{}  esac
}}
if [ "$funcstack[1]" = _kvasir ]; then _kvasir "$@"; else compdef _kvasir kvasir; fi
)",
                     list(commands), join, cases);
}

std::string fish(std::span<const CommandText> commands) {
  const auto safe = [](std::string_view text) { return "'" + escaped(text, "'\\", "\\") + "'"; };
  std::string out = "# fish completion of kvasir, made by `kvasir completion fish`\n";
  each(commands, "", [&](const std::string& path, const CommandText& c) {
    const std::size_t space = path.find(' ');
    std::string inside = "__fish_seen_subcommand_from " + c.name;
    if (space == path.npos) {
      out += fmt::format("complete -c kvasir -n __fish_use_subcommand -f -a {} -d {}\n", c.name, safe(c.summary));
    } else {
      const std::string outer = "__fish_seen_subcommand_from " + path.substr(0, space);
      out += fmt::format("complete -c kvasir -n {} -f -a {} -d {}\n", safe(outer), c.name, safe(c.summary));
      inside = outer + "; and " + inside;
    }
    for (const OptionText& o : c.options) {
      if (o.positional()) continue;
      out += "complete -c kvasir -n " + safe(inside);
      for (const std::string& name : o.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!o.value.empty()) out += names_file(o) ? " -r" : " -x";
      for (const std::string& choice : o.choices) out += " -a " + choice;
      out += " -d " + safe(o.help) + "\n";
    }
  });
  return out;
}

}  // namespace

std::string completion_script(std::span<const CommandText> commands, const std::string& shell) {
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  KVASIR_CHECK(shell == "fish");
  return fish(commands);
}

}  // namespace kvasir::cli
