// Turns of `kvasir bench replay` as lines of a file, from which tables and pictures are made again.
#pragma once

#include <string>
#include <vector>

#include "lab/replay.hpp"

namespace kvasir::cli {

// The turns of one run: what answered, and how.
struct ReplayRun {
  std::string what;  // "model.gguf, KV balanced", or the user's words
  std::vector<lab::ReplayTurn> turns;
  bool compared = false;  // plain_ttft means something
};

// Adds a line for every turn. Throws Error.
void append_replay(const std::string& path, const ReplayRun& run);
// The runs of a file, turns in order; a run that is there twice is the later one. Throws Error(kBadInput) for a line
// that is none of these.
std::vector<ReplayRun> read_replays(const std::string& path);

}  // namespace kvasir::cli
