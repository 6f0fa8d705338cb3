#include "hub/tensor_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "weights/quant.hpp"
#include "weights/safetensors/made.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

[[noreturn]] void wrong_tensor(std::string_view tensor, const std::string& why, const std::string& path) {
  throw Error(Code::kBadInput, fmt::format("tensor {}: {}", tensor.substr(0, 200), why), path);
}

bool same_numbers(const TensorInfo& a, const TensorInfo& b) {
  if (a.shape != b.shape) return false;
  if (a.quant == b.quant && !a.source && !b.source)
    return a.bytes.size() == b.bytes.size() && std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  std::vector<float> x(static_cast<std::size_t>(a.columns())), y(x);
  std::vector<std::byte> room;
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    kvasir::find(quants(), a.quant)->dequantise(a.row(r, room), x.data(), a.columns());
    kvasir::find(quants(), b.quant)->dequantise(b.row(r, room), y.data(), b.columns());
    if (x != y) return false;
  }
  return true;
}

}  // namespace

void TensorList::add_floats(const std::string& name, std::vector<float> values, std::int64_t rows) {
  floats.push_back(std::move(values));
  TensorInfo info;
  info.name = name;
  info.quant = "f32";
  info.rank = rows > 1 ? 2 : 1;
  info.shape = {static_cast<std::int64_t>(floats.back().size()) / rows, rows, 1, 1};
  info.bytes = std::as_bytes(std::span(floats.back()));
  push(std::move(info), folder_);
}

void TensorList::push(TensorInfo info, const std::string& path) {
  if (!names_.insert(info.name).second)
    throw Error(Code::kBadInput, fmt::format("tensor {} is there twice", info.name), path);
  tensors.push_back(std::move(info));
}

void TensorList::add_rows(const std::string& name, const TensorInfo& from) {
  const auto each = static_cast<std::size_t>(from.row_bytes()), rows = static_cast<std::size_t>(from.rows());
  std::vector<float>& room = floats.emplace_back((each * rows + 3) / 4);
  TensorInfo info = from;
  info.name = name;
  info.source.reset();
  info.ordered.reset();
  info.bytes = std::as_bytes(std::span(room)).first(each * rows);
  std::vector<std::byte> made;
  for (std::size_t r = 0; r < rows; ++r)
    std::memcpy(std::as_writable_bytes(std::span(room)).data() + r * each, from.row(static_cast<std::int64_t>(r), made),
                each);
  push(std::move(info), folder_);
}

TensorList::Place TensorList::find(std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(), [&](const TensorInfo& t) { return t.name == name; });
}

void TensorList::erase(Place at) {
  names_.erase(at->name);
  tensors.erase(at);
}

void TensorList::drop_tied_head() {
  const auto embedding = find("token_embd.weight"), head = find("output.weight");
  if (head == tensors.end()) return;
  if (embedding != tensors.end() && !same_numbers(*embedding, *head)) return;
  erase(head);
}

void TensorList::widen(const TensorInfo& widen_in, const TensorInfo& widen_out) {
  if (widen_in.name.empty() && widen_out.name.empty()) return;
  const auto found = find("token_embd.weight");
  if (widen_in.name.empty() || widen_out.name.empty() || found == tensors.end())
    wrong_tensor(widen_in.name.empty() ? "project_in.weight" : "project_out.weight", "is missing, or the embedding is",
                 folder_);
  const TensorInfo narrow = *found, in = turned(widen_in);
  erase(found);
  for (const TensorInfo* by : {&in, &widen_out}) {
    const std::int64_t dim = by->columns(), n = narrow.columns();
    if (by->rows() != n)
      wrong_tensor(by->name, fmt::format("is of rows of {} elements, expected {}", by->rows(), n), folder_);
    const std::vector<float> rows = all_floats(narrow), matrix = all_floats(*by);
    std::vector<float> wide(static_cast<std::size_t>(narrow.rows() * dim));
    for (std::int64_t v = 0; v < narrow.rows(); ++v)
      for (std::int64_t k = 0; k < n; ++k) {
        const float x = rows[static_cast<std::size_t>(v * n + k)];
        const float* const from = matrix.data() + k * dim;
        float* const to = wide.data() + v * dim;
        for (std::int64_t d = 0; d < dim; ++d) to[d] += x * from[d];
      }
    add_floats(by == &in ? "token_embd.weight" : "output.weight", std::move(wide), narrow.rows());
  }
}

}  // namespace kvasir::hub
