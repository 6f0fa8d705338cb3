// What the kernels know of codecs: how a page of each lies in memory, as the constants of a program.
#pragma once

#include <optional>
#include <string>

#include "kv/codec.hpp"

namespace kvasir::device {

// One layer's pages.
struct Shape {
  const kv::Codec* k = nullptr;
  const kv::Codec* v = nullptr;
  kv::CodecParams k_params;
  kv::CodecParams v_params;
  int d = 0;
  int dv = 0;

  bool operator==(const Shape& o) const {
    return k == o.k && v == o.v && k_params.group == o.k_params.group && v_params.group == o.v_params.group &&
           d == o.d && dv == o.dv;
  }
};

enum class Layout { kRotated, kRowScaled, kColumnScaled, kPlain };

struct Form {
  Layout layout;
  int bits;         // of a code; plain: 16 IEEE halves, 17 bfloat16, 32 floats
  int group = 128;  // that share a scale
  float shift = 0;  // of the grid (kv/families/affine/grid.hpp)
};

// Empty: no kernel folds this codec.
std::optional<Form> form_of(const kv::Codec& codec, const kv::CodecParams& params, kv::Side side, int d);

// Why pages of this shape are folded by the processor; empty: the device can.
std::string refuse(const Shape& shape);

// "rq4/rq3, heads of 128"
std::string name_of(const Shape& shape);

// The #defines before the text. Groups of channels whose queries have scales of their own, and floats of a head's
// rotation, come out besides.
struct Constants {
  std::string text;
  Form k;
  Form v;
  int query_groups = 1;
  int turn_floats = 0;  // 0: values are not turned
  bool matrix_units = false;
};
// REQUIRES: refuse(shape) is empty.
Constants constants(const Shape& shape, bool in_line_ptx);

}  // namespace kvasir::device
