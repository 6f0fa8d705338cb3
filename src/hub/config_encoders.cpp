// Encoders: BERT and its children, by whichever names the fields have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hub/config_reader.hpp"
#include "hub/rope_config.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

constexpr std::int64_t kMean = 1, kFirst = 2;  // pooling

double number_of(const ConfigReader& r, std::initializer_list<const char*> names, double fallback) {
  for (const char* name : names)
    if (const auto x = r.fields.number_if(name)) return *x;
  return fallback;
}

void read_sizes_of_encoder(ConfigReader& r, std::int64_t context) {
  r.layers = r.out.layers = r.need({"num_hidden_layers", "n_layer", "n_layers"}, 1);
  r.width = r.out.width = r.need({"hidden_size", "n_embd", "dim"}, 1);
  r.out.heads = r.out.kv_heads = r.need({"num_attention_heads", "n_head", "n_heads"}, 1);
  r.context = context;
  r.set("block_count", r.layers);
  r.set("embedding_length", r.width);
  r.set("attention.head_count", r.out.heads);
  r.set("context_length", r.context);
  r.set("attention.causal", false);
}

std::int64_t length_of_encoder(const ConfigReader& r) {
  const auto n = r.need({"max_position_embeddings", "n_positions", "max_length"}, 1);
  return std::min(n, r.integer_of({"max_trained_positions"}, 1).value_or(n));
}

// The one activation that models of the architecture have.
void expect_activation(const ConfigReader& r, std::initializer_list<std::string_view> known) {
  for (const char* name : {"hidden_act", "hidden_activation", "activation_function", "activation"}) {
    const auto given = r.fields.text_if(name);
    if (given && std::find(known.begin(), known.end(), *given) == known.end())
      r.fields.unsupported(name, fmt::format("is '{}', expected '{}'", given->substr(0, 40), *known.begin()));
  }
}

// Which state ranks are of.
void read_rank_pooling(ConfigReader& r, std::string_view fallback) {
  const std::string of = r.fields.text_if("classifier_pooling").value_or(std::string(fallback));
  if (of == "mean")
    r.set("classifier.pooling_type", kMean);
  else if (of == "cls" || of == "bos")
    r.set("classifier.pooling_type", kFirst);
  else if (of == "late" && r.out.family.arch == "eurobert")
    r.set("classifier.pooling_type", std::int64_t{0});
  else
    r.fields.unsupported("classifier_pooling", fmt::format("is '{}', expected cls or mean", of.substr(0, 40)));
}

void read_rope_of_encoder(ConfigReader& r, double base) {
  // The classes' own, where nothing is said.
  if (!r.fields.object("rope_parameters") && !r.fields.find("rope_theta") && !r.fields.find("rotary_emb_base")) {
    r.set("rope.freq_base", base);
    return;
  }
  read_rope(r.fields, r.width / r.out.heads, r.context, r.metadata, r.out);
}

void read_jina_bert_v2(ConfigReader& r) {
  r.out.family.arch = "jina-bert-v2";
  r.metadata.set("general.architecture", std::string(r.out.family.arch));
  const std::string feed = r.fields.text_if("feed_forward_type").value_or("original");
  if (feed != "geglu" && feed != "original")
    r.fields.unsupported("feed_forward_type", fmt::format("is '{}', expected geglu or original", feed.substr(0, 40)));
}

}  // namespace

void read_bert(ConfigReader& r) {
  const std::string positions = r.fields.text_if("position_embedding_type").value_or("absolute");
  if (positions == "alibi" && r.out.family.model_type == "bert") read_jina_bert_v2(r);
  if (r.fields.find("lora_adaptations"))
    r.fields.unsupported(
        "lora_adaptations",
        "names adapters of tasks, which this folder has inside its weights; expected the folder without "
        "them (jina-embeddings-v3-hf), or the converter's file of this one, which is the model without a "
        "task");
  if (positions != "absolute" && positions != "alibi")
    r.fields.unsupported("position_embedding_type",
                         fmt::format("is '{}', expected absolute or alibi", positions.substr(0, 40)));
  for (const char* name : {"is_decoder", "add_cross_attention", "sinusoidal_pos_embds"}) r.expect(name, false);
  r.expect("embedding_size", nullptr);
  expect_activation(r, {"gelu"});
  // Positions of RoBERTa begin behind the padding's.
  const bool behind = r.out.family.behind_two;
  if (behind) r.expect("pad_token_id", 1);
  read_sizes_of_encoder(r, length_of_encoder(r) - (behind ? 2 : 0));
  r.set("feed_forward_length", r.need({"intermediate_size", "hidden_dim"}, 1));
  r.set("attention.layer_norm_epsilon", number_of(r, {"layer_norm_eps"}, 1e-12));
  if (r.out.family.model_type == "distilbert") r.set("classifier.relu", true);
}

