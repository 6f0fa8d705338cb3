// Contract of an entry in model/archs: an architecture is a function that turns a file's hyper-parameters into a
// specification, and what folders of Hugging Face say otherwise. model/blocks.hpp has the parts that many share.
// Tensors have the names that GGUF gives them.
#pragma once

#include <span>
#include <vector>

#include "base/registry.hpp"
#include "hub/family.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

class Hparams;

struct Arch {
  const char* summary;
  // Throws Error for hyper-parameters that are missing or make no model. Tensors are checked afterwards.
  ModelSpec (*describe)(const Hparams& h);
  // Block `block` of the file as a layer, of those that predict further tokens, too (model/mtp_head.hpp). Null: what
  // such blocks of this architecture are is not known.
  LayerSpec (*block)(const Hparams& h, int block) = nullptr;
  // How folders of Hugging Face say it; empty: none are read. The first one's names are those of adapters, too.
  std::vector<hub::Family> hub = {};
  // Models of that architecture, whose cache it reads: it drafts for them and runs by no other way
  // (model/assistant.hpp). Empty: it is a model itself.
  std::string_view drafts_for = {};
};

std::span<const Entry<Arch>> archs();

}  // namespace kvasir::model
