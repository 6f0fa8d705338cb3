#include <fmt/format.h>

#include <utility>

#include "hub/config_reader.hpp"

namespace kvasir::hub {

using namespace weights;

// Inkling 2, also with a loop, whose published configuration has an object of its own.
void read_inkling2(ConfigReader& r) {
  r.expect("scoring_func", "sigmoid");
  r.expect("mlp_gate_softcap", 4.0);
  r.expect("mlp_up_softcap", 25.0);
  read_experts(r);
  const FolderJson* types = r.by_layer("layer_types");
  std::vector<bool> local;
  std::vector<std::int64_t> heads, kv_heads;
  const std::int64_t local_heads = r.need({"swa_num_attention_heads"}, 1),
                     local_kv = r.need({"swa_num_key_value_heads"}, 1);
  for (std::int64_t l = 0; l < r.layers; ++l) {
    const FolderJson kind = types              ? (*types)[static_cast<std::size_t>(l)]
                            : (l + 1) % 6 == 0 ? "hybrid"
                                               : "hybrid_sliding";
    if (kind != "hybrid" && kind != "hybrid_sliding")
      r.fields.unsupported("layer_types",
                           fmt::format("holds {}, expected hybrid or hybrid_sliding", kind.dump().substr(0, 40)));
    local.push_back(kind == "hybrid_sliding");
    heads.push_back(local.back() ? local_heads : r.out.heads);
    kv_heads.push_back(local.back() ? local_kv : r.out.kv_heads);
  }
  r.set("attention.sliding_window", r.need({"sliding_window_size", "sliding_window"}, 1));
  r.set("attention.sliding_window_pattern", std::move(local));
  r.set("attention.head_count", std::move(heads));
  r.set("attention.head_count_kv", std::move(kv_heads));
  r.set("attention.key_length_swa", r.need({"swa_head_dim"}, 1));
  r.set("attention.convolution", r.need({"conv_kernel_size", "sconv_kernel_size"}, 1));
  r.set("attention.distance_width", r.need({"d_rel"}, 1));
  r.set("attention.distance_extent", r.need({"rel_extent"}, 1));
  r.set("attention.clip", r.fields.number("qk_l2_clip_threshold"));
  r.set("attention.distance_clip", r.fields.number("rel_l2_clip_threshold"));
  r.set("attention.temperature_length", r.need({"log_scaling_n_floor"}, 1));
  r.set("attention.temperature_scale", r.fields.number("log_scaling_alpha"));
  r.set("residual_block", r.need({"n_layers_per_attn_res_block"}, 1));
  r.set("vocabulary", r.need({"unpadded_vocab_size"}, 1));
  if (r.out.family.model_type != "inkling2_loop_text") return;
  const FolderJson* loop = r.fields.object("loop_config");
  const ConfigFields own = loop ? ConfigFields(*loop, r.fields.path(), "loop_config.") : r.fields;
  const auto take = [&](const char* key, const char* inner, const char* plain) {
    r.set(key, own.integer(loop ? inner : plain, 1, ConfigReader::kMost));
  };
  take("loop.first", "core_start", "loop_layer_index_start");
  take("loop.end", "core_end", "loop_layer_index_end");
  take("loop.passes", "num_passes", "loop_num_passes");
  take("loop.rank", "gate_rank", "loop_gate_rank");
}

}  // namespace kvasir::hub
