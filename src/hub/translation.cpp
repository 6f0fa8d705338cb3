#include "hub/translation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "hub/head_orders.hpp"
#include "weights/quant.hpp"
#include "weights/safetensors/f8_rows.hpp"
#include "weights/safetensors/int4_rows.hpp"
#include "weights/safetensors/made.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

struct Kind {
  std::string_view dtype, quant;
};
constexpr Kind kKinds[] = {{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}};
constexpr double kAbsent = std::numeric_limits<double>::infinity();
constexpr std::string_view kBlocks = "_blocks", kScales = "_scales", kWeight = ".weight";

[[noreturn]] void fail(Code code, std::string_view tensor, const std::string& why, const std::string& path) {
  throw Error(code, fmt::format("tensor {}: {}", tensor.substr(0, 200), why), path);
}

std::string with(std::string name, std::string_view star) {
  if (const std::size_t at = name.find('*'); at != name.npos) name.replace(at, 1, star);
  return name;
}

std::string_view quant_of(const ShardTensor& t, const std::string& path) {
  for (const Kind& k : kKinds)
    if (k.dtype == t.dtype) return k.quant;
  fail(Code::kUnsupported, t.name, fmt::format("is {}, expected F32, F16, BF16, F8_E4M3 or F8_E5M2", t.dtype), path);
}

TensorInfo described(const ShardTensor& t, const std::string& path) {
  std::vector<std::int64_t> shape(t.shape.begin(), t.shape.end());
  if (shape.size() == 4) shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());  // (1, 1, heads, 1)
  if (shape.empty() || shape.size() > 3 || t.bytes.empty())
    fail(Code::kBadInput, t.name,
         fmt::format("has {} dimensions and {} bytes, expected a vector or matrices", t.shape.size(), t.bytes.size()),
         path);
  TensorInfo info;
  info.quant = quant_of(t, path);
  info.rank = static_cast<int>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) info.shape[d] = shape[shape.size() - 1 - d];
  info.bytes = t.bytes;
  return info;
}

std::vector<std::int64_t> integers_of(const ShardTensor& t, const std::string& path) {
  if (t.dtype != "I64" || t.shape.size() != 1)
    fail(Code::kBadInput, t.name, fmt::format("is {}, expected a vector of I64", t.dtype), path);
  std::vector<std::int64_t> out(t.bytes.size() / sizeof(std::int64_t));
  std::memcpy(out.data(), t.bytes.data(), out.size() * sizeof(std::int64_t));
  return out;
}

// A permutation.
std::vector<float> whole_numbers_of(const ShardTensor& t, const std::string& path) {
  const std::vector<std::int64_t> numbers = integers_of(t, path);
  std::vector<float> out;
  std::vector<bool> seen(numbers.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::int64_t n = numbers[i];
    if (n < 0 || std::cmp_greater_equal(n, seen.size()) || seen[static_cast<std::size_t>(n)])
      fail(Code::kBadInput, t.name, fmt::format("has {} at {}, expected every number below {} once", n, i, seen.size()),
           path);
    seen[static_cast<std::size_t>(n)] = true;
    out.push_back(static_cast<float>(n));
  }
  return out;
}

// Rows times the family's factors.
TensorInfo times_factors(const Configuration& c, const Place& place, TensorInfo info, const std::string& path) {
  if (c.factors.empty() || place.layer < 0 || !place.name.ends_with(kWeight)) return info;
  const std::size_t dot = place.name.find('.', 4) + 1;
  const auto it = c.factors.find(std::string_view(place.name).substr(dot, place.name.size() - kWeight.size() - dot));
  if (it == c.factors.end()) return info;
  std::vector<float> by_row;
  for (const auto& [rows, factor] : it->second)
    by_row.insert(by_row.end(), static_cast<std::size_t>(std::min(rows, info.rows())), factor);
  if (std::cmp_not_equal(by_row.size(), info.rows()))
    fail(Code::kBadInput, info.name, fmt::format("has {} rows, expected {}", info.rows(), by_row.size()), path);
  if (std::all_of(by_row.begin(), by_row.end(), [](float f) { return f == 1.0f; })) return info;
  return multiplied(std::move(info), std::move(by_row));
}

}  // namespace

bool unused(const Configuration& c, const Place& place) {
  if (place.layer >= c.layers && place.layer < c.layers + c.predicting) return true;
  return place.name.empty();
}

