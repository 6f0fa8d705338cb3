#include "device/forms.hpp"

#include <fmt/format.h>

#include "kv/families/rotated/integer_levels.hpp"
#include "kv/spec.hpp"

namespace kvasir::device {
namespace {

std::string_view name_of(const kv::Codec& codec) {
  for (const auto& e : kv::codecs())
    if (e.value == &codec) return e.name;
  return "?";
}

// The digits behind `prefix`: 0 when the name is another.
int bits_of(std::string_view name, std::string_view prefix, std::string_view suffix = {}) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() != prefix.size() + 1 + suffix.size())
    return 0;
  const int bits = name[prefix.size()] - '0';
  return bits >= 2 && bits <= 8 ? bits : 0;
}

constexpr int kMostDim = 256;

// Four levels in a word, and the list of all.
void add_levels(std::string& text, const char* side, int bits) {
  const kv::IntegerLevels& l = kv::integer_levels(bits);
  const int n = 1 << bits;
  text += fmt::format("#define {}LEVELS ", side);
  for (int i = 0; i < n; ++i) text += fmt::format("{}{}", i ? "," : "", l.values[i]);
  for (int w = 0; w < n / 4; ++w) {
    unsigned word = 0;
    for (int i = 0; i < 4; ++i) word |= static_cast<unsigned>(l.values[4 * w + i]) << 8 * i;
    text += fmt::format("\n#define {}T{} 0x{:08x}u", side, w, word);
  }
  text += "\n";
}

void add_form(std::string& text, const char* side, const Form& f) {
  const bool table = f.layout == Layout::kRotated && f.bits < 8;
  text += fmt::format("#define {0}FORM {1}\n#define {0}B {2}\n#define {0}G {3}\n", side, static_cast<int>(f.layout),
                      f.bits, f.group);
  if (f.layout == Layout::kRotated)
    text += fmt::format("#define {}OFFSET {:.1f}f\n", side, table ? kv::integer_levels(f.bits).offset : 0.0f);
  if (table) add_levels(text, side, f.bits);
  if (f.layout == Layout::kRowScaled || f.layout == Layout::kColumnScaled) {
    const float middle = static_cast<float>((1 << f.bits) - 1) / 2;
    text += fmt::format("#define {0}MIDDLE {1:.1f}f\n#define {0}WHOLE {2:.1f}f\n", side,
                        middle - (f.bits == 8 ? 128.0f : 0.0f), middle + f.shift);
  }
}

}  // namespace

std::optional<Form> form_of(const kv::Codec& codec, const kv::CodecParams& params, kv::Side side, int d) {
  const std::string_view name = name_of(codec);
  const bool keys = side == kv::Side::kKeys;
  if (d <= 0 || d % 16 != 0 || d > kMostDim) return {};
  if (name == "f16") return Form{Layout::kPlain, 16};
  if (name == "bf16") return Form{Layout::kPlain, 17};
  if (name == "f32") return Form{Layout::kPlain, 32};
  if (const int b = bits_of(name, "rq")) return Form{Layout::kRotated, b};
  // Smaller groups and values by channel are the processor's.
  if (const int b = bits_of(name, "int", "_channel"))
    return params.group < 32 || !keys ? std::nullopt : std::optional(Form{Layout::kRowScaled, b, params.group});
  int bits = bits_of(name, "int", "_token");
  if (!bits) bits = bits_of(name, "hqq");
  float shift = 0;
  if (!bits && (bits = bits_of(name, "uniform"))) shift = 0.5f;
  if (!bits || (params.group < 32 && params.group < d)) return {};
  return Form{keys ? Layout::kColumnScaled : Layout::kRowScaled, bits, params.group, shift};
}

std::string name_of(const Shape& s) {
  const std::string k(name_of(*s.k));
  const std::string v(name_of(*s.v));
  return fmt::format("{}, heads of {}", k == v ? k : k + "/" + v,
                     s.d == s.dv ? fmt::format("{}", s.d) : fmt::format("{} and {}", s.d, s.dv));
}

std::string refuse(const Shape& s) {
  for (const auto side : {kv::Side::kKeys, kv::Side::kValues}) {
    const bool keys = side == kv::Side::kKeys;
    const int d = keys ? s.d : s.dv;
    const kv::Codec* const codec = keys ? s.k : s.v;
    if (!codec) return "its values are its keys";
    if (d % 16 != 0 || d > kMostDim) return fmt::format("heads of {} (multiples of 16 up to {} are)", d, kMostDim);
    if (!form_of(*codec, keys ? s.k_params : s.v_params, side, d))
      return fmt::format("no kernel for {} of codec {}", keys ? "keys" : "values", name_of(*codec));
  }
  return {};
}

Constants constants(const Shape& s, bool in_line_ptx) {
  Constants c;
  c.k = *form_of(*s.k, s.k_params, kv::Side::kKeys, s.d);
  c.v = *form_of(*s.v, s.v_params, kv::Side::kValues, s.dv);
  if (c.k.layout == Layout::kColumnScaled) c.query_groups = (s.d + c.k.group - 1) / c.k.group;
  c.matrix_units = in_line_ptx && c.k.layout == Layout::kRotated && c.v.layout == Layout::kRotated;
  c.text = fmt::format("#define D {}\n#define DV {}\n#define NQ {}\n", s.d, s.dv, c.query_groups);
  if (in_line_ptx) c.text += "#define NV\n";
  add_form(c.text, "K", c.k);
  add_form(c.text, "V", c.v);
  if (s.v->v.from_basis) {
    const int n = s.dv & -s.dv;
    const int m = s.dv / n;
    c.turn_floats = s.dv + (m > 1 ? m * m : 0);
    c.text += fmt::format("#define VTURN\n#define TURN_N {}\n#define TURN_M {}\n#define TURN_FLOATS {}\n", n, m,
                          c.turn_floats);
  }
  return c;
}

}  // namespace kvasir::device
