// The subcommands of `kvasir bench`.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/options.hpp"
#include "cli/command.hpp"
#include "client/answer_reader.hpp"

namespace kvasir::cli {

// Each registers its options on `flags` and returns what to run, as Command::setup does.
Action setup_bench_replay(Flags& flags);
Action setup_bench_load(Flags& flags);
Action setup_bench_rag(Flags& flags);
Action setup_bench_draft(Flags& flags);
Action setup_bench_beside(Flags& flags);

// A server that runs already, or (bench load without a URL) one of this process.
struct RemoteOptions {
  std::string url;
  std::string model;
  std::string key_env;
  std::string key_file;
  std::string ca_file;
};
const OptionTable<RemoteOptions>& remote_table();
// Throws Error(kBadInput) naming the flag: no such URL, no key where it should be, a value without use.
client::Endpoint endpoint_of(const RemoteOptions& options);
// Throws Error(kBadInput) naming the first flag of the groups (titles of tables) that was given, as `why` says.
void check_unused(const Flags& flags, std::initializer_list<std::string_view> groups, const std::string& why);

}  // namespace kvasir::cli
