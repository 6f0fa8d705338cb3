// Qwen 3.8 Flash-Next (transformers qwen4_exp): gated DeltaNet and attention on blocks of tokens that an index chooses
// (QSA), several residual streams in place of norms, and one layer that adds rows of a table, which are found by hashes
// of the last tokens' ids.
#include <bit>

#include "hub/config_reader.hpp"
#include "kv/options.hpp"
#include "kv/page.hpp"
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_qwen4exp {
namespace {

constexpr std::string_view kTable = "per_layer_token_embd";
constexpr const char* kRatios = "attention.compress_ratios";

// Of every stream by itself.
Norm norm_of_streams(const Names& n, std::string_view name, std::int64_t count) {
  Norm norm = n.rms(name, count * n.h().dim());
  norm.width = n.h().dim();
  return norm;
}

StreamMixer streams(const Names& n, const std::string& name, bool last = false) {
  const Hparams& h = n.h();
  const std::int64_t count = h.integer("hyper_connection.count", 2, 64), width = count * h.dim();
  const std::int64_t rank = h.integer("hyper_connection.low_rank", 1, kMostNumber);
  StreamMixer m{.count = static_cast<int>(count),
                .norm = norm_of_streams(n, name + "_norm", count),
                .down = n.linear(name + "_down", rank, width),
                .up = n.linear(name + "_up", width, rank)};
  if (!last) m.inject = n.linear(name + "_inject", count, width);
  m.inject.in_floats = true;  // few rows, which say what a layer does to every stream
  return m;
}

Indexer indexer(const Names& n, int block) {
  const Hparams& h = n.h();
  Indexer x;
  x.heads = static_cast<int>(h.integer("attention.indexer.head_count", 1, 1 << 12));
  x.d = static_cast<int>(h.integer("attention.indexer.key_length", 8, 1 << 12));
  x.top = static_cast<int>(h.integer("attention.indexer.top_k", 1, 1 << 30));
  x.block = block;
  if (x.d % 8 != 0) h.unsupported("attention.indexer.key_length", "is no multiple of 8");
  if (!std::has_single_bit(static_cast<unsigned>(block)) || block < 2 || block > kv::kMostTaps)
    h.unsupported(kRatios, "holds " + std::to_string(block) + ", expected a power of two from 2 to " +
                               std::to_string(kv::kMostTaps));
  if (x.top % block != 0) h.unsupported("attention.indexer.top_k", "is no multiple of the compress ratio");
  const std::int64_t queries = std::int64_t{x.heads} * x.d;
  if (n.has("indexer.qk_proj")) {
    const Linear both = n.linear("indexer.qk_proj", queries + x.d, h.dim());
    x.q = part_of(both, 0, queries);
    x.k = part_of(both, queries, x.d);
  } else {
    x.q = n.linear("indexer.q_proj", queries, h.dim());
    x.k = n.linear("indexer.k_proj", x.d, h.dim());
  }
  x.q_norm = n.rms("indexer.q_norm", x.d);
  x.k_norm = n.rms("indexer.k_norm", x.d);
  x.k_rope = 1;
  x.mean = {.convolution = {.channels = x.d, .taps = block}, .alone = true};
  x.mean.convolution.fixed.assign(static_cast<std::size_t>(block * x.d), 1.0f / static_cast<float>(block));
  return x;
}

// The ids of the tokens before, nearest first: each channel is all ids, some tokens later.
Smoothing ids_before(int longest) {
  const auto before = static_cast<std::size_t>(longest - 1);
  Smoothing s{.convolution = {.channels = longest - 1, .taps = longest}, .alone = true};
  s.convolution.fixed.assign(before * (before + 1), 0.0f);
  for (std::size_t c = 0; c < before; ++c) s.convolution.fixed[(before - 1 - c) * before + c] = 1.0f;
  return s;
}

Ngrams ngrams(const Names& n, int count) {
  const Hparams& h = n.h();
  const std::int64_t dim = h.dim(), width = count * dim;
  Ngrams g;
  g.longest = static_cast<int>(h.integer("ple.ngram_size", 2, 16));
  g.heads = static_cast<int>(h.integer("ple.heads_per_ngram", 1, 4096));
  g.end = static_cast<std::int32_t>(h.integer("ple.eos_token_id", 0, h.vocab() - 1));
  const Names whole(h);
  if (!whole.has(kTable)) h.bad("ple.layers", "names a layer, and " + std::string(kTable) + ".weight is missing");
  g.table = {.name = whole.full(kTable),
             .rows = h.rows_of(whole.full(kTable)),
             .columns = h.integer("embedding_length_per_layer_input", 1, 1 << 16)};
  // Products of ids stay below 2^63, so hashes are those of signed numbers.
  const std::int64_t most = ((std::int64_t{1} << 62) - 1) / h.vocab() * 2;
  const int heads = (g.longest - 1) * g.heads;
  g.multipliers = h.integers("ple.layer_multipliers", g.longest, 0, most);
  g.offsets = h.integers("ple.head_offsets", heads, 0, g.table.rows - 1);
  g.sizes = h.integers("ple.head_vocab_sizes", heads, 1, g.table.rows);
  for (std::size_t i = 0; i < g.sizes.size(); ++i)
    if (g.offsets[i] + g.sizes[i] > g.table.rows)
      h.bad("ple.head_vocab_sizes",
            "reaches row " + std::to_string(g.offsets[i] + g.sizes[i]) + " of " + std::to_string(g.table.rows));
  g.key = n.linear("ple_key", width, g.width());
  g.value = n.linear("ple_value", dim, g.width());
  g.key_norm = norm_of_streams(n, "ple_norm_key", count);
  g.query_norm = norm_of_streams(n, "ple_norm_query", count);
  g.conv_norm = norm_of_streams(n, "ple_norm_conv", count);
  const std::int64_t taps = h.integer("ple.conv_kernel", 1, kv::kMostTaps);
  if ((taps - 1) * g.longest > kv::kPageTokens) h.unsupported("ple.conv_kernel", "reaches back more than 128 tokens");
  g.convolution = {.convolution = {.channels = width, .taps = static_cast<int>(taps), .dilation = g.longest},
                   .alone = true,
                   .silu = true};
  Vector& weight = g.convolution.convolution.weight;
  weight = n.vector("ple_conv1d.weight", taps);
  weight.rows = width;
  weight.transposed = true;
  g.ids = ids_before(g.longest);
  return g;
}

// The layer with the table; -1: none.
int layer_with_ngrams(const Hparams& h) {
  if (!h.has("ple.layers")) return -1;
  const std::vector<std::int64_t> layers = h.integers("ple.layers", -1, 0, h.layers() - 1);
  if (layers.size() > 1) h.unsupported("ple.layers", "are " + std::to_string(layers.size()) + ", expected at most one");
  if (!layers.empty() && h.vocab() >= 1 << 24)
    h.unsupported("ple.layers", "name a layer of a model with " + std::to_string(h.vocab()) +
                                    " ids, expected fewer than 2^24, which floats tell apart");
  return layers.empty() ? -1 : static_cast<int>(layers[0]);
}

Feed feed(const Names& n) { return qwen_experts(n); }

ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, {});
  m.head.streams = streams(Names(h), "output_hc", true);
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  const int with_ngrams = layer_with_ngrams(h);
  const std::string gate = h.text_or("ssm.output_gate", "sigmoid");
  if (gate != "sigmoid" && gate != "silu") h.unsupported("ssm.output_gate", "is neither sigmoid nor silu");
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer = delta_layer(h, l, true, feed);
    layer.norm = layer.feed_norm = {};
    layer.mixer_streams = streams(n, "hc_attn");
    layer.feed_streams = streams(n, "hc_ffn");
    if (auto* const a = std::get_if<Attention>(&layer.mixer)) {
      const int block = h.has(kRatios) ? h.in_layer(kRatios, l, {}, 0) : 0;
      if (block == 0)
        h.unsupported(kRatios, "says of layer " + std::to_string(l) +
                                   " that nothing is compressed, and attention without an index is not known: "
                                   "llama.cpp's converter writes so where a transformers that knows the model is "
                                   "installed. Take the folder");
      a->indexer = indexer(n, block);
      a->chosen_by = l;
      if (m.ropes.size() == 1) {
        m.ropes.push_back(m.ropes[0]);
        m.ropes.back().offset = 1 - block;
      } else if (m.ropes[1].offset != 1 - block) {
        h.unsupported(kRatios, "differ from layer to layer");
      }
      if (2 * m.ropes[0].frequencies.size() > static_cast<std::size_t>(a->indexer.d))
        h.unsupported("attention.indexer.key_length", "is less than rope.dimension_count");
    } else if (gate == "sigmoid") {
      std::get<Delta>(layer.mixer).activation = Activation::kSigmoid;
    }
    if (l == with_ngrams) layer.ngrams = ngrams(n, layer.mixer_streams.count);
    m.layers.push_back(std::move(layer));
  }
  number_smoothings(m);
  return m;
}