void Translation::add(const ShardTensor& t, const std::string& path) {
  if (configuration_.int4)
    if (const auto part = int4_part(t.name, configuration_.int4->method)) {
      int4_parts_[part->stem][part->part] = t;
      return;
    }
  if (configuration_.coded)
    if (const auto part = coded_part(t, *configuration_.coded)) {
      coded_parts_[part->stem][part->part] = t;
      return;
    }
  if (t.dtype == "U8" && t.name.ends_with(kBlocks)) {
    mxfp4_[t.name.substr(0, t.name.size() - kBlocks.size())].first = t;
    return;
  }
  if (t.dtype == "U8" && t.name.ends_with(kScales)) {
    mxfp4_[t.name.substr(0, t.name.size() - kScales.size())].second = t;
    return;
  }
  if (is_f8(t.dtype)) return f8_.push_back(t);
  if (const auto stem = f8_scale(t.name)) {
    f8_scales_[*stem] = t;
    return;
  }
  if (t.name.ends_with(".input_scale")) return;  // what activations of 8 bits would be rounded with
  const Place place = place_of(configuration_.family, t.name, path);
  if (unused(configuration_, place)) return;
  if (place.make == Make::kWhole) return list_.add_floats(place.name, whole_numbers_of(t, path));
  if (place.make == Make::kNumbers) {
    if (!whole_numbers.emplace(place.name, integers_of(t, path)).second)
      fail(Code::kBadInput, t.name, "is there twice, expected it in one layer", path);
    return;
  }
  if (place.make == Make::kNumber) return put_number(place, t, quant_of(t, path), path);
  put(t.name, described(t, path), path);
}

void Translation::add_dense(std::size_t number, const ShardTensor& t, const std::string& path) {
  const bool weight = t.name == "linear.weight";
  if (!weight && t.name != "linear.bias")
    fail(Code::kUnsupported, t.name, "expected linear.weight and linear.bias", path);
  TensorInfo info = described(t, path);
  info.name = fmt::format("dense_{}.{}", number + 2, weight ? "weight" : "bias");
  weight ? list_.push(std::move(info), path) : list_.add_floats(info.name, all_floats(info));
}

void Translation::finish() {
  for (const auto& [stem, parts] : int4_parts_) add_int4(stem, parts);
  for (const auto& [stem, parts] : coded_parts_) add_coded(stem, parts);
  for (const auto& [name, by_expert] : factors_) {
    std::vector<float> all(by_expert.size() > 1 ? static_cast<std::size_t>(configuration_.experts) : 1, 1.0f);
    for (const auto& [expert, factor] : by_expert) all[static_cast<std::size_t>(expert)] = factor;
    list_.add_floats(name, std::move(all));
  }
  for (const ShardTensor& t : f8_) add_f8(t);
  if (!f8_scales_.empty())
    fail(Code::kBadInput, f8_scales_.begin()->second.name, "is a scale of no matrix of 8-bit floats", folder_);
  add_mxfp4();
  check_numbers();
  join_parts();
  stack_experts();
  join_shards();
  list_.widen(widen_in_, widen_out_);
  if (configuration_.tied) list_.drop_tied_head();
  for (const Extra& e : configuration_.extras) list_.add_floats(e.name, e.values);
}

void Translation::add_int4(const std::string& stem, const std::map<std::string, ShardTensor>& parts) {
  put(stem + ".weight", int4_matrix(*configuration_.int4, parts, stem, folder_), folder_);
}

// Another file may hold its scales.
void Translation::add_f8(const ShardTensor& t) {
  const std::string stem = t.name.ends_with(kWeight) ? t.name.substr(0, t.name.size() - kWeight.size()) : t.name;
  const auto scale = f8_scales_.find(stem);
  put(stem + ".weight", f8_matrix(t, scale == f8_scales_.end() ? nullptr : &scale->second, configuration_.f8, folder_),
      folder_);
  if (scale != f8_scales_.end()) f8_scales_.erase(scale);
}

void Translation::add_mxfp4() {
  for (const auto& [stem, parts] : mxfp4_) {
    if (parts.first.name.empty()) fail(Code::kBadInput, stem + "_blocks", "is missing", folder_);
    if (parts.second.name.empty()) fail(Code::kBadInput, stem + "_scales", "is missing", folder_);
    Place place = place_of(configuration_.family, stem, folder_);
    if (unused(configuration_, place)) continue;
    if (place.make == Make::kTurned) place.make = Make::kSame;  // the codes have outputs as rows
    TensorInfo info = mxfp4_matrices(parts.first, parts.second, folder_);
    info.name = stem;
    place_matrix(place, std::move(info), folder_);
  }
}

