// Contract of an entry in model/archs: an architecture is a function that turns a file's hyper-parameters into a
// specification. model/blocks.hpp has the parts that many share. Tensors have the names that GGUF gives them.
#pragma once

#include <span>
#include <string_view>

#include "base/registry.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

class Hparams;

struct Arch {
  const char* summary;
  // Throws Error for hyper-parameters that are missing or make no model. Tensors are checked afterwards.
  ModelSpec (*describe)(const Hparams& h);
};

std::span<const Entry<Arch>> archs();
// The entry of a file's general.architecture. An entry's name is an identifier: command-r is command_r.
const Arch* find_arch(std::string_view architecture);

}  // namespace kvasir::model
