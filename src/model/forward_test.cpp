// Every option of a specification against its meaning in float64 (model/reference_fixture.hpp), and law 1 for the
// options that the built-in architectures do not use.
#include "model/forward.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/error.hpp"
#include "model/cache_shape.hpp"
#include "model/reference_fixture.hpp"
#include "simd/emulated_amx_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::model {
namespace {

using testing::RandomFile;
using testing::Reference;

constexpr std::int64_t kDim = 64, kVocab = 96, kFfn = 160;
constexpr int kHeads = 4, kKvHeads = 2, kHead = 16, kHeadV = 24, kLayers = 3;

std::string in_layer(int layer, const std::string& name) { return "blk." + std::to_string(layer) + "." + name; }
Linear linear(const std::string& name, std::int64_t rows, std::int64_t columns) {
  return {name + ".weight", rows, columns};
}
Norm norm(NormKind kind, const std::string& name, std::int64_t width) {
  return {.kind = kind, .width = width, .eps = 0.01f, .weight = {name + ".weight", width}};
}
Rope rope(int pairs, double base) {
  Rope r{kernel::RopePairs::kSplitHalf, {}, 1.0f, {}};
  for (int i = 0; i < pairs; ++i) r.frequencies.push_back(std::pow(base, -static_cast<double>(i) / pairs));
  return r;
}

LayerSpec plain_layer(int l) {
  Attention a{.heads = kHeads, .kv_heads = kKvHeads, .d = kHead, .dv = kHeadV, .scale = 0.3f};
  a.q = linear(in_layer(l, "attn_q"), kHeads * kHead, kDim);
  a.k = linear(in_layer(l, "attn_k"), kKvHeads * kHead, kDim);
  a.v = linear(in_layer(l, "attn_v"), kKvHeads * kHeadV, kDim);
  a.o = linear(in_layer(l, "attn_output"), kDim, kHeads * kHeadV);
  Dense f{.gate = linear(in_layer(l, "ffn_gate"), kFfn, kDim),
          .up = linear(in_layer(l, "ffn_up"), kFfn, kDim),
          .down = linear(in_layer(l, "ffn_down"), kDim, kFfn)};
  return {.norm = norm(NormKind::kRms, in_layer(l, "attn_norm"), kDim),
          .mixer = a,
          .feed_norm = norm(NormKind::kRms, in_layer(l, "ffn_norm"), kDim),
          .feed = f};
}

ModelSpec plain_model() {
  ModelSpec m{.arch = "test", .dim = kDim, .vocab = kVocab, .context = 512};
  m.embedding.tokens = {"token_embd.weight", kVocab, kDim};
  m.ropes = {rope(kHead / 2, 100.0)};
  for (int l = 0; l < kLayers; ++l) m.layers.push_back(plain_layer(l));
  m.head = {.norm = norm(NormKind::kRms, "output_norm", kDim), .output = linear("output", kVocab, kDim)};
  return m;
}

Attention& mixer(LayerSpec& layer) { return std::get<Attention>(layer.mixer); }
Dense& feed(LayerSpec& layer) { return std::get<Dense>(layer.feed); }
void biased(Linear& l) { l.bias = {l.name.substr(0, l.name.rfind('.')) + ".bias", l.rows}; }
Linear part(const Linear& whole, std::int64_t first, std::int64_t rows) {
  Linear l = whole;
  l.rows = rows;
  l.cut = {.first = first, .of = whole.rows};
  if (l.bias) l.bias = {whole.bias.name, rows, l.cut};
  return l;
}
void each(ModelSpec& m, const std::function<void(LayerSpec&, int)>& f) {
  for (int l = 0; l < m.layer_count(); ++l) f(m.layers[static_cast<std::size_t>(l)], l);
}

// What changes a plain model, by name. Any of them can be had together.
struct Option {
  const char* name;
  void (*set)(ModelSpec& m);
};
const Option kOptions[] = {
    {"Plain", [](ModelSpec&) {}},
    {"Tied", [](ModelSpec& m) { m.head.output.name = m.embedding.tokens.name; }},
    {"EveryBias",
     [](ModelSpec& m) {
       for_each<Linear>(m, [](Linear& l) {
         if (l.name != "token_embd.weight") biased(l);
       });
     }},
    {"LayerNorm",
     [](ModelSpec& m) {
       for_each<Norm>(m, [](Norm& n) {
         n.kind = NormKind::kLayer;
         n.bias = {n.weight.name.substr(0, n.weight.name.rfind('.')) + ".bias", n.weight.columns};
       });
     }},
    {"LayerNormWithoutBias", [](ModelSpec& m) { for_each<Norm>(m, [](Norm& n) { n.kind = NormKind::kLayer; }); }},
    {"NormWithoutWeight", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { l.norm.weight = {}; }); }},
    {"EmbeddingNorm",
     [](ModelSpec& m) {
       m.embedding.scale = 3.5f;
       m.embedding.norm = norm(NormKind::kRms, "token_embd_norm", kDim);
     }},
    {"LearnedPositions",
     [](ModelSpec& m) {
       m.embedding.positions = {"position_embd.weight", 300, kDim};
       each(m, [](LayerSpec& l, int) { mixer(l).rope = -1; });
       m.ropes = {};
     }},
    {"GeluTanh", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { feed(l).activation = Activation::kGeluTanh; }); }},
    {"GeluErf", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { feed(l).activation = Activation::kGeluErf; }); }},
    {"Relu", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { feed(l).activation = Activation::kRelu; }); }},
    {"SquaredRelu", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { feed(l).activation = Activation::kRelu2; }); }},
    {"NoGate", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { feed(l).gate = {}; }); }},
    {"GeluWithoutGate",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int) {
         feed(l).gate = {};
         feed(l).activation = Activation::kGeluTanh;
         biased(feed(l).up);
       });
     }},
    {"PostNorms",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         l.post_mixer = norm(NormKind::kRms, in_layer(i, "post_attention_norm"), kDim);
         l.post_feed = norm(NormKind::kRms, in_layer(i, "post_ffw_norm"), kDim);
       });
     }},
    {"PostNormsAlone",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         l.norm = l.feed_norm = {};
         l.post_mixer = norm(NormKind::kRms, in_layer(i, "post_attention_norm"), kDim);
         l.post_feed = norm(NormKind::kRms, in_layer(i, "post_ffw_norm"), kDim);
       });
     }},
    {"Parallel", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { l.parallel = true; }); }},
    {"ParallelOfOneNorm",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int) {
         l.parallel = true;
         l.feed_norm = l.norm;
       });
     }},
    {"Scales",
     [](ModelSpec& m) {
       m.embedding.scale = 8.0f;
       m.head.scale = 0.125f;
       each(m, [](LayerSpec& l, int) {
         l.residual_scale = 0.22f;
         mixer(l).scale = 0.06f;
       });
     }},
    {"OutputScale",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) { l.output_scale = {in_layer(i, "layer_output_scale.weight"), 1}; });
     }},
    {"LogitSoftCap", [](ModelSpec& m) { m.head.soft_cap = 1.5f; }},
    {"HeadNorms",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         mixer(l).q_norm = norm(NormKind::kRms, in_layer(i, "attn_q_norm"), kHead);
         mixer(l).k_norm = norm(NormKind::kRms, in_layer(i, "attn_k_norm"), kHead);
       });
     }},
    {"HeadNormsOfTheirOwn",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         Attention& a = mixer(l);
         a.q_norm = norm(NormKind::kLayer, in_layer(i, "attn_q_norm"), kHead);
         a.k_norm = norm(NormKind::kLayer, in_layer(i, "attn_k_norm"), kHead);
         a.q_norm.weight.rows = kHeads;
         a.k_norm.weight.rows = kKvHeads;
       });
     }},
    {"WholeRowNorms",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         mixer(l).q_norm = norm(NormKind::kRms, in_layer(i, "attn_q_norm"), mixer(l).q.rows);
         mixer(l).k_norm = norm(NormKind::kRms, in_layer(i, "attn_k_norm"), mixer(l).k.rows);
       });
     }},
    {"NormsAfterRope",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         mixer(l).q_norm = norm(NormKind::kRms, in_layer(i, "attn_q_norm"), kHead);
         mixer(l).k_norm = norm(NormKind::kRms, in_layer(i, "attn_k_norm"), kHead);
         mixer(l).norm_after_rope = true;
       });
     }},
    {"ClampedQkv",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int) {
         mixer(l).clamp = 0.4f;
         biased(mixer(l).v);
       });
     }},
    {"Temperature", [](ModelSpec& m) { each(m, [](LayerSpec& l, int i) {
                                         mixer(l).temperature = {0.7f, i, 3};
                                       }); }},
    {"Gates",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         mixer(l).gate = linear(in_layer(i, "attn_gate"), i == 1 ? kHeads : kHeads * kHeadV, kDim);
         if (i < 2) biased(mixer(l).gate);
       });
     }},
    {"TwoRopes",
     [](ModelSpec& m) {
       m.ropes = {rope(kHead / 2, 100.0), rope(kHead / 2, 7.0)};
       m.ropes[1].pairs = kernel::RopePairs::kAdjacent;
       m.ropes[1].magnitude = 1.25f;
       each(m, [](LayerSpec& l, int i) { mixer(l).rope = i == 1 ? 1 : 0; });
     }},
    {"PartialRopeAndNone",
     [](ModelSpec& m) {
       m.ropes = {rope(kHead / 4, 50.0)};
       mixer(m.layers[1]).rope = -1;
     }},
    {"FusedQkv",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         Attention& a = mixer(l);
         Linear all = linear(in_layer(i, "attn_qkv"), a.q.rows + a.k.rows + a.v.rows, kDim);
         biased(all);
         a.v = part(all, a.q.rows + a.k.rows, a.v.rows);
         a.k = part(all, a.q.rows, a.k.rows);
         a.q = part(all, 0, a.q.rows);
       });
     }},
    {"FusedGateAndUp",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         const Linear all = linear(in_layer(i, "ffn_up"), 2 * kFfn, kDim);
         feed(l).gate = part(all, 0, kFfn);
         feed(l).up = part(all, kFfn, kFfn);
       });
     }},
    {"FeedsOfSeveralWidths",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         for (Linear* x : {&feed(l).gate, &feed(l).up}) x->rows = 32 + 32 * i;
         feed(l).down.columns = 32 + 32 * i;
       });
     }},
};

