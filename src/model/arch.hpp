// Contract of an entry in model/archs: an architecture as a table. No code is written per architecture; what differs is
// which tensors there are and a few flags.
#pragma once

#include <cstdint>
#include <span>

#include "base/registry.hpp"
#include "kernel/ops.hpp"

namespace kvasir::model {

// What a tensor is for. Layer roles stand once per layer ("blk.N." before the name).
enum class Role {
  kTokenEmbd,
  kOutputNorm,
  kOutput,
  kRopeFreqs,
  kAttnNorm,
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnQBias,
  kAttnKBias,
  kAttnVBias,
  kAttnQNorm,
  kAttnKNorm,
  kAttnOutput,
  kFfnNorm,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kCount,
};

// A dimension by name, resolved from the file's metadata.
enum class Dim {
  kOne,
  kModel,
  kVocab,
  kQuery /* H d */,
  kKey /* KV d */,
  kValue /* KV dv */,
  kOut /* H dv */,
  kHead /* d */,
  kFfn,
  kPairs /* n_rot / 2 */
};

enum class Presence { kRequired, kOptional };

struct TensorRule {
  Role role;
  const char* name;  // without "blk.N."
  Dim rows, columns;
  Presence presence;
  bool per_layer;
};

struct Arch {
  const char* summary;
  kernel::RopePairs rope;
  std::span<const TensorRule> tensors;
};

std::span<const Entry<Arch>> archs();

// The tables are made of these; shapes are rows x columns.
#define KVASIR_TENSOR(role, name, rows, columns) \
  TensorRule { Role::role, name, Dim::rows, Dim::columns, Presence::kRequired, false }
#define KVASIR_TENSOR_OPT(role, name, rows, columns) \
  TensorRule { Role::role, name, Dim::rows, Dim::columns, Presence::kOptional, false }
#define KVASIR_LAYER(role, name, rows, columns) \
  TensorRule { Role::role, name, Dim::rows, Dim::columns, Presence::kRequired, true }
#define KVASIR_LAYER_OPT(role, name, rows, columns) \
  TensorRule { Role::role, name, Dim::rows, Dim::columns, Presence::kOptional, true }

}  // namespace kvasir::model
