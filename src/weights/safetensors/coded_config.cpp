// What configurations say of the codes of compressed-tensors and MLX.
#include <fmt/format.h>

#include <algorithm>

#include "weights/safetensors/coded_rows.hpp"

namespace kvasir::weights {
namespace {

constexpr std::string_view kFormats[] = {"pack-quantized",  "int-quantized",        "float-quantized",
                                         "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized",
                                         "mxfp8-quantized", "mixed-precision"};
constexpr std::string_view kModes[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};

void check_format(const ConfigFields& fields, const char* name) {
  const auto format = fields.text_if(name);
  if (format && std::find(std::begin(kFormats), std::end(kFormats), *format) == std::end(kFormats)) {
    std::string known;
    for (const std::string_view f : kFormats) known += fmt::format("{}{}", known.empty() ? "" : ", ", f);
    fields.unsupported(name, fmt::format("is '{}', expected one of {}", format->substr(0, 40), known));
  }
}

// Activations are not rounded here, so what is said of them changes nothing.
void read_weights(const ConfigFields& of, CodedConfig& c) {
  const std::string type = of.text_if("type").value_or("int"), strategy = of.text_if("strategy").value_or("tensor");
  const auto bits = of.integer_if("num_bits", 1, 64).value_or(8);
  if (type != "int" && type != "float") of.unsupported("type", fmt::format("is '{}'", type.substr(0, 40)));
  if (type == "int" ? bits < 2 || bits > 8 : bits != 4 && bits != 8)
    of.unsupported("num_bits", fmt::format("is {}, expected {}", bits, type == "int" ? "2 to 8" : "4 or 8"));
  if (type == "int" && std::find(c.bits.begin(), c.bits.end(), bits) == c.bits.end())
    c.bits.push_back(static_cast<int>(bits));
  const std::string order = of.text_if("actorder").value_or("");
  if (!order.empty() && order != "group" && order != "weight" && order != "static" && order != "dynamic")
    of.unsupported("actorder", fmt::format("is '{}', expected 'group' or 'weight'", order.substr(0, 40)));
  if (strategy != "block") return;
  const FolderJson* size = of.array("block_structure");
  if (!size || size->size() != 2 || !(*size)[0].is_number_unsigned() || !(*size)[1].is_number_unsigned())
    of.bad("block_structure", "expected two numbers of at least 1");
  const F8Blocks blocks{(*size)[0].get<std::int64_t>(), (*size)[1].get<std::int64_t>()};
  if (blocks.rows < 1 || blocks.columns < 1) of.bad("block_structure", "expected two numbers of at least 1");
  if (c.blocks.rows != 0 && (c.blocks.rows != blocks.rows || c.blocks.columns != blocks.columns))
    of.unsupported("block_structure", "is not the same of all layers");
  c.blocks = blocks;
}

// As MLX reads them: what has no mode is affine, whatever the others are, and each mode has a group and a width of its
// own.
MlxCodes read_codes(const ConfigFields& of) {
  MlxCodes codes;
  codes.mode = of.text_if("mode").value_or("affine");
  const std::int64_t group = codes.mode == "affine" ? 64 : codes.mode == "nvfp4" ? 16 : 32;
  codes.group = of.integer_if("group_size", 1, 1 << 20).value_or(group);
  codes.bits = static_cast<int>(of.integer_if("bits", 1, 64).value_or(codes.mode == "mxfp8" ? 8 : 4));
  if (std::find(std::begin(kModes), std::end(kModes), codes.mode) == std::end(kModes))
    of.unsupported("mode", fmt::format("is '{}', expected affine, mxfp4, mxfp8 or nvfp4", codes.mode.substr(0, 40)));
  if (codes.bits < 2 || codes.bits > 8 || codes.bits == 7)
    of.unsupported("bits", fmt::format("is {}, expected 2 to 6 or 8", codes.bits));
  return codes;
}

}  // namespace

std::optional<CodedConfig> read_compressed_config(const ConfigFields& fields) {
  if (fields.text_if("quant_method") != "compressed-tensors") return std::nullopt;
  CodedConfig c;
  check_format(fields, "format");
  if (const FolderJson* turned = fields.object("transform_config"))
    if (const auto groups = turned->find("config_groups"); groups != turned->end() && !groups->empty())
      fields.unsupported("transform_config", "rotates what is multiplied, which is not computed here");
  if (const FolderJson* sparse = fields.object("sparsity_config"))
    if (const auto format = sparse->find("format"); format != sparse->end() && *format != "dense")
      fields.unsupported("sparsity_config",
                         fmt::format("is of format {}, expected dense", format->dump().substr(0, 40)));
  const FolderJson* groups = fields.object("config_groups");
  if (!groups) return c;
  for (const auto& [name, group] : groups->items()) {
    const std::string prefix = fmt::format("quantization_config.config_groups.{}.", name.substr(0, 40));
    if (!group.is_object()) fields.bad("config_groups", "holds no object");
    const ConfigFields one(group, fields.path(), prefix);
    check_format(one, "format");
    const FolderJson* weights = one.object("weights");
    if (!weights) one.bad("weights", "is missing");
    read_weights(ConfigFields(*weights, fields.path(), prefix + "weights."), c);
  }
  return c;
}

CodedConfig read_mlx_config(const FolderJson& quantization, const std::string& path) {
  CodedConfig c{.mlx = true};
  c.codes = read_codes(ConfigFields(quantization, path, "quantization."));
  for (const auto& [name, value] : quantization.items())
    if (value.is_object())
      c.other[name] = read_codes(ConfigFields(value, path, "quantization." + name.substr(0, 80) + "."));
  return c;
}

}  // namespace kvasir::weights
