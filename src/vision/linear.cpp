#include "vision/linear.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "cpu/share.hpp"
#include "weights/quant.hpp"

namespace kvasir::vision {
namespace {

constexpr std::int64_t kRowsAtOnce = 1024;  // bounds what prepared rows take
constexpr std::int64_t kGrain = 16;

}  // namespace

void Reader::fail(const std::string& tensor, const std::string& why) const {
  throw Error(Code::kBadInput, tensor + " " + why, file_.metadata().path());
}

const weights::TensorInfo& Reader::tensor(const std::string& name) const {
  const weights::TensorInfo* const t = file_.find(name);
  if (!t) fail(name, "is missing");
  return *t;
}

std::vector<float> Reader::floats(const std::string& name, std::int64_t elements) const {
  const weights::TensorInfo& t = tensor(name);
  if (t.rows() * t.columns() != elements)
    fail(name, "has " + std::to_string(t.rows() * t.columns()) + " elements, expected " + std::to_string(elements));
  const weights::Quant& quant = *find(weights::quants(), t.quant);
  std::vector<float> out(static_cast<std::size_t>(elements));
  std::vector<std::byte> room;
  for (std::int64_t r = 0; r < t.rows(); ++r)
    quant.dequantise(t.row(r, room), out.data() + r * t.columns(), t.columns());
  return out;
}

Linear Reader::pack(const weights::TensorInfo* t, const float* weights, std::int64_t rows, std::int64_t columns) const {
  const weights::Quant* const quant = t ? find(weights::quants(), t->quant) : nullptr;
  const bool in_floats = !quant || exact_ || columns % quant->format().k_multiple != 0;
  const kernel::PanelFormat& format = in_floats ? kernel::dense_panels().f32 : quant->format();
  Linear out;
  out.matrix = {&format, nullptr, rows, columns, format.panel_bytes(columns)};
  out.panels = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(out.matrix.bytes()));
  out.matrix.panels = out.panels.data();
  std::byte* const to = out.panels.data();
  team_.parallel_for(out.matrix.panel_count(), 4, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> made(in_floats && !weights ? static_cast<std::size_t>(kernel::kPanelRows * columns) : 0);
    std::vector<std::byte> room[kernel::kPanelRows];
    for (std::int64_t p = begin; p < end; ++p) {
      const std::byte* row[kernel::kPanelRows] = {};
      for (int r = 0; r < kernel::kPanelRows && p * kernel::kPanelRows + r < rows; ++r) {
        const std::int64_t n = p * kernel::kPanelRows + r;
        if (weights) {
          row[r] = reinterpret_cast<const std::byte*>(weights + n * columns);
          continue;
        }
        row[r] = t->row(n, room[r]);
        if (!in_floats) continue;
        quant->dequantise(row[r], made.data() + r * columns, columns);
        row[r] = reinterpret_cast<const std::byte*>(made.data() + r * columns);
      }
      format.pack(row, columns, to + p * out.matrix.panel_bytes);
    }
  });
  return out;
}

Linear Reader::linear(const std::string& name, std::int64_t rows, std::int64_t columns, Bias bias) const {
  const weights::TensorInfo& t = tensor(name + ".weight");
  if (t.columns() != columns || t.rows() != rows)
    fail(t.name, "is " + std::to_string(t.rows()) + "x" + std::to_string(t.columns()) + ", expected " +
                     std::to_string(rows) + "x" + std::to_string(columns));
  Linear out = pack(&t, nullptr, rows, columns);
  if (bias == Bias::kHas) out.bias = floats(name + ".bias", rows);
  return out;
}

Linear Reader::linear_of(const std::vector<float>& weights, std::int64_t rows, std::int64_t columns) const {
  return pack(nullptr, weights.data(), rows, columns);
}

Norm Reader::layer_norm(const std::string& name, std::int64_t width, float eps) const {
  return {floats(name + ".weight", width), floats(name + ".bias", width), eps};
}

Norm Reader::rms_norm(const std::string& name, std::int64_t width, float eps) const {
  return {floats(name + ".weight", width), {}, eps};
}

void RowWork::each(std::int64_t n, FunctionRef<void(std::int64_t)> f) const {
  team_.parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) f(r);
  });
}

void RowWork::multiply(const Linear& m, const float* x, std::int64_t n, float* out) {
  const std::int64_t k = m.matrix.k, rows = m.matrix.rows;
  const kernel::ActivationKind kind = m.matrix.format->activation;
  const auto bytes = static_cast<std::size_t>(std::min(n, kRowsAtOnce) * kernel::activation_bytes(kind, k));
  if (prepared_.size() < bytes) prepared_ = tensor::Buffer(tensor::Tag::kScratch, bytes);
  for (std::int64_t first = 0; first < n; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, n - first);
    const kernel::Activations a{kind, prepared_.data(), count, k};
    team_.parallel_for(count, kernel::kTileColumns, [&](std::int64_t begin, std::int64_t end, int) {
      kernel::activation().prepare(a, begin, end, x + (first + begin) * k, k, {0, k});
    });
    const cpu::Share share =
        cpu::share_of(m.matrix.panel_count(), m.matrix.panel_bytes, static_cast<int>(count), team_.size());
    float* const to = out + first * rows;
    team_.parallel_for(m.matrix.panel_count(), share.grain, share.first,
                       [&](std::int64_t begin, std::int64_t end, int) {
                         m.matrix.format->matmul({m.matrix.panels, k, rows, begin, end, &a, to, rows});
                       });
  }
  if (!m.bias.empty()) each(n, [&](std::int64_t r) { kernel::ops().add(out + r * rows, m.bias.data(), rows); });
}

void RowWork::norm(const Norm& norm, const float* x, float* out, std::int64_t n) const {
  const auto width = static_cast<std::int64_t>(norm.weight.size());
  const auto& ops = kernel::ops();
  each(n, [&](std::int64_t r) {
    const float* const from = x + r * width;
    float* const to = out + r * width;
    if (norm.bias.empty())
      ops.rms_norm(from, norm.weight.data(), to, width, norm.eps);
    else
      ops.layer_norm(from, norm.weight.data(), norm.bias.data(), to, width, norm.eps);
  });
}

void RowWork::activate(kernel::Activation activation, float* x, std::int64_t n, std::int64_t width) const {
  each(n, [&](std::int64_t r) { kernel::ops().activate[static_cast<std::size_t>(activation)](x + r * width, width); });
}

void RowWork::add(float* x, const float* y, std::int64_t n, std::int64_t width) const {
  each(n, [&](std::int64_t r) { kernel::ops().add(x + r * width, y + r * width, width); });
}

}  // namespace kvasir::vision
