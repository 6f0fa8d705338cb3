#include <fmt/format.h>

#include "base/error.hpp"
#include "model/synth.hpp"

namespace kvasir::model {
namespace {

const SynthTokens kLlama3Tokens = {.add_bos = true,
                                   .bos = 128000,
                                   .eos = 128009,
                                   .special = {{128000, "<|begin_of_text|>"},
                                               {128001, "<|end_of_text|>"},
                                               {128006, "<|start_header_id|>"},
                                               {128007, "<|end_header_id|>"},
                                               {128008, "<|eom_id|>"},
                                               {128009, "<|eot_id|>"}}};
const SynthTokens kGptOssTokens = {.bos = 199998,
                                   .eos = 200002,
                                   .special = {{199998, "<|startoftext|>"},
                                               {199999, "<|endoftext|>"},
                                               {200002, "<|return|>"},
                                               {200005, "<|channel|>"},
                                               {200006, "<|start|>"},
                                               {200007, "<|end|>"},
                                               {200008, "<|message|>"}}};
const SynthTokens kQwenTokens = {
    .bos = 151643,
    .eos = 151645,
    .special = {{151643, "<|endoftext|>"}, {151644, "<|im_start|>"}, {151645, "<|im_end|>"}}};
// Their own tokenizers are SentencePiece and gpt-4o; here all vocabularies are byte-level ones.
const SynthTokens kGemmaTokens = {
    .add_bos = true, .bos = 2, .eos = 1, .special = {{0, "<pad>"}, {1, "<eos>"}, {2, "<bos>"}, {3, "<unk>"}}};
const SynthTokens kDeepSeekTokens = {
    .bos = 100000, .eos = 100001, .special = {{100000, "<｜begin▁of▁sentence｜>"}, {100001, "<｜end▁of▁sentence｜>"}}};
const SynthTokens kPhiTokens = {
    .bos = 199999, .eos = 199999, .special = {{199999, "<|endoftext|>"}, {200020, "<|end|>"}}};

// A byte as GPT-2's vocabulary writes it: printable Latin-1 stands for itself, the others for U+0100 and up, in order.
std::string byte_symbol(int byte) {
  const auto printable = [](int b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; };
  int code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

const std::vector<std::pair<std::string, std::string>>& merge_pairs() {
  static const std::vector<std::pair<std::string, std::string>> pairs = {
      {"Ġ", "t"}, {"h", "e"}, {"i", "n"}, {"Ġ", "a"}, {"e", "r"}, {"Ġt", "he"}, {"o", "n"}, {"Ġ", "w"}, {"r", "e"}};
  return pairs;
}

}  // namespace

const std::vector<SynthShape>& synth_shapes() {
  static const std::vector<SynthShape> shapes = {
      {.name = "llama-3.2-1b",
       .arch = "llama",
       .pretokenizer = "llama-bpe",
       .layers = 16,
       .dim = 2048,
       .ffn = 8192,
       .heads = 32,
       .kv_heads = 8,
       .context = 131072,
       .vocab = 128256,
       .rope_base = 500000.f,
       .norm_epsilon = 1e-5f,
       .rope_factor = 32.f,
       .tied = true,
       .tokens = kLlama3Tokens},
      {.name = "llama-3.2-3b",
       .arch = "llama",
       .pretokenizer = "llama-bpe",
       .layers = 28,
       .dim = 3072,
       .ffn = 8192,
       .heads = 24,
       .kv_heads = 8,
       .head_dim = 128,
       .context = 131072,
       .vocab = 128256,
       .rope_base = 500000.f,
       .norm_epsilon = 1e-5f,
       .rope_factor = 32.f,
       .tied = true,
       .tokens = kLlama3Tokens},
      {.name = "llama-3.1-8b",
       .arch = "llama",
       .pretokenizer = "llama-bpe",
       .layers = 32,
       .dim = 4096,
       .ffn = 14336,
       .heads = 32,
       .kv_heads = 8,
       .head_dim = 128,
       .context = 131072,
       .vocab = 128256,
       .rope_base = 500000.f,
       .norm_epsilon = 1e-5f,
       .rope_factor = 8.f,
       .tokens = kLlama3Tokens},
      {.name = "smollm2-135m",
       .arch = "llama",
       .layers = 30,
       .dim = 576,
       .ffn = 1536,
       .heads = 9,
       .kv_heads = 3,
       .vocab = 49152,
       .rope_base = 100000.f,
       .norm_epsilon = 1e-5f,
       .tied = true},
      {.name = "qwen3-0.6b",
       .arch = "qwen3",
       .pretokenizer = "qwen2",
       .layers = 28,
       .dim = 1024,
       .ffn = 3072,
       .heads = 16,
       .kv_heads = 8,
       .head_dim = 128,
       .context = 40960,
       .vocab = 151936,
       .tied = true,
       .tokens = kQwenTokens},
      {.name = "gemma3-1b",
       .arch = "gemma3",
       .pretokenizer = "llama-bpe",
       .layers = 26,
       .dim = 1152,
       .ffn = 6912,
       .heads = 4,
       .head_dim = 256,
       .context = 32768,
       .vocab = 262144,
       .window = 512,
       .tied = true,
       .tokens = kGemmaTokens},
      {.name = "phi-4-mini",
       .arch = "phi3",
       .pretokenizer = "llama-bpe",
       .layers = 32,
       .dim = 3072,
       .ffn = 8192,
       .heads = 24,
       .kv_heads = 8,
       .head_dim = 128,
       .context = 131072,
       .vocab = 200064,
       .rope_base = 10000.f,
       .norm_epsilon = 1e-5f,
       .window = 262144,
       .rotated = 96,
       .original_context = 4096,
       .tied = true,
       .tokens = kPhiTokens},
      // Two layers of Qwen3-30B-A3B and of gpt-oss-20b: the whole models have 48 and 24 of the same.
      {.name = "qwen3-30b-a3b-2layers",
       .arch = "qwen3moe",
       .pretokenizer = "qwen2",
       .dim = 2048,
       .ffn = 6144,
       .heads = 32,
       .kv_heads = 4,
       .head_dim = 128,
       .context = 40960,
       .vocab = 151936,
       .experts = 128,
       .experts_used = 8,
       .expert_ffn = 768,
       .tokens = kQwenTokens},
      {.name = "gpt-oss-20b-2layers",
       .arch = "gpt-oss",
       .pretokenizer = "llama-bpe",
       .dim = 2880,
       .ffn = 2880,
       .heads = 64,
       .kv_heads = 8,
       .context = 131072,
       .vocab = 201088,
       .rope_base = 150000.f,
       .norm_epsilon = 1e-5f,
       .window = 128,
       .original_context = 4096,
       .yarn = 32.f,
       .experts = 32,
       .experts_used = 4,
       .expert_ffn = 2880,
       .tokens = kGptOssTokens},
      // A dense layer of DeepSeek-V2-Lite and one of its 26 layers with experts.
      {.name = "deepseek-v2-lite-2layers",
       .arch = "deepseek2",
       .pretokenizer = "llama-bpe",
       .dim = 2048,
       .ffn = 10944,
       .heads = 16,
       .head_dim = 192,
       .context = 163840,
       .vocab = 102400,
       .rope_base = 10000.f,
       .rotated = 64,
       .experts = 64,
       .experts_used = 6,
       .expert_ffn = 1408,
       .experts_shared = 2,
       .dense_layers = 1,
       .latent = 512,
       .latent_values = 128,
       .tokens = kDeepSeekTokens},
      {.name = "qwen3.5-0.8b",
       .arch = "qwen35",
       .pretokenizer = "qwen2",
       .layers = 24,
       .dim = 1024,
       .ffn = 3584,
       .heads = 8,
       .kv_heads = 2,
       .head_dim = 256,
       .context = 262144,
       .vocab = 248320,
       .rope_base = 10000000.f,
       .rotated = 64,
       .delta_key_heads = 16,
       .delta_heads = 16,
       .delta_dim = 128,
       .attention_interval = 4,
       .tied = true,
       .tokens = kQwenTokens},
      // Every dimension is a multiple of 256, so that every weight type occurs without a fallback.
      {.name = "tiny",
       .arch = "llama",
       .layers = 3,
       .dim = 256,
       .ffn = 768,
       .heads = 4,
       .kv_heads = 2,
       .rope_base = 10000.f,
       .norm_epsilon = 1e-5f},
      // Two layers of three passes each.
      {.name = "tiny-loops",
       .arch = "nanbeige",
       .layers = 2,
       .dim = 128,
       .ffn = 256,
       .heads = 4,
       .kv_heads = 2,
       .rope_base = 10000.f,
       .norm_epsilon = 1e-5f,
       .loops = 3},
      // Six layers with a window of two to four pages, then one without.
      {.name = "tiny-local", .arch = "gemma3", .layers = 7, .window = 300},
      {.name = "tiny-experts",
       .arch = "qwen3moe",
       .layers = 3,
       .dim = 256,
       .ffn = 512,
       .heads = 4,
       .kv_heads = 2,
       .rope_base = 10000.f,
       .norm_epsilon = 1e-5f,
       .experts = 10,
       .experts_used = 3,
       .expert_ffn = 256},
      // Five of six layers have a state.
      {.name = "tiny-states",
       .arch = "qwen35",
       .layers = 6,
       .rotated = 16,
       .delta_key_heads = 2,
       .delta_heads = 4,
       .delta_dim = 32,
       .attention_interval = 5},
      // The last two of four layers read what the first two keep, one with a window and one without.
      {.name = "tiny-shared", .arch = "gemma4", .layers = 4, .window = 300, .shared_layers = 2},
      // With a block that predicts further tokens, rightly.
      {.name = "tiny-mtp",
       .arch = "qwen35",
       .layers = 1,
       .rotated = 16,
       .delta_key_heads = 2,
       .delta_heads = 4,
       .delta_dim = 32,
       .attention_interval = 1,
       .nextn = 1,
       .drafts_right = true},
      // Layers with a state, and a block of random weights.
      {.name = "tiny-mtp-states",
       .arch = "qwen35",
       .layers = 4,
       .rotated = 16,
       .delta_key_heads = 2,
       .delta_heads = 4,
       .delta_dim = 32,
       .attention_interval = 4,
       .nextn = 1,
       .tied = true},
      // Latent attention, experts in the last layer and in the block.
      {.name = "tiny-mtp-latent",
       .arch = "deepseek2",
       .heads = 4,
       .head_dim = 48,
       .rope_base = 10000.f,
       .rotated = 16,
       .experts = 8,
       .experts_used = 2,
       .expert_ffn = 64,
       .experts_shared = 1,
       .dense_layers = 1,
       .latent = 48,
       .latent_values = 32,
       .nextn = 1},
      {.name = "tiny-mtp-experts",
       .arch = "glm4moe",
       .rope_base = 10000.f,
       .norm_epsilon = 1e-5f,
       .rotated = 32,
       .experts = 8,
       .experts_used = 2,
       .expert_ffn = 64,
       .experts_shared = 1,
       .dense_layers = 1,
       .nextn = 1},
  };
  return shapes;
}

std::string synth_shape_names() {
  std::string list;
  for (const SynthShape& s : synth_shapes()) list.append(list.empty() ? "" : ", ").append(s.name);
  return list;
}

const SynthShape& find_synth_shape(std::string_view name) {
  for (const SynthShape& s : synth_shapes())
    if (s.name == name) return s;
  throw Error(Code::kBadInput, fmt::format("unknown model shape '{}'; expected one of {}", name, synth_shape_names()));
}

std::vector<std::string> synth_merges() {
  std::vector<std::string> merges;
  for (const auto& [left, right] : merge_pairs()) merges.push_back(left + " " + right);
  return merges;
}

std::vector<std::string> synth_tokens(const SynthShape& shape) {
  std::vector<std::string> tokens(static_cast<std::size_t>(shape.vocab));
  for (const SpecialToken& s : shape.tokens.special) tokens.at(static_cast<std::size_t>(s.id)) = s.text;
  std::size_t at = 0;
  const auto put = [&](std::string text) {
    while (!tokens.at(at).empty()) ++at;
    tokens[at] = std::move(text);
  };
  for (int b = 0; b < 256; ++b) put(byte_symbol(b));
  for (const auto& [left, right] : merge_pairs()) put(left + right);
  for (; at < tokens.size(); ++at)
    if (tokens[at].empty()) tokens[at] = fmt::format("Ġfiller{}", at);
  return tokens;
}

}  // namespace kvasir::model