void read_nomic_bert(ConfigReader& r) {
  expect_activation(r, {"swiglu", "silu"});
  r.expect("prenorm", false);
  r.expect("rotary_emb_interleaved", false);
  r.expect("rotary_emb_scale_base", nullptr);
  r.expect("rotary_emb_fraction", 1.0);
  r.expect("rotary_scaling_factor", nullptr);
  if (const auto every = r.integer_of({"moe_every_n_layers"}, 0); every && *every > 0)
    r.fields.unsupported("moe_every_n_layers", "is of a model with experts, which runs from the converter's file");
  read_sizes_of_encoder(r, length_of_encoder(r));
  r.set("feed_forward_length", r.need({"intermediate_size", "n_inner"}, 1));
  r.set("attention.layer_norm_epsilon", number_of(r, {"layer_norm_eps", "layer_norm_epsilon"}, 1e-12));
  read_rope_of_encoder(r, 1000.0);
}

void read_gte(ConfigReader& r) {
  if (const auto norm = r.fields.text_if("layer_norm_type"); norm && *norm != "layer_norm")
    r.fields.unsupported("layer_norm_type", fmt::format("is '{}', expected 'layer_norm'", norm->substr(0, 40)));
  if (const auto kind = r.fields.text_if("position_embedding_type"); kind && *kind != "rope")
    r.fields.unsupported("position_embedding_type", fmt::format("is '{}', expected 'rope'", kind->substr(0, 40)));
  for (const char* name : {"logn_attention_scale", "logn_attention_clip1"}) r.expect(name, false);
  expect_activation(r, {"gelu"});
  read_sizes_of_encoder(r, length_of_encoder(r));
  r.set("feed_forward_length", r.need({"intermediate_size"}, 1));
  r.set("attention.layer_norm_epsilon", number_of(r, {"layer_norm_eps"}, 1e-12));
  read_rope_of_encoder(r, 160000.0);
}

void read_jina_v3(ConfigReader& r) {
  expect_activation(r, {"gelu"});
  read_sizes_of_encoder(r, length_of_encoder(r));
  r.set("feed_forward_length", r.need({"intermediate_size"}, 1));
  r.set("attention.layer_norm_epsilon", number_of(r, {"layer_norm_eps"}, 1e-5));
  read_rope_of_encoder(r, 20000.0);
}

void read_modern_bert(ConfigReader& r) {
  expect_activation(r, {"gelu", "silu"});
  if (const auto act = r.fields.text_if("hidden_activation")) r.set("hidden_activation", *act);
  if (const auto act = r.fields.text_if("classifier_activation"); act && *act != "gelu")
    r.fields.unsupported("classifier_activation", fmt::format("is '{}', expected 'gelu'", act->substr(0, 40)));
  read_sizes_of_encoder(r, length_of_encoder(r));
  r.set("feed_forward_length", r.need({"intermediate_size"}, 1));
  r.set("attention.layer_norm_epsilon", number_of(r, {"norm_eps"}, 1e-5));
  r.set("attention.sliding_window", r.integer_of({"local_attention"}, 2).value_or(128));
  std::vector<bool> local;
  const FolderJson* types = r.by_layer("layer_types");
  const std::int64_t every = r.integer_of({"global_attn_every_n_layers"}, 1).value_or(3);
  for (std::int64_t l = 0; l < r.layers; ++l) {
    const FolderJson* type = types ? &(*types)[static_cast<std::size_t>(l)] : nullptr;
    if (type && *type != "sliding_attention" && *type != "full_attention")
      r.fields.unsupported("layer_types", "holds other than sliding_attention and full_attention");
    local.push_back(type ? *type == "sliding_attention" : l % every != 0);
  }
  r.set("attention.sliding_window_pattern", std::move(local));
  if (r.fields.object("rope_parameters")) {
    read_rope(r.fields, r.width / r.out.heads, r.context, r.metadata, r.out);
  } else {
    r.expect("rope_scaling", nullptr);
    r.set("rope.freq_base", number_of(r, {"global_rope_theta"}, 160000.0));
    r.set("rope.freq_base_swa", number_of(r, {"local_rope_theta"}, 10000.0));
  }
  read_rank_pooling(r, "cls");
}

void read_eurobert(ConfigReader& r) {
  r.set("attention.causal", false);
  read_rank_pooling(r, "late");
}

// The matrices between have two thirds of the size that is said, made a multiple of 8.
void read_neobert(ConfigReader& r) {
  read_sizes_of_encoder(r, length_of_encoder(r));
  const std::int64_t two_thirds = 2 * r.need({"intermediate_size"}, 1) / 3;
  r.set("feed_forward_length", (two_thirds + 7) / 8 * 8);
  r.set("attention.layer_norm_rms_epsilon", number_of(r, {"norm_eps"}, 1e-6));
  r.set("rope.freq_base", 10000.0);
  r.set("pooling_type", kFirst);
}

}  // namespace kvasir::hub