// What takes a cache with classes of layers.
const Option kClassOptions[] = {
    {"LocalLayers", [](ModelSpec& m) { mixer(m.layers[0]).window = mixer(m.layers[2]).window = 5; }},
    {"ChunkedLayers",
     [](ModelSpec& m) {
       mixer(m.layers[0]).window = mixer(m.layers[2]).window = 5;
       mixer(m.layers[0]).chunked = mixer(m.layers[2]).chunked = true;
     }},
    {"CappedScores", [](ModelSpec& m) { each(m, [](LayerSpec& l, int) { mixer(l).soft_cap = 0.5f; }); }},
    {"LinearBiases",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int) {
         mixer(l).rope = -1;
         mixer(l).slopes = {0.5f, 0.25f, 0.125f, 1.0f};
       });
       m.ropes = {};
     }},
    {"LinearBiasesOfLocalLayers",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         mixer(l).slopes = {0.5f, 0.25f, 0.125f, 1.0f};
         mixer(l).window = i == 1 ? 0 : 5;
         mixer(l).soft_cap = 2.0f;
       });
     }},
    {"Sinks",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         mixer(l).sinks = {in_layer(i, "attn_sinks.weight"), kHeads};
         mixer(l).window = i == 1 ? 5 : 0;
       });
     }},
    {"KeysAndValuesOfAnEarlierLayer",
     [](ModelSpec& m) {
       mixer(m.layers[2]).k = mixer(m.layers[2]).v = {};
       mixer(m.layers[2]).k_norm = {};
       mixer(m.layers[2]).kv_of = 0;
     }},
    {"ValuesOfKeysAndNormed",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         Attention& a = mixer(l);
         a.v_norm = norm(NormKind::kRms, in_layer(i, "attn_v_norm"), kHeadV);
         if (i == 1) return;
         a.v = {};
         a.v_of_k = true;
         a.k_norm = norm(NormKind::kRms, in_layer(i, "attn_k_norm"), kHead);
         a.dv = kHead;
         a.v_norm = {.kind = NormKind::kRms, .width = kHead, .eps = 1e-6f};
         a.o.columns = std::int64_t{a.heads} * kHead;
       });
     }},
    {"LayersOfSeveralShapes",
     [](ModelSpec& m) {
       Attention& a = mixer(m.layers[1]);
       a.kv_heads = 4;
       a.k.rows = 4 * kHead;
       a.v.rows = 4 * kHeadV;
     }},
};

