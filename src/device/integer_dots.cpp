#include "device/integer_dots.hpp"

#include <vector>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "device/programs.hpp"
#include "device/texts.hpp"

namespace kvasir::device {
namespace {

std::int32_t sum_of(std::uint32_t a, std::uint32_t b, std::int32_t c) {
  for (int i = 0; i < 4; ++i)
    c += std::int32_t{static_cast<std::int8_t>(a >> 8 * i)} * std::int32_t{static_cast<std::int8_t>(b >> 8 * i)};
  return c;
}

bool dots_are_right(const Found& found, const std::string& options) {
  constexpr std::size_t kSums = 4096;
  const Context context(found);
  Programs programs("");
  const Kernel kernel =
      programs.get(context, std::string("#define IDOT\n") + texts::kCommon + texts::kDots, kOptions + (" " + options))
          .kernel("dots");
  std::vector<std::uint32_t> in(3 * kSums), out(kSums);
  std::uint64_t seed = 1;
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(splitmix64(seed));
  constexpr std::uint32_t kEdges[] = {0x80808080, 0x7f7f7f7f, 0x80ff017f, 0};
  for (std::size_t i = 0; i < 16; ++i) in[3 * i] = kEdges[i / 4], in[3 * i + 1] = kEdges[i % 4], in[3 * i + 2] = 0;
  for (std::size_t i = 0; i < kSums; ++i) in[3 * i + 2] >>= 8;  // sums do not overflow
  const Buffer there = context.make(in.size() * 4), back = context.make(out.size() * 4);
  context.write(there, 0, in.data(), in.size() * 4);
  const Argument arguments[] = {there, back};
  context.launch(kernel, kSums / 128, 128, arguments);
  context.read(back, 0, out.data(), out.size() * 4);
  for (std::size_t i = 0; i < kSums; ++i)
    if (static_cast<std::int32_t>(out[i]) != sum_of(in[3 * i], in[3 * i + 1], static_cast<std::int32_t>(in[3 * i + 2])))
      return false;
  return true;
}

}  // namespace

Found with_checked_dots(Found found, const std::string& options) {
  if (!found.limits.integer_dots) return found;
  try {
    found.limits.integer_dots = dots_are_right(found, options);
  } catch (const Error&) {  // it reports what it does not build
    found.limits.integer_dots = false;
  }
  return found;
}

}  // namespace kvasir::device