constexpr hub::Rename kRenames[] = {
    {"self_attn.indexer.index_qk_proj", "indexer.qk_proj"},
    {"self_attn.indexer.q_layernorm", "indexer.q_norm"},
    {"self_attn.indexer.k_layernorm", "indexer.k_norm"},
    {"attn_hyper_connection.hc_norm", "hc_attn_norm"},
    {"attn_hyper_connection.input_mix_weight_down", "hc_attn_down"},
    {"attn_hyper_connection.input_mix_weight_up", "hc_attn_up"},
    {"attn_hyper_connection.block_inject_weight", "hc_attn_inject"},
    {"mlp_hyper_connection.hc_norm", "hc_ffn_norm"},
    {"mlp_hyper_connection.input_mix_weight_down", "hc_ffn_down"},
    {"mlp_hyper_connection.input_mix_weight_up", "hc_ffn_up"},
    {"mlp_hyper_connection.block_inject_weight", "hc_ffn_inject"},
    {"ple.key_proj", "ple_key"},
    {"ple.value_proj", "ple_value"},
    {"ple.norm_key", "ple_norm_key"},
    {"ple.norm_query", "ple_norm_query"},
    {"ple.norm_conv", "ple_norm_conv"},
    {"ple.conv1d", "ple_conv1d"},
    {"ple.ple_embedding.layer_multipliers", "qwen4exp.ple.layer_multipliers", hub::Make::kNumbers},
    {"ple.ple_embedding.ngram_heads_offsets", "qwen4exp.ple.head_offsets", hub::Make::kNumbers},
    {"ple.ple_embedding.ngram_heads_vocab_sizes", "qwen4exp.ple.head_vocab_sizes", hub::Make::kNumbers},
    {"ple.ple_embedding.ngram_embedding.shard_*", "per_layer_token_embd", hub::Make::kShard}};

}  // namespace

const Arch entry{.summary = "Qwen 3.8 Flash-Next (gated DeltaNet, chosen blocks, residual streams, n-gram rows)",
                 .describe = describe,
                 .hub = {{.types = {"qwen4_exp_text", "qwen4_exp"},
                          .turned = 1,
                          .one_more = true,
                          .window = hub::Window::kOwn,
                          .names = kRenames,
                          .read = hub::read_qwen4exp}}};

}  // namespace kvasir::model::archs_qwen4exp
