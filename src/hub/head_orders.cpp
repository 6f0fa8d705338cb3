#include "hub/head_orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "weights/safetensors/made.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

[[noreturn]] void wrong_heads(const std::string& tensor, const std::string& why, const std::string& path) {
  throw Error(Code::kBadInput, fmt::format("tensor {}: {}", tensor.substr(0, 200), why), path);
}

// Row or channel i of the values as GGUF has it is number tiled(i) here: heads of one key head lie together.
std::int64_t tiled(const TiledHeads& h, std::int64_t i, std::int64_t size) {
  const std::int64_t head = i / size, own = h.value_heads / h.key_heads;
  return (head % h.key_heads * own + head / h.key_heads) * size + i % size;
}

}  // namespace

std::pair<TensorInfo, TensorInfo> latent_by_heads(const Configuration& c, const Place& place, const TensorInfo& info,
                                                  const std::string& path) {
  const LatentHeads& l = c.latent;
  const std::int64_t each = l.keys + l.values;
  if (l.heads < 1 || info.rank != 2 || info.rows() != l.heads * each)
    wrong_heads(info.name,
                fmt::format("has {} rows, expected {} heads of {} and {}", info.rows(), l.heads, l.keys, l.values),
                path);
  std::vector<std::int64_t> keys, values;
  for (std::int64_t h = 0; h < l.heads; ++h) {
    for (const std::int64_t r : counted(h * each, l.keys)) keys.push_back(r);
    for (const std::int64_t r : counted(h * each + l.keys, l.values)) values.push_back(r);
  }
  const std::string stem = place.name.substr(0, place.name.size() - std::string_view("kv_b.weight").size());
  TensorInfo k = turned(picked(info, std::move(keys), l.heads)), v = picked(info, std::move(values), l.heads);
  k.name = stem + "k_b.weight";
  v.name = stem + "v_b.weight";
  k.rank = v.rank = 3;
  return {std::move(k), std::move(v)};
}

TensorInfo by_heads(const Configuration& c, const Place& place, TensorInfo info, const std::string& path) {
  const TiledHeads& h = c.tiled;
  if (h.value_heads == 0 || place.layer < 0) return info;
  const std::string_view name = std::string_view(place.name).substr(place.name.find('.', 4) + 1);
  const auto expect = [&](std::int64_t got, std::int64_t want, const char* what) {
    if (got != want) wrong_heads(info.name, fmt::format("has {} {}, expected {}", got, what, want), path);
  };
  const std::int64_t inner = h.value_heads * h.values;
  if (name == "ssm_out.weight") {
    expect(info.columns(), inner, "columns");
    std::vector<std::int64_t> heads;
    for (std::int64_t i = 0; i < h.value_heads; ++i) heads.push_back(tiled(h, i, 1));
    return with_columns(std::move(info), std::move(heads), h.values);
  }
  const bool one = name == "ssm_alpha.weight" || name == "ssm_beta.weight";
  const bool shared = name == "attn_qkv.weight" || name == "ssm_conv1d.weight";
  // In layers of attention attn_qkv does not occur and attn_gate is no name.
  if (!one && !shared && name != "attn_gate.weight") return info;
  const std::int64_t size = one ? 1 : h.values, before = shared ? h.before : 0;
  expect(info.rows(), before + h.value_heads * size, "rows");
  std::vector<std::int64_t> rows = counted(0, before);
  for (std::int64_t i = 0; i < h.value_heads * size; ++i) rows.push_back(before + tiled(h, i, size));
  return picked(std::move(info), std::move(rows));
}

void vector_by_heads(const Configuration& c, const Place& place, const TensorInfo& info, std::vector<float>& x,
                     const std::string& path) {
  const TiledHeads& h = c.tiled;
  std::vector<std::int64_t> from;
  if (place.make == Make::kByHead) {
    from = fused_rows(c, place.make, info.columns(), info.name, path);
  } else if (h.value_heads > 0 && (place.name.ends_with("ssm_a") || place.name.ends_with("ssm_dt.bias"))) {
    if (info.columns() != h.value_heads)
      wrong_heads(info.name, fmt::format("has {} numbers, expected {}", info.columns(), h.value_heads), path);
    for (std::int64_t i = 0; i < h.value_heads; ++i) from.push_back(tiled(h, i, 1));
  } else {
    return;
  }
  const std::vector<float> read = x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = read[static_cast<std::size_t>(from[i])];
}

std::vector<std::int64_t> fused_rows(const Configuration& c, Make make, std::int64_t rows, const std::string& name,
                                     const std::string& path) {
  const bool four = make == Make::kByFour;
  const std::int64_t kv = four ? 4 : c.kv_heads, each = four ? 3 : c.heads / kv + 2;
  if (rows % (kv * each) != 0)
    wrong_heads(name, fmt::format("has {} rows, expected a multiple of {}", rows, kv * each), path);
  const std::int64_t d = rows / (kv * each), key = each - (four ? 1 : 2);
  std::vector<std::int64_t> queries, keys, values;
  for (std::int64_t h = 0; h < kv * each; ++h) {
    auto& to = h % each < each - 2 ? queries : h % each == key ? keys : values;
    for (const std::int64_t r : counted(h * d, d)) to.push_back(r);
  }
  queries.insert(queries.end(), keys.begin(), keys.end());
  if (c.family.pairs) {  // as pairs_of
    const std::vector<std::int64_t> read = queries;
    for (std::int64_t i = 0; i < std::ssize(read); ++i)
      queries[static_cast<std::size_t>(i)] = read[static_cast<std::size_t>(i - i % d + i % 2 * (d / 2) + i % d / 2)];
  }
  queries.insert(queries.end(), values.begin(), values.end());
  return queries;
}

std::int64_t pairs_of(const Configuration& c, std::string_view name) {
  if (!c.family.pairs) return 0;
  for (const char* q : {".attn_q.weight", ".attn_q.bias"})
    if (name.ends_with(q)) return c.heads;
  for (const char* k : {".attn_k.weight", ".attn_k.bias"})
    if (name.ends_with(k)) return c.kv_heads;
  return 0;
}

}  // namespace kvasir::hub
