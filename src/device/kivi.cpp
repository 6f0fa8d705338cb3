#include "device/kivi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "device/open.hpp"
#include "device/sycl.hpp"
#include "device/texts.hpp"

namespace kvasir::device {
namespace {

constexpr std::int64_t kItems = 128;  // of a work group

std::uint64_t u64(std::int64_t n) { return static_cast<std::uint64_t>(n); }

// What kivi_quantize and kivi_dequantize take: their buffers, how many items there are, and the arrays' shape.
std::array<Argument, 11> arguments_of(const kv::KiviArrays& a, const std::array<Argument, 4>& buffers,
                                      std::int64_t items) {
  return {buffers[0],
          buffers[1],
          buffers[2],
          buffers[3],
          u64(items),
          u64(a.depth()),
          u64(a.lanes()),
          u64(a.group),
          u64(a.values ? a.head_dim : 1),
          u64(a.values ? 1 : a.head_dim),
          static_cast<std::int32_t>(a.wide)};
}

}  // namespace

DeviceKivi::DeviceKivi(const Found& device, std::string folder, std::uint64_t memory, std::string options)
    : context_(device), programs_(std::move(folder)), memory_(memory), options_(std::move(options)) {
  const Limits& l = context_.device().limits;
  if (memory_ == 0) memory_ = std::min(l.memory / 4, l.allocation);
}

void DeviceKivi::launch(const Kernel& kernel, std::int64_t groups, std::span<const Argument> arguments) const {
  context_.launch(kernel, static_cast<std::size_t>(groups), kItems, arguments);
}

std::int64_t DeviceKivi::fitting(std::size_t each, std::int64_t heads) const {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(memory_ / std::max<std::size_t>(each, 1)), 1, heads);
}

Buffer DeviceKivi::upload(const void* from, std::size_t bytes) const {
  Buffer b = context_.make(bytes);
  context_.write(b, 0, from, bytes);
  return b;
}

DeviceKivi::Kernels& DeviceKivi::kernels(int bits) {
  Kernels& k = kernels_[bits == 2 ? 0 : bits == 4 ? 1 : 2];
  if (k.compiled) return k;
  const std::string text =
      fmt::format("#define B {}\n#define BLOCK {}\n", bits, kv::kMultiplyDepth) + texts::kCommon + texts::kKivi;
  const Program program = programs_.get(context_, text, options_);
  k.quantize = program.kernel("kivi_quantize");
  k.dequantize = program.kernel("kivi_dequantize");
  k.multiply = program.kernel("kivi_multiply");
  k.total = program.kernel("kivi_total");
  k.compiled = true;
  return k;
}

void DeviceKivi::make_arrays(const float* x, const kv::KiviArrays& to) {
  const Kernels& k = kernels(to.bits);
  const std::size_t x_bytes = to.numbers() * sizeof(float);
  const std::int64_t most = fitting(x_bytes + to.code_bytes() + 2 * to.scale_bytes(), to.heads);
  for (std::int64_t h = 0; h < to.heads; h += most) {
    const kv::KiviArrays a = to.part(h, std::min(most, to.heads - h));
    const auto n = static_cast<std::size_t>(a.heads);
    const Buffer from =
        upload(reinterpret_cast<const std::byte*>(x) + static_cast<std::size_t>(h) * x_bytes, n * x_bytes);
    const Buffer codes = context_.make(n * a.code_bytes());
    const Buffer scales = context_.make(n * a.scale_bytes()), minima = context_.make(n * a.scale_bytes());
    const std::int64_t items = a.heads * a.depth() * a.groups();
    const auto arguments = arguments_of(a, {from, codes, scales, minima}, items);
    launch(k.quantize, (items + kItems - 1) / kItems, arguments);
    context_.read(codes, 0, a.codes, n * a.code_bytes());
    context_.read(scales, 0, a.scales, n * a.scale_bytes());
    context_.read(minima, 0, a.minima, n * a.scale_bytes());
  }
}

