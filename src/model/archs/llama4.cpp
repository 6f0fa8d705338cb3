// Llama 4: three layers whose windows stand side by side and have RoPE, then one that sees everything, without
// positions and with queries that grow; layers with experts, which read what their weight multiplies, and a shared one.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_llama4 {
namespace {

constexpr std::int64_t kChunk = 8192;

Attention mixer(const Names& n, bool norms) {
  const Hparams& h = n.h();
  Attention a = attention(n);
  if ((n.layer() + 1) % 4 == 0) {
    a.rope = -1;
    a.temperature = {static_cast<float>(h.number_or("attention.temperature_scale", 0.1)), 1,
                     h.integer_or("attention.temperature_length", 1, std::int64_t{1} << 30, kChunk)};
    return a;
  }
  a.window = h.integer_or("attention.sliding_window", 1, std::int64_t{1} << 30, kChunk);
  a.chunked = true;
  if (norms) {
    a.q_norm = a.k_norm = {.kind = NormKind::kRms, .width = a.d, .eps = h.rms_eps()};
    a.norm_after_rope = true;
  }
  return a;
}

ModelSpec describe(const Hparams& h) {
  const std::int64_t step = h.integer_or("interleave_moe_layer_step", 1, 1 << 24, 1);
  const bool norms = h.integer_or("expert_count", 0, 1 << 16, 0) != 128;  // Maverick has none
  return layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    LayerSpec layer{.norm = n.rms("attn_norm"), .mixer = mixer(n, norms), .feed_norm = n.rms("ffn_norm")};
    if (has_experts(h) && (n.layer() + 1) % step == 0) {
      const std::int64_t width = expert_width(h, h.ffn(n.layer()));
      Experts e = experts(n, width);
      e.routing.gating = Gating::kSigmoid;
      e.routing.normalise = false;
      e.weigh_inputs = true;
      e.shared = shared_expert(n, h.integer_or("expert_shared_feed_forward_length", 1, 1 << 24, width));
      layer.feed = e;
    } else {
      layer.feed = gated(n, Activation::kSilu);
    }
    return layer;
  });
}

}  // namespace

constexpr hub::Rename kNames[] = {{"feed_forward.gate_proj", "ffn_gate"},
                                  {"feed_forward.up_proj", "ffn_up"},
                                  {"feed_forward.down_proj", "ffn_down"},
                                  {"feed_forward.router", "ffn_gate_inp"},
                                  {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight", hub::Make::kTurned},
                                  {"feed_forward.experts.down_proj", "ffn_down_exps.weight", hub::Make::kTurned},
                                  {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                                  {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                                  {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"}};

const Arch entry{.summary = "Llama 4 (text)",
                 .describe = describe,
                 .hub = {{.types = {"llama4", "llama4_text"}, .names = kNames, .read = hub::read_llama4}}};

}  // namespace kvasir::model::archs_llama4