constexpr int kExperts = 7, kUsed = 3, kWidth = 64;

Stack stack(const std::string& name, std::int64_t rows, std::int64_t columns) {
  return {.name = name + ".weight", .count = kExperts, .rows = rows, .columns = columns};
}
void biased(Stack& s) {
  s.bias = {.name = s.name.substr(0, s.name.rfind('.')) + ".bias", .columns = s.rows, .rows = s.count};
}
Experts experts_of(int l) {
  return {.routing = {.count = kExperts, .used = kUsed, .normalise = true},
          .router = {.name = in_layer(l, "ffn_gate_inp.weight"), .rows = kExperts, .columns = kDim, .in_floats = true},
          .gate = stack(in_layer(l, "ffn_gate_exps"), kWidth, kDim),
          .up = stack(in_layer(l, "ffn_up_exps"), kWidth, kDim),
          .down = stack(in_layer(l, "ffn_down_exps"), kDim, kWidth)};
}
void with_experts(ModelSpec& m, const std::function<void(Experts&, int)>& f) {
  each(m, [&](LayerSpec& l, int i) {
    Experts e = experts_of(i);
    f(e, i);
    l.feed = e;
  });
}
void shared(Experts& e, int l) {
  e.shared = {.gate = linear(in_layer(l, "ffn_gate_shexp"), kFfn, kDim),
              .up = linear(in_layer(l, "ffn_up_shexp"), kFfn, kDim),
              .down = linear(in_layer(l, "ffn_down_shexp"), kDim, kFfn)};
}

