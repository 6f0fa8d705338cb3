#include "vision/linear.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "cpu/share.hpp"
#include "simd/bf16_products.hpp"
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
  const bool rounded = eight_bits_ && quant && quant->block == 1 && columns % 32 == 0;
  const weights::Quant* const to = rounded ? find(weights::quants(), "q8_0") : quant;
  const bool in_floats = !to || exact_ || columns % to->format().k_multiple != 0;
  const kernel::PanelFormat& format = in_floats ? kernel::dense_panels().f32 : to->format();
  const std::int64_t there = t ? t->columns() : columns;  // zeros behind them
  const bool made = t && (in_floats || rounded || there < columns);
  Linear out;
  out.matrix = {&format, nullptr, rows, columns, format.panel_bytes(columns)};
  out.panels = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(out.matrix.bytes()));
  out.matrix.panels = out.panels.data();
  std::byte* const panels = out.panels.data();
  const std::int64_t row_bytes = in_floats ? columns * 4 : to ? columns / to->block * to->block_bytes : 0;
  team_.parallel_for(out.matrix.panel_count(), 4, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> x(static_cast<std::size_t>(made ? columns : 0));
    std::vector<std::byte> bytes(static_cast<std::size_t>(made ? kernel::kPanelRows * row_bytes : 0));
    std::vector<std::byte> room[kernel::kPanelRows];
    for (std::int64_t p = begin; p < end; ++p) {
      const std::byte* row[kernel::kPanelRows] = {};
      for (int r = 0; r < kernel::kPanelRows; ++r) {
        const std::int64_t n = p * kernel::kPanelRows + r;
        if (n >= (t ? t->rows() : rows)) break;
        row[r] = weights ? reinterpret_cast<const std::byte*>(weights + n * columns) : t->row(n, room[r]);
        if (!made) continue;
        std::byte* const to_row = bytes.data() + r * row_bytes;
        quant->dequantise(row[r], in_floats ? reinterpret_cast<float*>(to_row) : x.data(), there);
        if (!in_floats) to->quantise(x.data(), to_row, columns);
        row[r] = to_row;
      }
      format.pack(row, columns, panels + p * out.matrix.panel_bytes);
    }
  });
  return out;
}

Linear Reader::linear(const std::string& name, std::int64_t rows, std::int64_t columns, Bias bias,
                      std::int64_t filled_rows, std::int64_t filled_columns) const {
  const weights::TensorInfo& t = tensor(name + ".weight");
  if (t.columns() != columns || t.rows() != rows)
    fail(t.name, "is " + std::to_string(t.rows()) + "x" + std::to_string(t.columns()) + ", expected " +
                     std::to_string(rows) + "x" + std::to_string(columns));
  Linear out = pack(&t, nullptr, filled_rows, filled_columns);
  if (bias == Bias::kHas) {
    out.bias = floats(name + ".bias", rows);
    out.bias.resize(static_cast<std::size_t>(filled_rows));
  }
  return out;
}

void (*Reader::attention() const)(const kernel::WholeHead& head, float* scratch) {
  const bool pairs = !exact_ && simd::multiplies_bf16(simd::active());
  return pairs ? kernel::bidirectional().attend_pairs : kernel::bidirectional().attend;
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
