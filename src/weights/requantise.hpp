// Another GGUF file with the same model in other weight types.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/team.hpp"
#include "weights/importance.hpp"
#include "weights/mixes.hpp"

namespace kvasir::weights {

struct Change {
  std::string name;
  std::string from, to;  // weight types; equal: the bytes were copied
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;  // in the new file
  // Root of the mean squared error over that of the mean square; the weighted one counts columns by importance.
  double error = 0, weighted_error = 0;
  bool weighted = false;  // the importance matrix knows the tensor
};

struct RequantiseOptions {
  const Mix* mix = nullptr;
  const Importance* importance = nullptr;  // nullptr: all columns count alike
  bool again = false;                      // also weights that are quantised already, which are rounded twice then
  std::function<void()> poll = {};         // called many times a second, between a tensor's pieces; may throw
};

// What becomes of every tensor, in file order, without errors and bytes. Throws Error(kBadInput) naming the tensor
// where a type needs an importance matrix or the weights are quantised already.
std::vector<Change> plan_requantise(const ModelFile& file, const RequantiseOptions& options);

// Writes `out` from the model `in` (a GGUF file, any of its parts, a folder); metadata of GGUF files stay as they are,
// byte for byte, but for the type of the file and what is said of parts. `done` is called after every tensor and may
// throw. `out` is written under another name until it is complete. Throws Error.
void requantise(const std::string& in, const std::string& out, const RequantiseOptions& options, Team& team,
                FunctionRef<void(const Change&)> done);

}  // namespace kvasir::weights
