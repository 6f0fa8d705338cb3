#include "hub/vision_names.hpp"

#include <array>

namespace kvasir::hub {
namespace {

using L = VisionLayout;

constexpr std::array kSiglip = {
    VisionName{"vision_tower.embeddings.patch_embedding.*", "v.patch_embd.*"},
    VisionName{"vision_tower.embeddings.position_embedding.weight", "v.position_embd.weight"},
    VisionName{"vision_tower.encoder.layers.{}.layer_norm1.*", "v.blk.{}.ln1.*"},
    VisionName{"vision_tower.encoder.layers.{}.layer_norm2.*", "v.blk.{}.ln2.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.q_proj.*", "v.blk.{}.attn_q.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.k_proj.*", "v.blk.{}.attn_k.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.v_proj.*", "v.blk.{}.attn_v.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.out_proj.*", "v.blk.{}.attn_out.*"},
    VisionName{"vision_tower.encoder.layers.{}.mlp.fc1.*", "v.blk.{}.ffn_up.*"},
    VisionName{"vision_tower.encoder.layers.{}.mlp.fc2.*", "v.blk.{}.ffn_down.*"},
    VisionName{"vision_tower.post_layernorm.*", "v.post_ln.*"},
    VisionName{"multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"},
    VisionName{"multi_modal_projector.mm_soft_emb_norm.weight", "mm.soft_emb_norm.weight", L::kPlusOne},
};
// Patches are rows of a matrix here.
constexpr std::array kLfm2 = {
    VisionName{"vision_tower.embeddings.patch_embedding.weight", "v.patch_embd.weight", L::kChannelsFirst},
    VisionName{"vision_tower.embeddings.patch_embedding.bias", "v.patch_embd.bias"},
    kSiglip[1],
    kSiglip[2],
    kSiglip[3],
    kSiglip[4],
    kSiglip[5],
    kSiglip[6],
    kSiglip[7],
    kSiglip[8],
    kSiglip[9],
    kSiglip[10],
    VisionName{"multi_modal_projector.layer_norm.*", "mm.input_norm.*"},
    VisionName{"multi_modal_projector.linear_1.*", "mm.1.*"},
    VisionName{"multi_modal_projector.linear_2.*", "mm.2.*"},
};
constexpr std::array kLfm3 = {
    VisionName{"vision_tower.patchifier.weight", "v.patch_embd.weight", L::kTwoFrames},
    VisionName{"vision_tower.embedding_norm.weight", "v.pre_ln.weight"},
    VisionName{"vision_tower.layers.{}.operator_norm.*", "v.blk.{}.ln1.*"},
    VisionName{"vision_tower.layers.{}.ffn_norm.*", "v.blk.{}.ln2.*"},
    VisionName{"vision_tower.layers.{}.self_attn.q_proj.*", "v.blk.{}.attn_q.*"},
    VisionName{"vision_tower.layers.{}.self_attn.k_proj.*", "v.blk.{}.attn_k.*"},
    VisionName{"vision_tower.layers.{}.self_attn.v_proj.*", "v.blk.{}.attn_v.*"},
    VisionName{"vision_tower.layers.{}.self_attn.out_proj.*", "v.blk.{}.attn_out.*"},
    VisionName{"vision_tower.layers.{}.self_attn.q_layernorm.*", "v.blk.{}.attn_q_norm.*"},
    VisionName{"vision_tower.layers.{}.self_attn.k_layernorm.*", "v.blk.{}.attn_k_norm.*"},
    VisionName{"vision_tower.layers.{}.conv.in_proj.*", "v.blk.{}.shortconv.in_proj.*"},
    VisionName{"vision_tower.layers.{}.conv.spatial_conv.*", "v.blk.{}.shortconv.conv.*"},
    VisionName{"vision_tower.layers.{}.conv.out_proj.*", "v.blk.{}.shortconv.out_proj.*"},
    VisionName{"vision_tower.layers.{}.feed_forward.w1.*", "v.blk.{}.ffn_gate.*"},
    VisionName{"vision_tower.layers.{}.feed_forward.w3.*", "v.blk.{}.ffn_up.*"},
    VisionName{"vision_tower.layers.{}.feed_forward.w2.*", "v.blk.{}.ffn_down.*"},
    VisionName{"multi_modal_projector.layer_norm.*", "v.post_ln.*"},
    VisionName{"multi_modal_projector.linear_1.*", "mm.0.*"},
    VisionName{"multi_modal_projector.linear_2.*", "mm.2.*"},
};
// The tower's names have lost "vision_model." here.
constexpr std::array kIdefics3 = {
    VisionName{"embeddings.patch_embedding.*", "v.patch_embd.*"},
    VisionName{"embeddings.position_embedding.weight", "v.position_embd.weight"},
    VisionName{"encoder.layers.{}.layer_norm1.*", "v.blk.{}.ln1.*"},
    VisionName{"encoder.layers.{}.layer_norm2.*", "v.blk.{}.ln2.*"},
    VisionName{"encoder.layers.{}.self_attn.q_proj.*", "v.blk.{}.attn_q.*"},
    VisionName{"encoder.layers.{}.self_attn.k_proj.*", "v.blk.{}.attn_k.*"},
    VisionName{"encoder.layers.{}.self_attn.v_proj.*", "v.blk.{}.attn_v.*"},
    VisionName{"encoder.layers.{}.self_attn.out_proj.*", "v.blk.{}.attn_out.*"},
    VisionName{"encoder.layers.{}.mlp.fc1.*", "v.blk.{}.ffn_up.*"},
    VisionName{"encoder.layers.{}.mlp.fc2.*", "v.blk.{}.ffn_down.*"},
    VisionName{"post_layernorm.*", "v.post_ln.*"},
    VisionName{"connector.modality_projection.proj.weight", "mm.model.fc.weight"},
};
constexpr std::array kQwen = {
    VisionName{"visual.patch_embed.proj.weight", "v.patch_embd.weight", L::kTwoFrames},
    VisionName{"visual.patch_embed.proj.bias", "v.patch_embd.bias"},
    VisionName{"visual.pos_embed.weight", "v.position_embd.weight"},
    VisionName{"visual.blocks.{}.norm1.*", "v.blk.{}.ln1.*"},
    VisionName{"visual.blocks.{}.norm2.*", "v.blk.{}.ln2.*"},
    VisionName{"visual.blocks.{}.attn.qkv.*", "v.blk.{}.attn_qkv.*"},
    VisionName{"visual.blocks.{}.attn.proj.*", "v.blk.{}.attn_out.*"},
    VisionName{"visual.blocks.{}.mlp.fc1.*", "v.blk.{}.ffn_up.*"},
    VisionName{"visual.blocks.{}.mlp.fc2.*", "v.blk.{}.ffn_down.*"},
    VisionName{"visual.blocks.{}.mlp.linear_fc1.*", "v.blk.{}.ffn_up.*"},
    VisionName{"visual.blocks.{}.mlp.linear_fc2.*", "v.blk.{}.ffn_down.*"},
    VisionName{"visual.blocks.{}.mlp.gate_proj.*", "v.blk.{}.ffn_gate.*"},
    VisionName{"visual.blocks.{}.mlp.up_proj.*", "v.blk.{}.ffn_up.*"},
    VisionName{"visual.blocks.{}.mlp.down_proj.*", "v.blk.{}.ffn_down.*"},
    VisionName{"visual.merger.ln_q.*", "v.post_ln.*"},
    VisionName{"visual.merger.mlp.0.*", "mm.0.*"},
    VisionName{"visual.merger.mlp.2.*", "mm.2.*"},
    VisionName{"visual.merger.norm.*", "v.post_ln.*"},
    VisionName{"visual.merger.linear_fc1.*", "mm.0.*"},
    VisionName{"visual.merger.linear_fc2.*", "mm.2.*"},
    // The number is that of the list, which config.json turns into a block.
    VisionName{"visual.deepstack_merger_list.{}.norm.*", "v.deepstack.{}.norm.*"},
    VisionName{"visual.deepstack_merger_list.{}.linear_fc1.*", "v.deepstack.{}.fc1.*"},
    VisionName{"visual.deepstack_merger_list.{}.linear_fc2.*", "v.deepstack.{}.fc2.*"},
};
constexpr std::array kGemma4 = {
    VisionName{"vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight", L::kChannelsFirst},
    VisionName{"vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight"},
    VisionName{"vision_tower.encoder.layers.{}.input_layernorm.*", "v.blk.{}.ln1.*"},
    VisionName{"vision_tower.encoder.layers.{}.post_attention_layernorm.*", "v.blk.{}.attn_post_norm.*"},
    VisionName{"vision_tower.encoder.layers.{}.pre_feedforward_layernorm.*", "v.blk.{}.ln2.*"},
    VisionName{"vision_tower.encoder.layers.{}.post_feedforward_layernorm.*", "v.blk.{}.ffn_post_norm.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.q_norm.*", "v.blk.{}.attn_q_norm.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.k_norm.*", "v.blk.{}.attn_k_norm.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.q_proj.*", "v.blk.{}.attn_q.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.k_proj.*", "v.blk.{}.attn_k.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.v_proj.*", "v.blk.{}.attn_v.*"},
    VisionName{"vision_tower.encoder.layers.{}.self_attn.o_proj.*", "v.blk.{}.attn_out.*"},
    VisionName{"vision_tower.encoder.layers.{}.mlp.gate_proj.*", "v.blk.{}.ffn_gate.*"},
    VisionName{"vision_tower.encoder.layers.{}.mlp.up_proj.*", "v.blk.{}.ffn_up.*"},
    VisionName{"vision_tower.encoder.layers.{}.mlp.down_proj.*", "v.blk.{}.ffn_down.*"},
    VisionName{"vision_tower.std_bias", "v.std_bias"},
    VisionName{"vision_tower.std_scale", "v.std_scale"},
    VisionName{"embed_vision.embedding_projection.weight", "mm.input_projection.weight"},
};
constexpr std::array kGemma4Unified = {
    VisionName{"vision_embedder.patch_ln1.*", "v.patch_norm.1.*", L::kChannelsFirst},
    VisionName{"vision_embedder.patch_dense.weight", "v.patch_embd.weight", L::kChannelsFirst},
    VisionName{"vision_embedder.patch_dense.bias", "v.patch_embd.bias"},
    VisionName{"vision_embedder.patch_ln2.*", "v.patch_norm.2.*"},
    VisionName{"vision_embedder.pos_embedding", "v.position_embd.weight", L::kTurnTables},
    VisionName{"vision_embedder.pos_norm.*", "v.patch_norm.3.*"},
    VisionName{"embed_vision.embedding_projection.weight", "mm.input_projection.weight"},
    VisionName{"embed_audio.embedding_projection.weight", "mm.a.input_projection.weight"},
};

constexpr int kLanczos = 1, kBilinear = 2, kBicubic = 3;
constexpr std::string_view kTanh = "gelu_pytorch_tanh";
constexpr std::array kFamilies = {
    VisionFamily{"gemma3", "gemma3", kTanh, kBilinear, kSiglip},
    VisionFamily{"lfm2_vl", "lfm2", kTanh, kBilinear, kLfm2},
    VisionFamily{"lfm3_vl", "lfm3", "", kBicubic, kLfm3},
    VisionFamily{"idefics3", "idefics3", kTanh, kLanczos, kIdefics3},
    VisionFamily{"smolvlm", "idefics3", kTanh, kLanczos, kIdefics3},
    VisionFamily{"gemma4", "gemma4v", kTanh, kBicubic, kGemma4},
    VisionFamily{"gemma4_unified", "gemma4uv", "", kBicubic, kGemma4Unified},
    VisionFamily{"qwen2_vl", "qwen2vl_merger", "quick_gelu", kBicubic, kQwen},
    VisionFamily{"qwen2_5_vl", "qwen2.5vl_merger", "silu", kBicubic, kQwen},
    VisionFamily{"qwen3_vl", "qwen3vl_merger", kTanh, kBicubic, kQwen},
    VisionFamily{"qwen3_vl_moe", "qwen3vl_merger", kTanh, kBicubic, kQwen},
    VisionFamily{"qwen3_5", "qwen3vl_merger", kTanh, kBicubic, kQwen},
    VisionFamily{"qwen3_5_moe", "qwen3vl_merger", kTanh, kBicubic, kQwen},
};

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// What {} and * stand for. False: it is another name.
bool matches(std::string_view pattern, std::string_view name, std::string_view& number, std::string_view& ending) {
  number = ending = {};
  if (const std::size_t at = pattern.find("{}"); at != pattern.npos) {
    if (!take(name, pattern.substr(0, at))) return false;
    std::size_t digits = 0;
    while (digits < name.size() && digits < 5 && name[digits] >= '0' && name[digits] <= '9') ++digits;
    number = name.substr(0, digits);
    if (digits == 0) return false;
    name.remove_prefix(digits);
    pattern.remove_prefix(at + 2);
  }
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  if (!take(name, pattern)) return false;
  ending = name;
  return true;
}

}  // namespace

std::span<const VisionFamily> vision_families() { return kFamilies; }

std::string vision_name(const VisionFamily& family, std::string_view tensor, VisionLayout* layout) {
  take(tensor, "model.");
  std::string plain(tensor);
  if (const std::size_t at = plain.find("vision_model."); at != plain.npos) plain.erase(at, 13);
  if (const std::size_t at = plain.find(".linear."); at != plain.npos) plain.erase(at, 7);  // of matrices with bounds
  for (const VisionName& name : family.names) {
    std::string_view number, ending;
    if (!matches(name.folder, plain, number, ending)) continue;
    *layout = name.layout;
    std::string out(name.gguf);
    if (out.ends_with('*')) out.replace(out.size() - 1, 1, ending);
    if (const std::size_t at = out.find("{}"); at != out.npos) out.replace(at, 2, number);
    return out;
  }
  return {};
}

}  // namespace kvasir::hub
