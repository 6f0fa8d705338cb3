#include "model/gemma4_blocks.hpp"

#include <cmath>

namespace kvasir::model {
namespace {

constexpr auto kGemma4Pairs = kernel::RopePairs::kSplitHalf;
constexpr int kGemma4MostHead = 4096;

}  // namespace

Attention gemma4_heads(const Names& n) {
  const Hparams& h = n.h();
  const int l = n.layer();
  Attention a;
  a.window = h.window(l, 0);
  const bool local = a.window > 0;
  a.heads = h.heads(l);
  a.kv_heads = h.kv_heads(l);
  const auto size = [&](const std::string& key) {
    const std::int64_t d = h.integer(local ? key + "_swa" : key, 8, kGemma4MostHead);
    if (d % 8 != 0) h.unsupported(key, "is no multiple of 8");
    return static_cast<int>(d);
  };
  a.d = size("attention.key_length");
  a.dv = size("attention.value_length");
  a.scale = 1.0f;
  a.rope = local ? 1 : 0;
  a.q_norm = n.rms("attn_q_norm", a.d);
  a.o = n.linear("attn_output", h.dim(), std::int64_t{a.heads} * a.dv);
  return a;
}

std::vector<Rope> gemma4_ropes(const Hparams& h) {
  Rope local{kGemma4Pairs, {}, 1.0f, {}};
  const std::int64_t n =
      h.integer("rope.dimension_count_swa", 2, h.integer("attention.key_length_swa", 8, kGemma4MostHead));
  const double base = h.number_or("rope.freq_base_swa", 10000.0);
  for (std::int64_t i = 0; i < n / 2; ++i)
    local.frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(n)));
  return {h.rope(kGemma4Pairs, static_cast<int>(h.integer("attention.key_length", 8, kGemma4MostHead))), local};
}

}  // namespace kvasir::model