// Shapes that only look like matrices: a convolution's (channels, 1, taps) and rows of one.
void Translation::put(const std::string& name, TensorInfo info, const std::string& path) {
  const Place place = place_of(configuration_.family, name, path);
  if (unused(configuration_, place)) return;
  if (place.make == Make::kShard) {
    info.name = name;
    if (info.rank != 2) fail(Code::kBadInput, name, "expected a matrix", path);
    if (!shards_[place.name].emplace(place.expert, std::move(info)).second)
      fail(Code::kBadInput, name, "is there twice, expected it in one layer", path);
    return;
  }
  if (place.expert >= 0 && std::cmp_greater_equal(place.expert, configuration_.experts))
    fail(Code::kBadInput, name, fmt::format("expected experts below {}", configuration_.experts), path);
  info.name = name;
  const bool convolution = info.rank == 3 && info.shape[1] == 1 && !info.source;
  if (convolution) {
    info.shape = {info.shape[0], info.shape[2], 1, 1};
    info.rank = 2;
  }
  if (const std::size_t slash = place.name.find('/'); slash != place.name.npos) {
    if (info.rank != 2) fail(Code::kBadInput, name, "expected a matrix", path);
    std::string whole = place.name;
    const char number = whole[slash + 1];
    whole.erase(slash, 2);
    if (!parts_[whole].emplace(number, std::move(info)).second) fail(Code::kBadInput, name, "is there twice", path);
    return;
  }
  if (convolution)
    return list_.add_floats(place.name, all_floats(by_heads(configuration_, place, std::move(info), path)),
                            info.shape[1]);
  const bool vector = info.rank == 1 || (info.rank == 2 && info.rows() == 1 && place.name.ends_with(".bias"));
  if (vector) return put_vector(place, info, path);
  place_matrix(place, std::move(info), path);
}

void Translation::put_vector(const Place& place, const TensorInfo& info, const std::string& path) {
  const Configuration& c = configuration_;
  std::vector<float> x = all_floats(info);
  const std::int64_t heads = pairs_of(configuration_, place.name), n = info.columns();
  if (heads > 0 && n % (2 * heads) != 0)
    fail(Code::kBadInput, info.name,
         fmt::format("has {} rows, expected a multiple of {}, twice the heads", n, 2 * heads), path);
  if (heads > 0) {
    TensorInfo rows;  // one element each
    rows.shape = {1, n, 1, 1};
    rows.half_heads = heads;
    const std::vector<float> read = x;
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = read[static_cast<std::size_t>(rows.row_in_file(static_cast<std::int64_t>(i)))];
  }
  const bool state_norm = place.name.ends_with("ssm_norm.weight");
  const bool norm = place.name.ends_with("norm.weight") || place.name.find(".ple_norm_") != place.name.npos;
  if (c.family.one_more && norm && !state_norm)
    for (float& v : x) v += 1.0f;
  if (place.make == Make::kDecay)
    for (float& v : x) v = -std::exp(v);
  vector_by_heads(configuration_, place, info, x, path);
  if (state_norm && c.norm_groups > 1) {
    if (n % c.norm_groups != 0)
      fail(Code::kBadInput, info.name, fmt::format("has {} numbers, expected a multiple of {}", n, c.norm_groups),
           path);
    return list_.add_floats(place.name, std::move(x), c.norm_groups);
  }
  list_.add_floats(place.name, std::move(x));
}

