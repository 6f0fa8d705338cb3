#include "weights/gguf.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

BlockType block_type(const Entry<Quant>& e) {
  return {e.name, static_cast<std::uint32_t>(e.value->ggml_type), e.value->block, e.value->block_bytes};
}

struct Name {
  std::uint32_t type;
  const char* name;
};
constexpr Name kNames[] = {
    {0, "F32"},    {1, "F16"},    {2, "Q4_0"},     {3, "Q4_1"},    {4, "Q4_2"},     {5, "Q4_3"},   {6, "Q5_0"},
    {7, "Q5_1"},   {8, "Q8_0"},   {9, "Q8_1"},     {10, "Q2_K"},   {11, "Q3_K"},    {12, "Q4_K"},  {13, "Q5_K"},
    {14, "Q6_K"},  {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},   {27, "I64"},
    {28, "F64"},   {29, "IQ1_M"}, {30, "BF16"},    {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},
};

}  // namespace

std::string ggml_type_name(std::uint32_t type) {
  for (const Name& n : kNames)
    if (n.type == type) return n.name;
  return "type " + std::to_string(type);
}

std::optional<BlockType> find_block_type(std::uint32_t ggml_type) {
  for (const Entry<Quant>& e : quants())
    if (static_cast<std::uint32_t>(e.value->ggml_type) == ggml_type) return block_type(e);
  return std::nullopt;
}

std::optional<BlockType> find_block_type(std::string_view quant) {
  for (const Entry<Quant>& e : quants())
    if (e.name == quant) return block_type(e);
  return std::nullopt;
}

std::string block_type_names() { return names(quants()); }

}  // namespace kvasir::weights
