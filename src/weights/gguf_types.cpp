#include <span>

#include "weights/gguf.hpp"

namespace kvasir::weights {
namespace {

constexpr BlockType kTypes[] = {
    {"f32", 0, 1, 4},       {"f16", 1, 1, 2},       {"bf16", 30, 1, 2},     {"q8_0", 8, 32, 34},
    {"q4_0", 2, 32, 18},    {"q4_1", 3, 32, 20},    {"q5_0", 6, 32, 22},    {"q5_1", 7, 32, 24},
    {"q2_k", 10, 256, 84},  {"q3_k", 11, 256, 110}, {"q4_k", 12, 256, 144}, {"q5_k", 13, 256, 176},
    {"q6_k", 14, 256, 210},
};

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

const BlockType* find_block_type(std::uint32_t ggml_type) {
  for (const BlockType& t : kTypes)
    if (t.ggml_type == ggml_type) return &t;
  return nullptr;
}

const BlockType* find_block_type(std::string_view quant) {
  for (const BlockType& t : kTypes)
    if (t.quant == quant) return &t;
  return nullptr;
}

std::string block_type_names() {
  std::string list;
  for (const BlockType& t : kTypes) list.append(list.empty() ? "" : ", ").append(t.quant);
  return list;
}

}  // namespace kvasir::weights
