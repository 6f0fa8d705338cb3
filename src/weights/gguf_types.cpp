#include <algorithm>
#include <optional>

#include "weights/gguf.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

// Every tensor type that ggml has ever numbered, whether weights/quants has an entry for it or not: a new entry whose
// name is here is read and written without an edit. `file_type` (llama.cpp's `llama_ftype`) is that of a file that is
// mostly this type, of the mix "M" where there are several; -1: there is none.
struct Known {
  std::uint32_t type;
  std::int32_t file_type;
  std::string_view name;  // that of the entry
};
constexpr Known kKnown[] = {
    {0, 0, "f32"},      {1, 1, "f16"},       {2, 2, "q4_0"},     {3, 3, "q4_1"},      {4, -1, "q4_2"},
    {5, -1, "q4_3"},    {6, 8, "q5_0"},      {7, 9, "q5_1"},     {8, 7, "q8_0"},      {9, -1, "q8_1"},
    {10, 10, "q2_k"},   {11, 12, "q3_k"},    {12, 15, "q4_k"},   {13, 17, "q5_k"},    {14, 18, "q6_k"},
    {15, -1, "q8_k"},   {16, 19, "iq2_xxs"}, {17, 20, "iq2_xs"}, {18, 23, "iq3_xxs"}, {19, 24, "iq1_s"},
    {20, 25, "iq4_nl"}, {21, 26, "iq3_s"},   {22, 28, "iq2_s"},  {23, 30, "iq4_xs"},  {24, -1, "i8"},
    {25, -1, "i16"},    {26, -1, "i32"},     {27, -1, "i64"},    {28, -1, "f64"},     {29, 31, "iq1_m"},
    {30, 32, "bf16"},   {34, 36, "tq1_0"},   {35, 37, "tq2_0"},  {39, 38, "mxfp4"},   {40, 39, "nvfp4"},
    {41, 40, "q1_0"},   {42, 41, "q2_0"},
};

// Those, and the entries that bring numbers of their own.
template <class Is>
std::optional<Known> known_that(Is is) {
  for (const Known& k : kKnown)
    if (is(k)) return k;
  for (const Entry<Quant>& e : quants()) {
    if (!e.value || e.value->gguf_type < 0) continue;  // null only in registry_weights (cmake/probe.cmake)
    const Known k{static_cast<std::uint32_t>(e.value->gguf_type), e.value->gguf_file_type, e.name};
    if (is(k)) return k;
  }
  return std::nullopt;
}
std::optional<Known> known(std::uint32_t type) {
  return known_that([&](const Known& k) { return k.type == type; });
}
std::optional<Known> known(std::string_view quant) {
  return known_that([&](const Known& k) { return k.name == quant; });
}

std::optional<BlockType> block_type(const std::optional<Known>& k) {
  const Quant* quant = k ? find(quants(), k->name) : nullptr;
  if (!quant) return std::nullopt;
  return BlockType{k->name, k->type, quant->block, quant->block_bytes};
}

}  // namespace

std::string ggml_type_name(std::uint32_t type) {
  const std::optional<Known> k = known(type);
  if (!k) return {};
  std::string name(k->name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>('a' <= c && c <= 'z' ? c - 'a' + 'A' : c); });
  return name;
}

std::optional<std::uint32_t> gguf_file_type(std::string_view quant) {
  const std::optional<Known> k = known(quant);
  if (!k || k->file_type < 0) return std::nullopt;
  return static_cast<std::uint32_t>(k->file_type);
}

std::optional<BlockType> find_block_type(std::uint32_t ggml_type) { return block_type(known(ggml_type)); }
std::optional<BlockType> find_block_type(std::string_view quant) { return block_type(known(quant)); }

std::string block_type_names() {
  std::string list;
  for (const Entry<Quant>& e : quants())
    if (known(e.name)) list += (list.empty() ? "" : ", ") + std::string(e.name);
  return list;
}

}  // namespace kvasir::weights
