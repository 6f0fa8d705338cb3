#include "device/multiply.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/gaussian.hpp"
#include "device/texts.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::device {

void Multiplier::prepare(const WeightForm& form) {
  for (const auto& k : kernels_)
    if (k.first == &form) return;
  const std::string text = constants(form) +
                           (matrix_units_                           ? "#define NV\n"
                            : context_.device().limits.integer_dots ? "#define IDOT\n"
                                                                    : "") +
                           texts::kCommon + texts::kProductParts +
                           (matrix_units_ ? texts::kProductMma : texts::kProduct);
  kernels_.emplace_back(&form, programs_.get(context_, text, options_).kernel("product"));
}

void Multiplier::launch(const Task& t, const Event& after, Event* done) {
  const Kernel* kernel = nullptr;
  for (const auto& k : kernels_)
    if (k.first == t.form) kernel = &k.second;
  KVASIR_CHECK(kernel && t.rows > 0 && t.columns > 0);
  const std::int64_t rows = matrix_units_ ? 128 : 32;  // of a work group
  const std::int64_t groups = (t.rows + rows - 1) / rows * ((t.columns + 63) / 64);
  const Argument arguments[] = {*t.weights,
                                *t.x,
                                *t.out,
                                static_cast<std::uint64_t>(t.out_at),
                                static_cast<std::uint32_t>(t.k),
                                static_cast<std::uint32_t>(t.rows),
                                static_cast<std::uint32_t>(t.panel_bytes),
                                static_cast<std::uint32_t>(t.columns)};
  context_.launch(*kernel, static_cast<std::size_t>(groups), 128, arguments, false, after, done);
}

ProductCase make_case(const WeightForm& form, const ProductTrial& trial) {
  const weights::Quant& quant = quant_of(form);
  const kernel::PanelFormat& format = quant.format();
  ProductCase c;
  c.k = trial.blocks * form.block;
  c.panel_bytes = format.panel_bytes(c.k);
  const std::int64_t panels = (trial.rows + kernel::kPanelRows - 1) / kernel::kPanelRows;
  const std::int64_t row_bytes = trial.blocks * quant.block_bytes;
  std::vector<std::byte> rows(static_cast<std::size_t>(trial.rows * row_bytes));
  const std::vector<float> w = gaussian(static_cast<std::size_t>(trial.rows * c.k), trial.seed);
  quant.quantise(w.data(), rows.data(), trial.rows * c.k);
  tensor::Buffer panel_room(tensor::Tag::kScratch, static_cast<std::size_t>(panels * c.panel_bytes + 1024));
  for (std::int64_t p = 0; p < panels; ++p) {
    const std::byte* of[kernel::kPanelRows] = {};
    for (std::int64_t r = 0; r < kernel::kPanelRows && p * kernel::kPanelRows + r < trial.rows; ++r)
      of[r] = rows.data() + (p * kernel::kPanelRows + r) * row_bytes;
    format.pack(of, c.k, panel_room.data() + p * c.panel_bytes);
    if (format.set_factor) format.set_factor(panel_room.data() + p * c.panel_bytes, c.k, 0.37f);
  }
  const std::int64_t x_bytes = trial.columns * kernel::activation_bytes(format.activation, c.k);
  tensor::Buffer x_room(tensor::Tag::kScratch, static_cast<std::size_t>(x_bytes + 64));
  const kernel::Activations x{format.activation, x_room.data(), trial.columns, c.k};
  const std::vector<float> source = gaussian(static_cast<std::size_t>(trial.columns * c.k), trial.seed + 1);
  kernel::activation().prepare(x, 0, trial.columns, source.data(), c.k, {0, c.k});
  c.expected.resize(static_cast<std::size_t>(trial.columns * trial.rows));
  format.matmul({panel_room.data(), c.k, trial.rows, 0, panels, &x, c.expected.data(), trial.rows});
  c.panels.assign(panel_room.data(), panel_room.data() + panels * c.panel_bytes);
  c.x.assign(x_room.data(), x_room.data() + x_bytes);
  return c;
}

std::string compare(const WeightForm& form, const ProductTrial& trial, std::span<const float> expected,
                    std::span<const float> got) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::bit_cast<std::uint32_t>(expected[i]) != std::bit_cast<std::uint32_t>(got[i]))
      return fmt::format("{}, {} columns of {} blocks: row {} of column {}: {:.9g} is {:.9g} on the device", form.name,
                         trial.columns, trial.blocks, static_cast<std::int64_t>(i) % trial.rows,
                         static_cast<std::int64_t>(i) / trial.rows, expected[i], got[i]);
  return {};
}

std::string check(const Context& context, Multiplier& multiplier, const WeightForm& form, const ProductTrial& trial) {
  multiplier.prepare(form);
  const ProductCase c = make_case(form, trial);
  const Buffer weights = context.make(c.panels.size()), x = context.make(c.x.size());
  const Buffer out = context.make(c.expected.size() * sizeof(float));
  context.write(weights, 0, c.panels.data(), c.panels.size());
  context.write(x, 0, c.x.data(), c.x.size());
  multiplier.launch({&form, &weights, c.k, trial.rows, c.panel_bytes, &x, trial.columns, &out, 0});
  std::vector<float> got(c.expected.size());
  context.read(out, 0, got.data(), got.size() * sizeof(float));
  return compare(form, trial, c.expected, got);
}

void require(const Context& context, Multiplier& multiplier, const WeightForm& form) {
  for (const ProductTrial& trial : {ProductTrial{}, ProductTrial{.rows = 83, .blocks = 3, .columns = 101, .seed = 7}})
    if (const std::string why = check(context, multiplier, form, trial); !why.empty())
      throw Error(Code::kUnsupported, "it computes other bits than the processor: " + why, context.device().name);
}

}  // namespace kvasir::device
