// Adapters of a model in memory (LoRA): what they add to its matrices' products (cpu::Addend), as packed floats. The
// weights stay what they are, so the same packed file serves with and without.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/spec.hpp"
#include "tensor/buffer.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

class Adapters {
 public:
  // Reads the adapters `files`, each FILE or FILE=SCALE, and makes them part of the specification: Linear::addend,
  // ModelSpec::adapters. Without files nothing changes. Throws Error: what weights::open_adapter throws, a matrix that
  // the model does not have or in another shape, one of the embedding or of experts, or weights with columns in an
  // order of their own, unless they are computed `exact`.
  static void attach(ModelSpec& spec, const weights::ModelFile& base, std::span<const std::string> files, bool exact);

  std::int64_t rank() const { return rank_; }  // of the widest addend
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  // Of each in the order of `names`: what it is called, which is its file's or folder's name without extension, and the
  // scale that rows have without one of their own.
  const std::vector<std::string>& names() const { return names_; }
  std::span<const float> scales() const { return scales_; }
  // Scales of all adapters as a request says them: "NAME", "NAME=SCALE" or several with commas, each NAME also a number
  // from 0; those that it leaves out have 0, and so have all with "none". Throws Error(kBadInput).
  std::vector<float> read_scales(const std::string& text) const;
  // Of everything that changes a result but a row's own scales.
  std::uint64_t hash() const { return hash_; }

 private:
  tensor::Buffer memory_;
  std::vector<cpu::Addend> addends_;
  std::vector<std::string> names_;
  std::vector<float> scales_;
  std::int64_t rank_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace kvasir::model