const Option kExpertOptions[] = {
    {"Experts", [](ModelSpec& m) { with_experts(m, [](Experts&, int) {}); }},
    {"ExpertsWithWeightsAsTheyAre",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int) {
         e.routing.normalise = false;
         e.routing.scale = 2.5f;
       });
     }},
    {"ExpertsOfWeighedInputs",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int l) {
         e.routing.gating = Gating::kSigmoid;
         e.routing.normalise = false;
         e.weigh_inputs = true;
         if (l == 1) shared(e, l);
         if (l == 2) biased(e.up), biased(e.down);
       });
     }},
    {"ExpertsBesideADenseFeed",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         const auto post = [&](const char* name) { return norm(NormKind::kRms, in_layer(i, name), kDim); };
         DenseAndExperts both{.dense = feed(l), .experts = experts_of(i), .experts_norm = post("pre_ffw_norm_2")};
         if (i > 0) both.dense_post = post("post_ffw_norm_1"), both.experts_post = post("post_ffw_norm_2");
         if (i == 1) both.experts.router_norm = post("ffn_router_norm");
         if (i == 2) shared(both.experts, i), biased(both.dense.down);
         both.experts.router_scale = 0.5f;
         both.experts.weight_scales = {in_layer(i, "ffn_down_exps.weights"), kExperts};
         l.feed = both;
       });
     }},
    {"ExpertsBySigmoidAndBias",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int l) {
         e.routing.gating = Gating::kSigmoid;
         e.choice_bias = {in_layer(l, "exp_probs_b.bias"), kExperts};
       });
     }},
    {"ExpertsBySoftmaxAndBias",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int l) { e.choice_bias = {in_layer(l, "exp_probs_b.bias"), kExperts}; });
     }},
    {"ExpertsWithEveryBias",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int) {
         e.routing.gating = Gating::kSoftmaxOfChosen;
         e.activation = Activation::kClampedSilu;
         biased(e.router);
         for (Stack* s : {&e.gate, &e.up, &e.down}) biased(*s);
       });
     }},
    {"ExpertsWithCappedGates",
     [](ModelSpec& m) { with_experts(m, [](Experts& e, int) { e.activation = Activation::kCappedSilu; }); }},
    {"ExpertsBesideASharedOne", [](ModelSpec& m) { with_experts(m, shared); }},
    {"ExpertsBesideAGatedSharedOne",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int l) {
         shared(e, l);
         biased(e.shared.down);
         e.shared_gate = linear(in_layer(l, "ffn_gate_inp_shexp"), 1, kDim);
         e.shared_gate.in_floats = true;
       });
     }},
    {"ExpertsWithoutGate",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int) {
         e.gate = {};
         e.activation = Activation::kRelu2;
       });
     }},
    {"ExpertsWithFusedGateAndUp",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int l) {
         e.gate = e.up = stack(in_layer(l, "ffn_gate_up_exps"), kWidth, kDim);
         e.gate.cut = {.of = 2 * kWidth};
         e.up.cut = {.first = kWidth, .of = 2 * kWidth};
       });
     }},
    {"ParallelExperts",
     [](ModelSpec& m) {
       with_experts(m, [](Experts& e, int l) { shared(e, l); });
       each(m, [](LayerSpec& l, int i) {
         l.parallel = true;
         l.feed_norm = l.norm;
         l.post_mixer = norm(NormKind::kRms, in_layer(i, "post_attention_norm"), kDim);
         l.residual_scale = 0.5f;
       });
     }},
    {"ExpertsInSomeLayers",
     [](ModelSpec& m) {
       m.layers[1].feed = experts_of(1);
       Experts e = experts_of(2);  // other sizes
       e.routing.used = 1;
       e.gate.rows = e.up.rows = e.down.columns = 96;
       m.layers[2].feed = e;
       m.layers[2].feed_norm = {};
       m.layers[2].post_feed = norm(NormKind::kRms, in_layer(2, "post_ffw_norm"), kDim);
       m.layers[2].residual_scale = 0.5f;
     }},
};

// Layers with a state.
Convolution convolution(const std::string& name, std::int64_t channels, int taps, bool bias) {
  Convolution c{.channels = channels, .taps = taps};
  c.weight = {.name = name + ".weight", .columns = taps, .rows = channels, .transposed = true};
  if (bias) c.bias = {name + ".bias", channels};
  return c;
}
ShortConv short_conv(int l) {
  return {.b = part(linear(in_layer(l, "in_proj"), 3 * kDim, kDim), 0, kDim),
          .c = part(linear(in_layer(l, "in_proj"), 3 * kDim, kDim), kDim, kDim),
          .u = part(linear(in_layer(l, "in_proj"), 3 * kDim, kDim), 2 * kDim, kDim),
          .convolution = convolution(in_layer(l, "conv"), kDim, 3, false),
          .o = linear(in_layer(l, "out_proj"), kDim, kDim)};
}
Delta delta(int l, bool tiled, bool fused) {
  constexpr int kGroups = 2, kStates = 4, kD = 16, kDv = 24;
  constexpr std::int64_t kChannels = 2 * kGroups * kD + kStates * kDv, kValues = kStates * kDv;
  Delta d{.key_heads = kGroups, .value_heads = kStates, .d = kD, .dv = kDv, .tiled = tiled, .eps = 1e-6f};
  if (fused) {
    d.qkvz = linear(in_layer(l, "ssm_in"), kChannels + kValues, kDim);
    d.ba = linear(in_layer(l, "ssm_ba"), 2 * kStates, kDim);
  } else {
    d.qkv = linear(in_layer(l, "attn_qkv"), kChannels, kDim);
    d.z = linear(in_layer(l, "attn_gate"), kValues, kDim);
    d.beta = linear(in_layer(l, "ssm_beta"), kStates, kDim);
    d.alpha = linear(in_layer(l, "ssm_alpha"), kStates, kDim);
  }
  d.ba.in_floats = d.beta.in_floats = d.alpha.in_floats = true;
  d.convolution = convolution(in_layer(l, "ssm_conv1d"), kChannels, 4, false);
  d.dt = {in_layer(l, "ssm_dt.bias"), kStates};
  d.decay = {in_layer(l, "ssm_a"), kStates};
  d.norm = norm(NormKind::kRms, in_layer(l, "ssm_norm"), kDv);
  d.o = linear(in_layer(l, "ssm_out"), kDim, kValues);
  return d;
}
Mamba2 mamba2(int l, bool normed) {
  constexpr int kGroups = 2, kStates = 4, kN = 16, kP = 24;
  constexpr std::int64_t kValues = kStates * kP, kChannels = kValues + 2 * kGroups * kN;
  const Linear all = linear(in_layer(l, "ssm_in"), kValues + kChannels + kStates, kDim);
  Mamba2 m{.heads = kStates, .groups = kGroups, .head_dim = kP, .state = kN};
  m.z = part(all, 0, kValues);
  m.x = part(all, kValues, kChannels);
  m.dt = part(all, kValues + kChannels, kStates);
  m.dt.in_floats = true;
  m.convolution = convolution(in_layer(l, "ssm_conv1d"), kChannels, 4, true);
  m.bias = {in_layer(l, "ssm_dt.bias"), kStates};
  m.decay = {.name = in_layer(l, "ssm_a"), .columns = 1, .rows = kStates};
  m.skip = {.name = in_layer(l, "ssm_d"), .columns = 1, .rows = kStates};
  if (normed) {
    m.norm = norm(NormKind::kRms, in_layer(l, "ssm_norm"), kValues / kGroups);
    m.norm.weight.rows = kGroups;
  }
  m.o = linear(in_layer(l, "ssm_out"), kDim, kValues);
  return m;
}

