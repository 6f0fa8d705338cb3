#include "model/relocation.hpp"

#include <algorithm>
#include <variant>

namespace kvasir::model {
namespace {

// Frequencies are those of the whole run: files whose frequencies change with the length that is reached are read with
// those of --ctx (rope.cpp), so they do not change under a page.
const char* why_not(const LayerSpec& layer, bool whole_windows) {
  if (layer.beside) return "has a state, which is one of all tokens before it";
  if (std::holds_alternative<NoMixer>(layer.mixer)) return nullptr;
  const auto* const a = std::get_if<Attention>(&layer.mixer);
  if (!a) return "is recurrent: its state is one of all tokens before it";
  if (a->indexer || a->chosen_by >= 0)
    return "reads the tokens that an index chooses, of whose rows only a part has a position";
  if (a->latent) return "is latent: only a part of its rows has a position";
  if (a->window > 0 && !whole_windows)
    return "has a window: it keeps no pages of tokens that are out of sight, unless the program was started with "
           "--reuse blend or --whole-windows";
  if (a->k_smoothing) return "has keys that go through a convolution of the tokens before them";
  if (!a->slopes.empty()) return "has linear biases, which are distances within its own text";
  if (a->norm_after_rope && a->k_norm) return "norms its keys after they were turned";
  return nullptr;
}

}  // namespace

bool has_windows(const ModelSpec& spec) {
  return std::any_of(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) {
    const auto* const a = std::get_if<Attention>(&layer.mixer);
    return a && a->window > 0;
  });
}

std::string why_not_relocated(const ModelSpec& spec, bool whole_windows) {
  if (!spec.causal) return "the model reads a text from both ends";
  if (spec.embedding.positions) return "the model adds learned positions to its tokens";
  for (std::size_t i = 0; i < spec.layers.size(); ++i)
    if (const char* why = why_not(spec.layers[i], whole_windows)) return "layer " + std::to_string(i) + " " + why;
  return {};
}

int check_layer(const ModelSpec& spec, int first) {
  for (int i = first; i < spec.layer_count(); ++i) {
    const auto* const a = std::get_if<Attention>(&spec.layers[static_cast<std::size_t>(i)].mixer);
    if (a && a->k) return i;
  }
  return -1;
}

}  // namespace kvasir::model
