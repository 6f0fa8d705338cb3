#include "device/seal.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "device/texts.hpp"

namespace kvasir::device {

KiviSealer::KiviSealer(const Context& context, Programs& programs, kv::Side side, int d, int bits, int group)
    : context_(context) {
  const bool keys = side == kv::Side::kKeys;
  const int lanes = keys ? kv::kPageTokens : d;
  const int depth = keys ? d : kv::kPageTokens;
  if ((bits != 2 && bits != 4) || d % 16 != 0 || d > 256 || (group != 32 && group != 64 && group != 128))
    throw Error(Code::kUnsupported,
                fmt::format("no kernel seals {} bits in groups of {} for heads of {}", bits, group, d),
                context.device().name);
  raw_bytes_ = static_cast<std::size_t>(lanes * depth) * 2;
  page_bytes_ = static_cast<std::size_t>((lanes + group - 1) / group * depth * 4 + lanes * depth * bits / 8);
  const std::string text =
      fmt::format("#define D {}\n#define KEYS {}\n#define B {}\n#define G {}\n", d, keys ? 1 : 0, bits, group) +
      texts::kCommon + texts::kSealKivi;
  kernel_ = programs.get(context, text).kernel("seal");
}

void KiviSealer::seal(const std::byte* raw, int pages, int skip, std::byte* to) {
  const auto n = static_cast<std::size_t>(pages);
  const Buffer from = context_.make(n * raw_bytes_);
  const Buffer out = context_.make(n * page_bytes_);
  context_.write(from, 0, raw, n * raw_bytes_);
  const Argument arguments[] = {from, out, skip};
  context_.launch(kernel_, n, 128, arguments);
  context_.read(out, 0, to, n * page_bytes_);
}

}  // namespace kvasir::device
