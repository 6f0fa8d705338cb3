// The usual mixtures of weight types: files named Q4_K_M hold tensors of several types, and which tensor has which is a
// convention. Rules: llama.cpp, src/llama-quant.cpp (August 2026).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::weights {

struct Mix {
  std::string_view name;    // "Q4_K_M"
  std::string_view quant;   // of the tensors that no rule names: entry of weights/quants
  std::uint32_t file_type;  // general.file_type
};

// Weights that nobody has to ask for twice to round: floats, and what folders publish with 6 and 8 bits.
bool is_source(std::string_view quant);

std::span<const Mix> mixes();
std::string mix_names();                     // "F32, F16, …"
const Mix& find_mix(std::string_view name);  // in any case of letters; throws Error(kBadInput) naming the nearest one
// The same; besides, a type such as "q4_k" stands for its mixture "M", or the only one.
const Mix& mix_of(std::string_view name);

// Chooses the types of a file's tensors.
class MixPlan {
 public:
  // With `importance` the rules are those for a file that was made with an importance matrix.
  MixPlan(const Mix& mix, const ModelFile& file, bool importance);

  // What the tensor becomes: its own type if it is none to be changed (vectors, norms, routers, small convolutions).
  // Where the chosen type's block does not divide a row, the type that llama.cpp falls back to.
  std::string type_of(const TensorInfo& t) const;
  // Whether a type is too coarse for the tensor without an importance matrix.
  bool needs_importance(const TensorInfo& t, std::string_view type) const;

 private:
  struct Place;
  std::string_view chosen(const TensorInfo& t) const;
  std::string_view of_values(const Place& p) const;
  std::string_view of_down(const Place& p) const;
  std::string_view of_heads() const;
  std::string_view in_grids(const Place& p) const;
  bool is(std::initializer_list<std::string_view> names) const;

  const Mix& mix_;
  bool importance_;
  bool tied_ = true;  // no output.weight
  bool falcon_ = false;
  bool large_ = false;  // of about 70 B parameters
  std::int64_t layers_ = 0, experts_ = 0;
  std::int64_t group_ = 1;            // query heads of a KV head
  std::vector<std::int64_t> values_;  // layers of the tensors that make values of attention, ascending
};

}  // namespace kvasir::weights