KeyedDelta keyed_delta(int l, bool low, float floor) {
  constexpr int kStates = 4, kD = 16, kDv = 24, kLow = 32;
  const auto named = [&](const char* name) { return in_layer(l, name); };
  KeyedDelta d{.heads = kStates, .d = kD, .dv = kDv, .eps = 1e-6f, .floor = floor};
  if (low) {
    d.q = linear(named("attn_q"), kStates * kD, kDim);
    d.k = linear(named("attn_k"), kStates * kD, kDim);
    d.v = linear(named("attn_v"), kStates * kDv, kDim);
    d.a_down = linear(named("ssm_f_a"), kLow, kDim);
    d.z_down = linear(named("ssm_g_a"), kLow, kDim);
  } else {
    d.qkv = linear(named("attn_qkv"), kStates * (2 * kD + kDv), kDim);
  }
  d.a = linear(named("ssm_f_b"), kStates * kD, low ? kLow : kDim);
  d.z = linear(named("ssm_g_b"), kStates * kDv, low ? kLow : kDim);
  d.beta = linear(named("ssm_beta"), kStates, kDim);
  d.beta.in_floats = true;
  d.q_convolution = convolution(named("ssm_conv1d_q"), kStates * kD, 4, false);
  d.k_convolution = convolution(named("ssm_conv1d_k"), kStates * kD, 4, false);
  d.v_convolution = convolution(named("ssm_conv1d_v"), kStates * kDv, 4, false);
  d.dt = {named("ssm_dt.bias"), kStates * kD};
  d.decay = {named("ssm_a"), kStates};
  d.norm = norm(NormKind::kRms, named("ssm_norm"), kDv);
  d.o = linear(named("attn_output"), kDim, kStates * kDv);
  return d;
}
Mamba mamba(int l, bool normed) {
  constexpr int kChannels = 96, kState = 16, kRank = 32;
  const auto named = [&](const char* name) { return in_layer(l, name); };
  const Linear in = linear(named("ssm_in"), 2 * kChannels, kDim);
  const Linear made = linear(named("ssm_x"), kRank + 2 * kState, kChannels);
  Mamba m{.channels = kChannels, .state = kState, .z = part(in, kChannels, kChannels), .x = part(in, 0, kChannels)};
  m.convolution = convolution(named("ssm_conv1d"), kChannels, 4, normed);
  m.t = part(made, 0, kRank);
  m.k = part(made, kRank, kState);
  m.q = part(made, kRank + kState, kState);
  m.dt = linear(named("ssm_dt"), kChannels, kRank);
  biased(m.dt);
  m.t.in_floats = m.k.in_floats = m.q.in_floats = m.dt.in_floats = true;
  if (normed) {
    m.t_norm = norm(NormKind::kRms, named("ssm_dt_norm"), kRank);
    m.k_norm = norm(NormKind::kRms, named("ssm_b_norm"), kState);
    m.q_norm = {NormKind::kRms, kState, 1e-6f};
  }
  m.decay = {.name = named("ssm_a"), .columns = kState, .rows = kChannels, .transposed = true};
  m.skip = {named("ssm_d"), kChannels};
  m.o = linear(named("ssm_out"), kDim, kChannels);
  return m;
}

