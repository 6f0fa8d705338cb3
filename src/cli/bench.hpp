// The subcommands of `kvasir bench`.
#pragma once

#include <string>

#include "base/options.hpp"
#include "cli/command.hpp"
#include "serve/answer_reader.hpp"

namespace kvasir::cli {

// Each registers its options on `app` and returns what to run, as Command::setup does.
Action setup_bench_replay(CLI::App& app);
Action setup_bench_load(CLI::App& app);

// A server that runs already.
struct RemoteOptions {
  std::string url;
  std::string model;
  std::string key_env;
};
const OptionTable<RemoteOptions>& remote_table();
serve::Endpoint endpoint_of(const RemoteOptions& options);  // throws Error(kBadInput)

}  // namespace kvasir::cli
