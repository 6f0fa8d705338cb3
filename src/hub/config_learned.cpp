// Models of layer norms: GPT's and those of its time, Cohere's and Nemotron.
#include <fmt/format.h>

#include <utility>

#include "hub/config_reader.hpp"
#include "hub/rope_config.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

// Sizes, by whichever names the family has for them; `wide`: of the feed forward, 0: four times the width.
void read_sizes(ConfigReader& r, std::int64_t wide) {
  r.layers = r.out.layers = r.need({"num_hidden_layers", "n_layer", "n_layers"}, 1);
  r.width = r.out.width = r.need({"hidden_size", "n_embd", "n_embed", "d_model"}, 1);
  r.out.heads = r.out.kv_heads = r.need({"num_attention_heads", "n_head", "n_heads"}, 1);
  r.set("block_count", r.layers);
  r.set("embedding_length", r.width);
  r.set("feed_forward_length", wide > 0 ? wide : 4 * r.width);
  r.set("attention.head_count", r.out.heads);
  r.set("attention.layer_norm_epsilon", r.fields.number_if("layer_norm_epsilon").value_or(1e-5));
}

void read_length(ConfigReader& r, const char* name) {
  r.context = r.fields.integer_if(name, 1, ConfigReader::kMostContext).value_or(2048);
  r.set("context_length", r.context);
}

// As the architecture calls it (model/blocks.hpp).
void read_activation(ConfigReader& r, const char* field, std::string_view fallback) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"gelu", "gelu"}, {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
      {"relu", "relu"}, {"silu", "silu"}};
  const std::string given = r.fields.text_if(field).value_or(std::string(fallback));
  for (const auto& [from, to] : kNames)
    if (given == from) return r.set("activation", std::string(to));
  r.fields.unsupported(field, fmt::format("is '{}', expected a form of gelu, relu or silu", given.substr(0, 40)));
}

}  // namespace

void read_opt(ConfigReader& r) {
  r.expect("layer_norm_elementwise_affine", true);
  r.expect("_remove_final_layer_norm", false);
  read_sizes(r, r.fields.integer("ffn_dim", 1, ConfigReader::kMost));
  read_length(r, "max_position_embeddings");
  r.set("norm_before", r.fields.flag_if("do_layer_norm_before").value_or(true));
  r.set("activation", r.fields.text_if("activation_function").value_or("relu"));
  if (const auto narrow = r.integer_of({"word_embed_proj_dim"}, 1); narrow && *narrow != r.width)
    r.set("embedding_length_tokens", *narrow);
}

void read_gptj(ConfigReader& r) {
  r.expect("activation_function", "gelu_new");
  read_sizes(r, r.integer_of({"n_inner"}, 1).value_or(0));
  read_length(r, "n_positions");
  r.set("rope.dimension_count", r.integer_of({"rotary_dim"}, 2).value_or(r.width / r.out.heads));
}

void read_gpt2(ConfigReader& r) {
  r.expect("scale_attn_by_inverse_layer_idx", false);
  r.expect("add_cross_attention", false);
  read_sizes(r, r.integer_of({"n_inner"}, 1).value_or(0));
  read_length(r, "n_positions");
  read_activation(r, "activation_function", "gelu_new");
  if (r.fields.flag_if("scale_attn_weights") == false) r.set("attention.scale", 1.0);
  if (r.out.family.arch != "starcoder" || r.fields.flag_if("multi_query") == false) return;
  r.out.kv_heads = 1;
  r.set("attention.head_count_kv", std::int64_t{1});
}

// Behind the usual: there is a key and a value for every query, whatever other fields say.
void read_gpt_neox(ConfigReader& r) {
  r.out.kv_heads = r.out.heads;
  r.set("attention.head_count_kv", r.out.heads);
  r.set("use_parallel_residual", r.fields.flag_if("use_parallel_residual").value_or(true));
  read_activation(r, "hidden_act", "gelu");
}

void read_falcon(ConfigReader& r) {
  r.expect("alibi", false);
  const bool grouped = r.fields.flag_if("new_decoder_architecture").value_or(false);
  if (!grouped) r.expect("parallel_attn", true);
  read_sizes(r, r.integer_of({"ffn_hidden_size"}, 1).value_or(0));
  read_length(r, "max_position_embeddings");
  if (grouped)
    r.out.kv_heads = r.integer_of({"num_kv_heads"}, 1).value_or(r.out.heads);
  else if (r.fields.flag_if("multi_query").value_or(true))
    r.out.kv_heads = 1;
  if (r.out.heads % r.out.kv_heads != 0)
    r.fields.bad("num_kv_heads", fmt::format("is {}, expected a divisor of {}", r.out.kv_heads, r.out.heads));
  r.set("attention.head_count_kv", r.out.kv_heads);
  read_activation(r, "activation", "gelu");
  read_rope(r.fields, r.width / r.out.heads, r.context, r.metadata, r.out);
}

void read_bloom(ConfigReader& r) {
  r.expect("apply_residual_connection_post_layernorm", false);
  read_sizes(r, 0);
  read_length(r, "seq_length");
}

// The class of transformers computes what is expected here whatever the fields say.
void read_mpt(ConfigReader& r) {
  r.expect("expansion_ratio", 4);
  r.expect("no_bias", true);
  r.expect("logit_scale", nullptr);
  read_sizes(r, 0);
  read_length(r, "max_seq_len");
  r.set("attention.max_alibi_bias", 8.0);
  const FolderJson* given = r.fields.object("attn_config");
  if (!given) return;
  const ConfigFields attention(*given, r.fields.path(), "attn_config.");
  for (const auto& [name, value] : {std::pair<const char*, FolderJson>{"attn_type", "multihead_attention"},
                                    {"alibi", true},
                                    {"alibi_bias_max", 8},
                                    {"prefix_lm", false},
                                    {"qk_ln", false}})
    if (const FolderJson* is = attention.find(name); is && *is != value)
      attention.unsupported(name, fmt::format("is {}, expected {}", is->dump().substr(0, 40), value.dump()));
  if (const auto most = attention.number_if("clip_qkv")) r.set("attention.clamp_kqv", *most);
  if (const auto scale = attention.number_if("softmax_scale")) r.set("attention.scale", *scale);
}

void read_olmo(ConfigReader& r) {
  r.set("attention.layer_norm_epsilon", 1e-5);
  r.take_number("clip_qkv", "attention.clamp_kqv");
}

void read_nemotron(ConfigReader& r) {
  r.set("attention.layer_norm_epsilon", r.fields.number_if("norm_eps").value_or(1e-5));
}

void read_cohere(ConfigReader& r) {
  r.take_number("logit_scale", "logit_scale");
  r.out.tied = r.fields.flag_if("tie_word_embeddings").value_or(true);
}

}  // namespace kvasir::hub
