// Tensors that are made of several: of parts, of experts, of matrices behind each other.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "hub/translation.hpp"
#include "weights/safetensors/made.hpp"

namespace kvasir::hub {

using namespace weights;

[[noreturn]] static void wrong_part(std::string_view tensor, const std::string& why, const std::string& path) {
  throw Error(Code::kBadInput, fmt::format("tensor {}: {}", tensor.substr(0, 200), why), path);
}

// A factor of all elements is only given where the rows stay as they are.
void Translation::add_coded(const std::string& stem, const std::map<std::string, ShardTensor>& parts) {
  const Configuration& c = configuration_;
  const std::string name = stem + ".weight";
  const Place place = place_of(c.family, name, folder_);
  if (unused(configuration_, place)) return;
  const bool kept = place.make == Make::kSame && c.factors.empty() && c.tiled.value_heads == 0 &&
                    place.name != "token_embd.weight" && place.name.find('/') == place.name.npos;
  CodedMatrix m = coded_matrix(*c.coded, parts, stem, kept, folder_);
  if (m.factor != 1.0f)
    factors_[place.name.substr(0, place.name.size() - std::string_view(".weight").size()) + ".scale"].emplace(
        std::max<std::int64_t>(place.expert, 0), m.factor);
  put(name, std::move(m.info), folder_);
}

// Three of each, whose numbers begin at 0.
void Translation::join_parts() {
  for (auto& [name, numbered] : parts_) {
    std::vector<TensorInfo> all;
    for (auto& [number, info] : numbered) {
      if (number != static_cast<char>('0' + all.size())) break;
      if (!all.empty() && (info.columns() != all.front().columns() || info.quant != all.front().quant))
        wrong_part(info.name, fmt::format("has another width or type than {}", all.front().name), folder_);
      all.push_back(std::move(info));
    }
    if (all.size() != 3) wrong_part(name, "lacks a part of its three", folder_);
    const TensorInfo whole = joined(std::move(all));
    if (name.ends_with("ssm_conv1d.weight"))
      list_.add_floats(name, all_floats(whole), whole.rows());
    else
      place_matrix({.name = name}, whole, folder_);
  }
}

void Translation::join_shards() {
  for (auto& [name, numbered] : shards_) {
    std::vector<TensorInfo> all;
    for (auto& [number, info] : numbered) {
      if (std::cmp_not_equal(number, all.size()))
        wrong_part(name, fmt::format("has no part {}, and has part {}", all.size(), number), folder_);
      if (!all.empty() && (info.columns() != all.front().columns() || info.quant != all.front().quant))
        wrong_part(info.name, fmt::format("has another width or type than {}", all.front().name), folder_);
      all.push_back(std::move(info));
    }
    TensorInfo whole = joined(std::move(all));
    whole.name = name;
    list_.push(std::move(whole), folder_);
  }
}

void Translation::stack_experts() {
  for (auto& [name, matrices] : experts_) {
    std::vector<TensorInfo> all;
    for (auto& [expert, info] : matrices) {
      if (std::cmp_not_equal(expert, all.size()))
        wrong_part(name, fmt::format("has no expert {}, expected {}", all.size(), configuration_.experts), folder_);
      if (!all.empty() && (info.shape != all.front().shape || info.quant != all.front().quant))
        wrong_part(name, fmt::format("expert {} has another shape or type than the first", expert), folder_);
      all.push_back(std::move(info));
    }
    if (std::cmp_not_equal(all.size(), configuration_.experts))
      wrong_part(name, fmt::format("has {} experts, expected {}", all.size(), configuration_.experts), folder_);
    list_.push(stacked(std::move(all)), folder_);
  }
}

}  // namespace kvasir::hub
