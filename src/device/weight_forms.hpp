// What the kernels of products know of weights: how panels of each type lie in memory (kernel/int_planes.hpp), as the
// constants of a program.
#pragma once

#include <string>

#include "weights/quant.hpp"

namespace kvasir::device {

// How a block's scales lie in a panel's head: the file of weights/quants or weights/families that has load_head.
enum class Head { kHalf, kK, kSigned, kQ2K, kIq4Xs, kE8M0, kE4M3, kAffine, kZeroPoint };

struct WeightForm {
  const char* name;           // of the entry in weights/quants
  int bits;                   // of a code
  int zero;                   // what is multiplied is the code less this ...
  const signed char* levels;  // ... or its entry in this table of 16; null: the former
  int block;
  int scales;  // of 32 elements: 1 or 2
  bool minimum;
  Head head;
  int head_bytes;       // of a block
  bool factor = false;  // a panel has one for all of its rows
};

// Every type that has kernels: those whose products are integer sums of 32, or of twice 16, with a float step each.
std::span<const WeightForm> weight_forms();
// null: products with panels of this format are the processor's.
const WeightForm* form_of(const kernel::PanelFormat& format);
// The entry of weights/quants. REQUIRES: one of weight_forms().
const weights::Quant& quant_of(const WeightForm& form);

// The #defines before the text.
std::string constants(const WeightForm& form);

}  // namespace kvasir::device