const Option kStateOptions[] = {
    {"KeyedDelta",
     [](ModelSpec& m) { m.layers[0].mixer = keyed_delta(0, true, 0), m.layers[2].mixer = keyed_delta(2, false, -5); }},
    {"Mamba", [](ModelSpec& m) { m.layers[0].mixer = mamba(0, true), m.layers[2].mixer = mamba(2, false); }},
    {"ShortConvolutions", [](ModelSpec& m) { m.layers[0].mixer = short_conv(0), m.layers[2].mixer = short_conv(2); }},
    {"GatedDelta",
     [](ModelSpec& m) { m.layers[0].mixer = delta(0, true, false), m.layers[1].mixer = delta(1, false, false); }},
    {"GatedDeltaByKeyHead", [](ModelSpec& m) { m.layers[1].mixer = delta(1, false, true); }},
    {"Mamba2", [](ModelSpec& m) { m.layers[0].mixer = mamba2(0, true), m.layers[2].mixer = mamba2(2, false); }},
    {"Mamba2BesideAttention",
     [](ModelSpec& m) { m.layers[0].beside = mamba2(0, true), m.layers[2].beside = mamba2(2, false); }},
    {"MixersAndFeedsAlone",
     [](ModelSpec& m) {
       m.layers[0].mixer = mamba2(0, true);
       m.layers[0].feed = NoFeed{};
       m.layers[1].mixer = NoMixer{};
       m.layers[1].norm = {};
       m.layers[2].feed = NoFeed{};
       m.layers[2].residual_scale = 0.5f;
     }},
    {"NoAttention",
     [](ModelSpec& m) {
       m.layers[0].mixer = delta(0, true, false);
       m.layers[1].mixer = short_conv(1);
       m.layers[2].mixer = mamba2(2, true);
       m.ropes = {};
     }},
    {"RowsOfHalvesByTurns",
     [](ModelSpec& m) {
       m.ropes = {rope(kHead / 4, 100.0)};
       each(m, [](LayerSpec& l, int i) {
         Attention& a = mixer(l);
         if (i == 1) {
           Linear all = linear(in_layer(i, "attn_qk"), a.q.rows + a.k.rows, kDim);
           biased(all);
           a.q = part(all, 0, a.q.rows);
           a.k = part(all, a.q.rows, a.k.rows);
         } else {
           biased(a.q), biased(a.k);
         }
         for (Linear* h : {&a.q, &a.k}) h->cut.turns = h->bias.cut.turns = kHead;
       });
     }},
    {"InterleavedQueriesAndGates",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int i) {
         Attention& a = mixer(l);
         a.dv = kHead;
         a.v.rows = kKvHeads * kHead;
         a.o.columns = kHeads * kHead;
         a.q.cut = {.of = 2 * kHeads * kHead, .run = kHead, .step = 2 * kHead};
         a.gate = a.q;
         a.gate.cut.first = kHead;
         static_cast<void>(i);
       });
     }},
};

// Three layers twice, and what they may begin and end with.
void repeat(ModelSpec& m) {
  const int once = m.layer_count();
  for (int l = 0; l < once; ++l) {
    m.layers.push_back(m.layers[static_cast<std::size_t>(l)]);
    m.layers.back().weights_of = l;
  }
}

const Option kPassOptions[] = {
    {"Passes",
     [](ModelSpec& m) {
       repeat(m);
       m.layers[2].end_norm = m.head.norm;
     }},
    {"PassesOfStatesAndExperts",
     [](ModelSpec& m) {
       m.layers[0].mixer = mamba(0, true);
       m.layers[1].mixer = delta(1, false, false);
       m.layers[2].mixer = keyed_delta(2, true, 0);
       repeat(m);
     }},
    {"PassesOfTurnedRows",
     [](ModelSpec& m) {
       each(m, [](LayerSpec& l, int) {
         Attention& a = mixer(l);
         biased(a.q), biased(a.k);
         for (Linear* h : {&a.q, &a.k}) h->cut.turns = h->bias.cut.turns = kHead;
       });
       repeat(m);
     }},
    {"TwoStreams",
     [](ModelSpec& m) {
       m.embedding.second = {"second", kDim};
       m.layers[0].second = m.layers[2].second = Second::kSwapped;
       m.layers[1].second = Second::kAdded;
       m.layers[1].end_norm = m.layers[2].end_norm = {NormKind::kRms, kDim, 1e-6f};
     }},
};

std::vector<Option> options() {
  std::vector<Option> all(std::begin(kOptions), std::end(kOptions));
  all.insert(all.end(), std::begin(kClassOptions), std::end(kClassOptions));
  all.insert(all.end(), std::begin(kExpertOptions), std::end(kExpertOptions));
  all.insert(all.end(), std::begin(kStateOptions), std::end(kStateOptions));
  all.insert(all.end(), std::begin(kPassOptions), std::end(kPassOptions));
  return all;
}

std::vector<std::int32_t> tokens(std::size_t n) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>((i * 37 + i * i * 11 + 5) % kVocab));
  return ids;
}

struct Outcome {
  std::vector<float> logits;
  std::uint64_t cache = 0;
};

