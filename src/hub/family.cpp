#include "hub/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "hub/encoder_names.hpp"
#include "hub/family_names.hpp"

namespace kvasir::hub {

namespace {

bool takes(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The tensor `name` of a table: as it stands there, or with ".weight" or ".bias" behind it.
std::optional<Place> find(std::span<const Rename> names, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot == name.npos ? 0 : dot);
  const std::string_view kind = dot == name.npos ? std::string_view() : name.substr(dot);
  for (const Rename& r : names) {
    if (r.from == name) return Place{.name = std::string(r.to), .make = r.make};
    if (r.from == stem && (kind == ".weight" || kind == ".bias"))
      return Place{.name = fmt::format("{}{}", r.to, kind), .make = r.make};
  }
  return std::nullopt;
}

// The number that `text` begins with, which is taken off; -1: none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 0 || n > (1 << 24)) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

// "0.mlp.up_proj.weight" -> blk.0.ffn_up.weight.
std::optional<Place> of_layer(const Family& family, std::string_view rest, std::int64_t first = 0) {
  const std::int64_t number = take_number(rest), layer = first + number;
  if (number < 0 || !takes(rest, ".")) return std::nullopt;
  std::string name(rest);
  std::int64_t expert = -1;
  for (const std::string_view list : {"experts.", "ngram_embedding.shard_"})
    if (const std::size_t at = rest.find(list); at != rest.npos) {
      std::string_view behind = rest.substr(at + list.size());
      expert = take_number(behind);
      if (expert >= 0) name = fmt::format("{}*{}", rest.substr(0, at + list.size()), behind);
    }
  std::optional<Place> place = find(family.names, name);
  if (!place && takes(rest, "post_attention_layernorm."))
    place = Place{.name = fmt::format("{}.{}", family.post_norms ? "post_attention_norm" : "ffn_norm", rest)};
  if (!place) place = find(kOfLayer, name);
  if (!place) return std::nullopt;
  if (place->make != Make::kNumber && place->make != Make::kNumbers && place->make != Make::kShard)
    place->name = fmt::format("blk.{}.{}", layer, place->name);
  place->expert = expert;
  place->layer = static_cast<int>(layer);
  return place;
}

// Tensors of encoders, whose names begin with the model's own where there is a head beside it.
std::optional<Place> of_encoder(const Family& family, std::string_view rest) {
  takes(rest, "bert.") || takes(rest, "roberta.") || takes(rest, "distilbert.") || takes(rest, "nomic_bert.") ||
      takes(rest, "gte.") || takes(rest, "new.") || takes(rest, "model.");
  for (const std::string_view unused : kUnusedOfEncoder)
    if (rest.starts_with(unused)) return Place{};
  if (auto place = find(kOfEncoder, rest)) {
    if (family.behind_two && place->name == "position_embd.weight") place->make = Make::kBehindTwo;
    return place;
  }
  if (takes(rest, "encoder.layer.") || takes(rest, "encoder.layers.") || takes(rest, "transformer_encoder.") ||
      takes(rest, "transformer.layer.") || takes(rest, "layers."))
    return of_layer(family, rest);
  return std::nullopt;
}

}  // namespace

std::span<const Rename> granite_without_experts() { return kGraniteDense; }

Family family_of(std::string_view model_type, const std::string& path) {
  std::vector<std::string_view> known;
  for (Family& f : families()) {
    for (const std::string_view type : f.types) {
      if (type == model_type) {
        f.model_type = type;
        return f;
      }
      known.push_back(type);
    }
  }
  std::sort(known.begin(), known.end());
  throw Error(Code::kUnsupported,
              fmt::format("'model_type' is '{}', expected one of {}; other models run from GGUF files",
                          model_type.substr(0, 80), fmt::join(known, ", ")),
              path);
}

Family family_of_arch(std::string_view arch, const std::string& path) {
  for (Family& f : families()) {
    if (f.arch != arch) continue;
    f.model_type = f.types.front();
    return f;
  }
  throw Error(Code::kUnsupported, fmt::format("the names of {} models in folders are not known", arch), path);
}

Place place_of(const Family& family, std::string_view name, const std::string& path) {
  std::string_view rest = name;
  if (family.encoder)
    if (auto place = of_encoder(family, rest)) return *place;
  for (const char* buffer : {".rotary_emb.inv_freq", ".masked_bias", ".attn.bias", ".attention.bias"})
    if (rest.ends_with(buffer)) return {};
  for (const std::string_view model : {"", "model."})
    for (const std::string_view other :
         {"vision_tower.", "multi_modal_projector.", "visual.", "audio_tower.", "embed_vision.", "embed_audio.",
          "vision_embedder.", "vision_model.", "connector.", "mtp."})
      if (rest.starts_with(model) && rest.substr(model.size()).starts_with(other)) return {};
  takes(rest, "model.llm.") || takes(rest, "model.language_model.") || takes(rest, "model.text_model.") ||
      takes(rest, "language_model.model.") || takes(rest, "language_model.") || takes(rest, "model.decoder.") ||
      takes(rest, "model.") || takes(rest, "backbone.") || takes(rest, "gpt_neox.") || takes(rest, "transformer.") ||
      takes(rest, "decoder.");
  if (auto place = find(kOfModel, rest)) return *place;
  // Inkling 2: what layers read of the states of blocks; the first layer's attention has none.
  for (const auto& [list, to, first] : {std::tuple("attn_res.attn_queries.", "attn_mixture", 1),
                                        std::tuple("attn_res.mlp_queries.", "ffn_mixture", 0)}) {
    std::string_view number = rest;
    if (!takes(number, list)) continue;
    const std::int64_t layer = take_number(number) + first;
    if (layer >= first && number.empty())
      return {.name = fmt::format("blk.{}.{}.weight", layer, to), .layer = static_cast<int>(layer)};
  }
  std::string_view layer = rest;
  const bool upper = family.upper_stack > 0 && !takes(layer, "L_module.") && takes(layer, "H_module.");
  if (takes(layer, "layers.") || takes(layer, "h.") || takes(layer, "blocks."))
    if (auto place = of_layer(family, layer, upper ? family.upper_stack : 0)) return *place;
  throw Error(Code::kUnsupported,
              fmt::format("tensor {}: is none of a {} model's", name.substr(0, 200), family.model_type), path);
}

}  // namespace kvasir::hub