void DeviceKivi::read_arrays(const kv::KiviArrays& all, float* x) {
  const Kernels& k = kernels(all.bits);
  const std::size_t x_bytes = all.numbers() * sizeof(float);
  const std::int64_t most = fitting(x_bytes + all.code_bytes() + 2 * all.scale_bytes(), all.heads);
  for (std::int64_t h = 0; h < all.heads; h += most) {
    const kv::KiviArrays a = all.part(h, std::min(most, all.heads - h));
    const auto n = static_cast<std::size_t>(a.heads);
    const Buffer codes = upload(a.codes, n * a.code_bytes());
    const Buffer scales = upload(a.scales, n * a.scale_bytes()), minima = upload(a.minima, n * a.scale_bytes());
    const Buffer to = context_.make(n * x_bytes);
    const auto items = static_cast<std::int64_t>(n * a.code_bytes());
    const auto arguments = arguments_of(a, {codes, scales, minima, to}, items);
    launch(k.dequantize, (items + kItems - 1) / kItems, arguments);
    context_.read(to, 0, reinterpret_cast<std::byte*>(x) + static_cast<std::size_t>(h) * x_bytes, n * x_bytes);
  }
}

void DeviceKivi::make_products(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) {
  const Kernels& k = kernels(by.bits);
  const std::int64_t depth = by.depth(), lanes = by.lanes();
  const std::int64_t blocks = (depth + kv::kMultiplyDepth - 1) / kv::kMultiplyDepth;
  // Of a row: a, the sums of blocks, out.
  const auto row_bytes = static_cast<std::size_t>(depth + (blocks > 1 ? blocks + 1 : 1) * lanes) * sizeof(float);
  const std::size_t held = by.code_bytes() + 2 * by.scale_bytes();
  const std::int64_t most = fitting(held + static_cast<std::size_t>(rows) * row_bytes, by.heads);
  // Rows of one head that do not fit together; without room for 8 the device says so.
  const std::uint64_t left = memory_ > held ? memory_ - held : 0;
  const std::int64_t most_rows = most > 1
                                     ? rows
                                     : std::clamp<std::int64_t>(static_cast<std::int64_t>(left / row_bytes) / 8 * 8, 8,
                                                                std::max<std::int64_t>(rows, 8));
  for (std::int64_t h = 0; h < by.heads; h += most) {
    const kv::KiviArrays part = by.part(h, std::min(most, by.heads - h));
    const auto n = static_cast<std::size_t>(part.heads);
    const Buffer codes = upload(part.codes, n * part.code_bytes());
    const Buffer scales = upload(part.scales, n * part.scale_bytes()),
                 minima = upload(part.minima, n * part.scale_bytes());
    for (std::int64_t first = 0; first < rows; first += most_rows) {
      const std::int64_t count = std::min(most_rows, rows - first), all = part.heads * count;
      const Buffer x = upload(a + (h * rows + first) * depth, static_cast<std::size_t>(all * depth) * sizeof(float));
      const std::size_t bytes = static_cast<std::size_t>(all * lanes) * sizeof(float);
      const Buffer sums = context_.make(bytes * static_cast<std::size_t>(blocks));
      const Argument arguments[] = {
          x,          codes,      scales,          minima,     sums,
          u64(depth), u64(lanes), u64(part.group), u64(count), static_cast<std::int32_t>(part.wide)};
      launch(k.multiply, (lanes + 127) / 128 * blocks * ((count + 7) / 8) * part.heads, arguments);
      float* const to = out + (h * rows + first) * lanes;
      if (blocks == 1) {
        context_.read(sums, 0, to, bytes);
        continue;
      }
      const Buffer total = context_.make(bytes);
      const std::int64_t items = all * lanes;
      const Argument last[] = {sums, total, u64(items), u64(lanes), u64(blocks)};
      launch(k.total, (items + kItems - 1) / kItems, last);
      context_.read(total, 0, to, bytes);
    }
  }
}

std::unique_ptr<kv::KiviMaker> open_kivi(const std::string& name) {
  if (name == "sycl" || name.starts_with("sycl:")) return std::make_unique<SyclKivi>(name);
  const Survey all = survey();
  return std::make_unique<DeviceKivi>(choose(all, name));
}

}  // namespace kvasir::device
