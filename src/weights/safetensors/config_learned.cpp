// Models of layer norms: OPT, GPT-J, Cohere's and Nemotron.
#include <fmt/format.h>

#include "weights/safetensors/config_reader.hpp"

namespace kvasir::weights {

void read_opt(ConfigReader& r) {
  r.layers = r.out.layers = r.fields.integer("num_hidden_layers", 1, 4096);
  r.width = r.fields.integer("hidden_size", 1, ConfigReader::kMost);
  r.out.heads = r.out.kv_heads = r.fields.integer("num_attention_heads", 1, ConfigReader::kMost);
  r.expect("layer_norm_elementwise_affine", true);
  r.expect("_remove_final_layer_norm", false);
  r.set("block_count", r.layers);
  r.set("embedding_length", r.width);
  r.set("feed_forward_length", r.fields.integer("ffn_dim", 1, ConfigReader::kMost));
  r.set("attention.head_count", r.out.heads);
  r.set("attention.layer_norm_epsilon", 1e-5);
  r.set("context_length", r.fields.integer("max_position_embeddings", 1, ConfigReader::kMostContext));
  r.set("norm_before", r.fields.flag_if("do_layer_norm_before").value_or(true));
  r.set("activation", r.fields.text_if("activation_function").value_or("relu"));
  if (const auto narrow = r.integer_of({"word_embed_proj_dim"}, 1); narrow && *narrow != r.width)
    r.set("embedding_length_tokens", *narrow);
}

void read_gptj(ConfigReader& r) {
  r.layers = r.out.layers = r.fields.integer("n_layer", 1, 4096);
  r.width = r.fields.integer("n_embd", 1, ConfigReader::kMost);
  r.out.heads = r.out.kv_heads = r.fields.integer("n_head", 1, ConfigReader::kMost);
  r.expect("activation_function", "gelu_new");
  r.set("block_count", r.layers);
  r.set("embedding_length", r.width);
  r.set("feed_forward_length", r.integer_of({"n_inner"}, 1).value_or(4 * r.width));
  r.set("attention.head_count", r.out.heads);
  r.set("attention.layer_norm_epsilon", r.fields.number_if("layer_norm_epsilon").value_or(1e-5));
  r.set("context_length", r.fields.integer("n_positions", 1, ConfigReader::kMostContext));
  r.set("rope.dimension_count", r.integer_of({"rotary_dim"}, 2).value_or(r.width / r.out.heads));
}

void read_nemotron(ConfigReader& r) {
  r.set("attention.layer_norm_epsilon", r.fields.number_if("norm_eps").value_or(1e-5));
}

void read_cohere(ConfigReader& r) {
  r.take_number("logit_scale", "logit_scale");
  r.out.tied = r.fields.flag_if("tie_word_embeddings").value_or(true);
}

}  // namespace kvasir::weights