Outcome run(const ModelSpec& spec, const std::string& type, bool exact, const std::vector<std::int32_t>& ids, int chunk,
            int threads) {
  Team team(threads);
  const auto model = Model::load(spec, std::make_unique<RandomFile>(spec, type), team, {.exact = exact});
  kv::Cache cache(team, cache_shape(spec),
                  {.k_codec = "f32", .v_codec = "f32", .max_tokens = static_cast<std::int64_t>(ids.size())});
  Forward forward(team, *model, cache, chunk, chunk);
  EXPECT_EQ(static_cast<std::int64_t>(forward.scratch_bytes()), Forward::planned_scratch(spec, chunk, chunk, threads));
  kv::Sequence* s = cache.create();
  Outcome out;
  for (std::size_t i = 0; i < ids.size(); i += static_cast<std::size_t>(chunk)) {
    const std::size_t n = std::min(ids.size() - i, static_cast<std::size_t>(chunk));
    const Input input{s, std::span(ids).subspan(i, n), static_cast<int>(n)};
    const auto rows = forward.step({&input, 1});
    out.logits.insert(out.logits.end(), rows.begin(), rows.end());
  }
  out.cache = cache.bytes().digest(*s);
  return out;
}

double error_of(const std::vector<float>& got, const ModelSpec& spec, const std::string& type,
                const std::vector<std::int32_t>& ids) {
  const RandomFile file(spec, type);
  double error = 0, size = 0;
  std::size_t at = 0;
  for (const testing::Row& row : Reference(spec, file).logits(ids))
    for (const double want : row) {
      const double difference = static_cast<double>(got.at(at++)) - want;
      error += difference * difference;
      size += want * want;
    }
  EXPECT_EQ(at, got.size());
  return std::sqrt(error / size);
}

class ForwardOption : public ::testing::TestWithParam<Option> {};

TEST_P(ForwardOption, AgreesWithFloat64) {
  ModelSpec spec = plain_model();
  GetParam().set(spec);
  const auto ids = tokens(20);
  EXPECT_LE(error_of(run(spec, "f32", true, ids, 20, 2).logits, spec, "f32", ids), 3e-6);
  // Activations of 8 bits. The bound is that of golden_test.
  EXPECT_LE(error_of(run(spec, "q8_0", false, ids, 20, 2).logits, spec, "q8_0", ids), 0.10);
  spec.in_bf16 = true;
  for (const char* type : {"q8_0", "f16"})
    EXPECT_LE(error_of(run(spec, type, false, ids, 20, 2).logits, spec, type, ids), 0.10) << type;
}

// One by one, in tiles by one thread each, all at once: the same bits.
TEST_P(ForwardOption, ChunksThreadsAndTilesDoNotShow) {
  ModelSpec spec = plain_model();
  GetParam().set(spec);
  const auto ids = tokens(150);
  for (const auto& [type, in_bf16] : {std::pair{"q8_0", false}, {"f16", false}, {"q8_0", true}}) {
    spec.in_bf16 = in_bf16;
    const Outcome whole = run(spec, type, false, ids, 150, 3);
    for (const auto& [chunk, threads] : {std::pair{150, 1}, {64, 2}, {1, 2}}) {
      const Outcome other = run(spec, type, false, ids, chunk, threads);
      EXPECT_EQ(0, std::memcmp(other.logits.data(), whole.logits.data(), whole.logits.size() * 4))
          << type << " " << chunk << " " << threads << (in_bf16 ? " in bf16" : "");
      EXPECT_EQ(other.cache, whole.cache);
    }
  }
}

