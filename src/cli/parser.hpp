// The parser of one command's arguments; the only part of the program that knows CLI11.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags.hpp"

namespace kvasir::cli {

class Parser : public Flags {
 public:
  struct Outcome {
    std::optional<std::string> help;      // it was asked for
    std::optional<std::string> error;     // what is wrong with the arguments
    std::vector<std::string> unexpected;  // those that nothing takes
  };
  // Errors of an option's value are thrown: Error(kBadInput).
  virtual Outcome parse(std::vector<std::string> arguments) = 0;
  virtual bool knows(const std::string& flag) const = 0;  // here, or in a subcommand
  // Long flags of what was chosen, after parsing.
  virtual std::vector<std::string> chosen_flags() const = 0;
};

std::unique_ptr<Parser> make_parser(const std::string& summary, const std::string& program);

}  // namespace kvasir::cli
