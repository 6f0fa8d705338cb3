// What a command says about its command line. Commands know this interface only; cli/parser.cpp implements it.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"

namespace kvasir::cli {

// What the help says of a value besides its text.
struct ValueInfo {
  std::string placeholder;  // how the value is called: "FILE"; empty: "TEXT"
  bool required = false;
  std::string group;  // title of the options among which it stands; empty: those that are in no table
};

// `names`: "--json", "-m,--model", or "FILE" for a value that stands alone. What is written to must live until the
// command has run.
class Flags {
 public:
  virtual ~Flags() = default;

  virtual void flag(const std::string& names, bool& to, const std::string& help) = 0;
  virtual void value(const std::string& names, std::string& to, const std::string& help, ValueInfo info = {}) = 0;
  virtual void values(const std::string& names, std::vector<std::string>& to, int count, const std::string& help,
                      ValueInfo info = {}) = 0;
  virtual void number(const std::string& names, int& to, int low, int high, const std::string& help) = 0;

  // An option of a table: `set` takes what was typed, once per use of the flag ("true" or "false" of a bool).
  using SetText = std::function<void(const std::string& text)>;
  virtual void option(const OptionSpec& spec, const OptionValue& preset, const std::string& group, SetText set) = 0;
  virtual void make_optional(const std::string& name) = 0;  // what a table says is required

  // Subcommands; *this owns them.
  virtual Flags& command(const std::string& name, const std::string& summary) = 0;
  virtual void require_command() = 0;

  // After parsing: whether this subcommand was chosen; the name of the first option of these groups that was given, or
  // an empty string.
  virtual bool chosen() const = 0;
  virtual std::string given(std::initializer_list<std::string_view> groups) const = 0;
};

// Adds every option of `table` as a flag that writes into `target`. A flag's own value replaces what `target` held,
// except that each use of a list's flag appends one item. Errors are Error(kBadInput), naming the flag and the range.
// `without`: names of options to leave out.
template <class T>
void add_options(Flags& flags, const OptionTable<T>& table, T& target,
                 std::initializer_list<std::string_view> without = {}) {
  for (std::size_t i = 0; i < table.specs().size(); ++i) {
    const OptionSpec& spec = table.specs()[i];
    if (std::find(without.begin(), without.end(), spec.name) != without.end()) continue;
    flags.option(spec, table.get(target, i), table.title(),
                 [&table, &target, i](const std::string& text) { table.set_text(target, i, text); });
  }
}

}  // namespace kvasir::cli