void Translation::place_matrix(const Place& place, TensorInfo info, const std::string& path) {
  const bool plain = find(quants(), info.quant)->block == 1 && !info.source;
  if (place.name == "token_embd.weight" && !plain) return list_.add_rows(place.name, info);
  switch (place.make) {
    case Make::kTurns:
    case Make::kTurnsAsRows:
    case Make::kHalves:
      return place_gate_and_up(place, std::move(info), path);
    case Make::kLatent: {
      auto [keys, values] = latent_by_heads(configuration_, place, info, path);
      list_.push(std::move(keys), path);
      return list_.push(std::move(values), path);
    }
    case Make::kByFour:
    case Make::kByHead:
      info = picked(info, fused_rows(configuration_, place.make, info.rows(), info.name, path));
      break;
    case Make::kTurned:
      info = turned(std::move(info));
      break;
    case Make::kEitherWay: {
      const bool down = place.name.ends_with("ffn_down_exps.weight");  // makes rows of that width, the others read them
      if (info.shape[down ? 1 : 0] != configuration_.width && info.shape[down ? 0 : 1] == configuration_.width)
        info = turned(std::move(info));
      break;
    }
    case Make::kBehindTwo: {
      if (info.rows() < 3 || !plain) fail(Code::kBadInput, info.name, "expected more than two rows of floats", path);
      info.bytes = info.bytes.subspan(static_cast<std::size_t>(2 * info.row_bytes()));
      info.shape[1] -= 2;
      break;
    }
    default:
      break;
  }
  if (place.make == Make::kDecay) {
    std::vector<float> x = all_floats(info);
    for (float& v : x) v = -std::exp(v);
    return list_.add_floats(place.name, std::move(x), info.rows());
  }
  if (place.name.ends_with(".bias")) return list_.add_floats(place.name, all_floats(info), info.rows());
  if (place.name == "token_embd_in.weight" || place.name == "output_in.weight") {
    (place.name == "output_in.weight" ? widen_out_ : widen_in_) = std::move(info);
    return;
  }
  info = times_factors(configuration_, place, by_heads(configuration_, place, std::move(info), path), path);
  const std::string file_name = info.name;
  info.name = place.name;
  if (place.expert >= 0) {
    if (!experts_[place.name].emplace(place.expert, std::move(info)).second)
      fail(Code::kBadInput, file_name, "is there twice", path);
    return;
  }
  info.half_heads = pairs_of(configuration_, place.name);
  if (info.half_heads > 0 && info.rows() % (2 * info.half_heads) != 0)
    fail(Code::kBadInput, file_name,
         fmt::format("has {} rows, expected a multiple of {}, twice the heads", info.rows(), 2 * info.half_heads),
         path);
  list_.push(std::move(info), path);
}

// Two matrices of one, whose rows come by turns (gpt-oss) or one behind the other.
void Translation::place_gate_and_up(const Place& place, TensorInfo info, const std::string& path) {
  const bool turns = place.make != Make::kHalves;
  const std::string name = info.name;
  if (place.name.ends_with(".bias")) {  // (experts, 2 * width)
    const std::vector<float> x = all_floats(info);
    const auto n = static_cast<std::size_t>(info.columns() / 2);
    if (info.columns() % 2 != 0)
      fail(Code::kBadInput, name, "has an odd number of elements, expected two by two", path);
    for (const std::size_t part : {0, 1}) {
      std::vector<float> out;
      for (std::int64_t e = 0; e < info.rows(); ++e)
        for (std::size_t i = 0; i < n; ++i) out.push_back(x[static_cast<std::size_t>(e) * 2 * n + 2 * i + part]);
      list_.add_floats(with(place.name, part ? "up" : "gate"), std::move(out), info.rows());
    }
    return;
  }
  if (place.make == Make::kTurns && info.quant != "mxfp4") info = turned(std::move(info));
  const std::int64_t each = info.shape[1], n = each / 2, count = info.shape[2];
  if (each % 2 != 0) fail(Code::kBadInput, name, "has an odd number of outputs, expected two by two", path);
  for (const std::int64_t part : {0, 1}) {
    std::vector<std::int64_t> rows;
    for (std::int64_t m = 0; m < count; ++m)
      for (const std::int64_t r : counted(m * each + part * (turns ? 1 : n), n, turns ? 2 : 1)) rows.push_back(r);
    TensorInfo made;
    if (!turns && count == 1 && !info.source) {  // they lie together
      made = info;
      made.shape[1] = n;
      made.bytes = info.bytes.subspan(static_cast<std::size_t>(part * n * info.row_bytes()),
                                      static_cast<std::size_t>(n * info.row_bytes()));
    } else {
      made = picked(info, std::move(rows), count);
      made.rank = info.rank;
    }
    made.name = with(place.name, part ? "up" : "gate");
    list_.push(std::move(made), path);
  }
}

void Translation::put_number(const Place& place, const ShardTensor& t, std::string_view quant,
                             const std::string& path) {
  const Quant& q = *find(quants(), quant);
  if (std::cmp_not_equal(t.bytes.size(), q.block_bytes) || place.layer >= configuration_.layers)
    fail(Code::kBadInput, t.name, "expected one number of a layer", path);
  float x = 0;
  q.dequantise(t.bytes.data(), &x, 1);
  std::vector<double>& values = numbers[place.name];
  values.resize(static_cast<std::size_t>(configuration_.layers), kAbsent);
  values[static_cast<std::size_t>(place.layer)] = static_cast<double>(x);
}

void Translation::check_numbers() const {
  for (const auto& [key, values] : numbers)
    if (std::count(values.begin(), values.end(), kAbsent) > 0)
      fail(Code::kBadInput, key, fmt::format("is not there in all of {} layers", configuration_.layers), folder_);
}

}  // namespace kvasir::hub