// In bf16 every instruction set gives the same bits, tiles of AMX too: emulated where the processor has none.
TEST(Forward, InBf16EverySetGivesTheSameBits) {
  ModelSpec spec = plain_model();
  spec.in_bf16 = true;
  const auto ids = tokens(70);
  for (const char* type : {"q8_0", "bf16"}) {
    const simd::KeepIsa keep;
    std::vector<Outcome> all;
    simd::each_isa([&] { all.push_back(run(spec, type, false, ids, 70, 1)); });
#if defined(__x86_64__) && defined(__linux__)
    if (simd::emulated_amx::possible()) {
      const simd::UsableTiles usable;
      simd::force(simd::Isa::kAvx512Amx);
      all.push_back(run(spec, type, false, ids, 70, 1));
      all.push_back(run(spec, type, false, ids, 33, 1));
    }
#endif
    for (const Outcome& one : all) {
      EXPECT_EQ(one.cache, all[0].cache) << type;
      EXPECT_EQ(one.logits, all[0].logits) << type;
    }
    spec.in_bf16 = false;
    EXPECT_NE(run(spec, type, false, ids, 70, 1).cache, all[0].cache) << type;
    spec.in_bf16 = true;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForwardOption, ::testing::ValuesIn(options()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(Forward, OptionsTogetherAgreeWithFloat64) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    ModelSpec spec = plain_model();
    std::string names;
    for (const Option& o : kOptions)
      if (random() % 3 == 0) {
        o.set(spec);
        names += std::string(" ") + o.name;
      }
    SCOPED_TRACE(names);
    const auto ids = tokens(12);
    EXPECT_LE(error_of(run(spec, "f32", true, ids, 5, 2).logits, spec, "f32", ids), 1e-5);
  }
}

// What other rows of a step choose does not show: a sequence alone and beside others, whole and one token at a time.
TEST(ForwardExperts, NeighboursDoNotShow) {
  for (int i = 0; i < 2 * static_cast<int>(std::size(kExpertOptions)); ++i) {
    const Option& o = kExpertOptions[i / 2];
    SCOPED_TRACE(o.name);
    ModelSpec spec = plain_model();
    o.set(spec);
    spec.in_bf16 = i % 2 == 1;
    const auto ids = tokens(70);
    const auto others = tokens(40);
    const Outcome alone = run(spec, "q8_0", false, ids, 70, 2);
    Team team(2);
    const auto model = Model::load(spec, std::make_unique<RandomFile>(spec, "q8_0"), team, {});
    kv::Cache cache(team, cache_shape(spec),
                    {.k_codec = "f32", .v_codec = "f32", .max_tokens = 256, .max_sequences = 3});
    Forward forward(team, *model, cache, 128, 128);
    kv::Sequence *a = cache.create(), *b = cache.create(), *c = cache.create();
    std::vector<float> got;
    std::size_t at = 0, other = 0;
    for (const std::size_t n : {1u, 1u, 30u, 1u, 37u}) {
      const Input inputs[] = {{b, std::span(others).subspan(other++, 1), 1},
                              {a, std::span(ids).subspan(at, n), static_cast<int>(n)},
                              {c, std::span(others).subspan(0, 7), 0}};
      const auto rows = forward.step(inputs);
      got.insert(got.end(), rows.begin() + kVocab, rows.end());
      at += n;
    }
    ASSERT_EQ(got.size(), alone.logits.size());
    EXPECT_EQ(0, std::memcmp(got.data(), alone.logits.data(), got.size() * 4));
    EXPECT_EQ(cache.bytes().digest(*a), alone.cache);
  }
}

// Of experts a step reads those that its rows use, and no others.
TEST(ForwardExperts, UsedExpertsAreCounted) {
  ModelSpec spec = plain_model();
  with_experts(spec, [](Experts&, int) {});
  Team team(1);
  const auto model = Model::load(spec, std::make_unique<RandomFile>(spec, "q8_0"), team, {});
  std::int64_t one = 0;  // expert of every layer
  for_each<Stack>(model->spec(), [&](const Stack& s) { one += s.bound.first.bytes(); });
  EXPECT_EQ(model->bytes_per_token(), model->shared_bytes() + kUsed * one);
  kv::Cache cache(team, cache_shape(spec), {.k_codec = "f32", .v_codec = "f32", .max_tokens = 256});
  Forward forward(team, *model, cache, 64, 1);
  kv::Sequence* s = cache.create();
  const auto ids = tokens(61);
  const Input first{s, std::span(ids).first(1), 1};
  forward.step({&first, 1});
  EXPECT_EQ(forward.weight_bytes(), model->bytes_per_token());
  const Input rest{s, std::span(ids).subspan(1), 1};
  forward.step({&rest, 1});  // 60 rows: no expert of 7 is left out
  EXPECT_EQ(forward.weight_bytes(), model->shared_bytes() + kExperts * one);
  const Input more{s, std::span(ids).first(1), 1};
  forward.step({&more, 1});
  EXPECT_EQ(forward.weight_bytes(), model->bytes_per_token());
}

#if defined(__linux__) && defined(SYS_mbind)
// The policy of the memory at `p`: 0 none, 1 a node's, 3 by turns.
int policy_at(const void* p) {
  int mode = -1;
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &mode, nullptr, 0, p, 2), 0);
  return mode;
}

// Node 0 under two names, as this machine has no second one.
TEST(Forward, MemoryOfSeveralNodesGivesTheSame) {
  const std::vector<Node> nodes = describe_host().nodes;
  if (nodes.empty() || nodes[0].id != 0 || nodes[0].cpus.empty()) GTEST_SKIP() << "no NUMA node 0 is described here";
  if (const std::string why = binding_refused(nodes[0]); !why.empty()) GTEST_SKIP() << "mbind: " << why;
  ModelSpec spec = plain_model();
  spec.vocab = 40000;  // 10 MB of floats, so that there are parts
  spec.embedding.tokens.rows = spec.head.output.rows = spec.vocab;
  const auto run = [&](const Placement& placement) {
    Team team(2);
    const auto model =
        Model::load(spec, std::make_unique<RandomFile>(spec, "f32"), team, {.exact = true, .placement = placement});
    const cpu::Matrix& output = model->spec().head.output.bound;
    const std::byte* const end = output.panels + output.bytes() - 4096;
    EXPECT_EQ(policy_at(end), placement.binds() ? 1 : 0);
    const Linear& small = mixer(const_cast<LayerSpec&>(model->spec().layers[0])).q;
    EXPECT_EQ(policy_at(small.bound.panels), placement.binds() ? 3 : 0);
    kv::Cache cache(
        team, cache_shape(spec),
        {.k_codec = "int4_channel", .v_codec = "f32", .window = 0, .max_tokens = 1 << 16, .placement = placement});
    Forward forward(team, *model, cache, 400, 2);
    const auto ids = tokens(400);
    kv::Sequence* const s = cache.create();
    const Input input{s, ids, 2};
    const auto rows = forward.step({&input, 1});
    return std::make_pair(std::vector<float>(rows.begin(), rows.end()), cache.bytes().digest(*s));
  };
  EXPECT_EQ(run(Placement(std::vector<Node>{nodes[0], nodes[0]})), run({}));
}
#endif

}  // namespace
}  // namespace kvasir::model
