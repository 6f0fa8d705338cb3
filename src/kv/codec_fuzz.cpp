// libFuzzer target: any bytes as a page of any codec. Whatever they mean, nothing outside the page is read (it ends at
// a guard page) and nothing is written to it; every instruction set of the machine reads the same numbers, and a row
// beside others gets what it gets alone. Then the same bytes as numbers to seal: every instruction set writes the same
// page, and what comes back is finite.
// Input: codec, head size, side, group of queries, parameters; the rest repeats to the size that is needed.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernel/attention.hpp"
#include "kv/codec_fixture.hpp"
#include "simd/every_isa.hpp"

namespace {

using namespace kvasir;
using namespace kvasir::kv;
using simd::each_isa;

void require(bool condition) {
  if (!condition) std::abort();
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) &&
        !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

std::vector<std::byte> repeated(const std::uint8_t* data, std::size_t size, std::size_t wanted) {
  std::vector<std::byte> out(wanted);
  for (std::size_t i = 0; i < wanted; ++i) out[i] = static_cast<std::byte>(size ? data[i % size] : 0);
  return out;
}

// What the codec makes of its page: the rows it holds, and products with ones.
std::vector<float> read(const codec_fixture::Subject& s, int g) {
  const PageRef page = s.ref(0, kPageTokens);
  const bool keys = s.side == Side::kKeys;
  const int pitch = keys ? kPageTokens : kernel::out_pitch(s.d);
  const std::vector<float> ones(static_cast<std::size_t>(g * (keys ? s.d : kPageTokens)), 1.0f);
  std::vector<float> out(static_cast<std::size_t>(g * pitch));
  if (keys)
    s.codec->dots(s.head(), &page, 1, ones.data(), g, out.data(), kPageTokens);
  else
    s.codec->accumulate(s.head(), &page, 1, ones.data(), kPageTokens, g, out.data(), pitch);
  std::vector<float> alone(static_cast<std::size_t>(pitch));
  if (keys)
    s.codec->dots(s.head(), &page, 1, ones.data(), 1, alone.data(), kPageTokens);
  else
    s.codec->accumulate(s.head(), &page, 1, ones.data(), kPageTokens, 1, alone.data(), pitch);
  alone.resize(static_cast<std::size_t>(keys ? kPageTokens : s.d));
  for (int r = 0; r < g; ++r) {
    const auto row = out.begin() + r * pitch;
    require(same({row, row + static_cast<std::ptrdiff_t>(alone.size())}, alone));
  }
  return s.unsealed();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  constexpr int kSizes[] = {32, 64, 80, 96, 112, 128, 192, 256};
  constexpr const char* kVariants[] = {"", ":64", ":128", ":unbiased", ":4", ":8", ":16"};
  const auto codecs = kv::codecs();
  const std::string name =
      std::string(codecs[data[0] % codecs.size()].name) + kVariants[data[4] % std::size(kVariants)];
  const int d = kSizes[data[1] % std::size(kSizes)];
  const Side side = data[2] % 2 ? Side::kValues : Side::kKeys;
  const int g = 1 + data[3] % 9;
  std::unique_ptr<codec_fixture::Subject> subject;
  try {
    subject = std::make_unique<codec_fixture::Subject>(name, d, side);
  } catch (const Error&) {
    return 0;
  }
  data += 5;
  size -= 5;

  const std::vector<std::byte> page = repeated(data, size, subject->bytes().size());
  std::vector<std::vector<float>> seen;
  each_isa([&] {
    codec_fixture::Subject s = subject->on_active_isa();
    s.set_bytes(page);
    seen.push_back(read(s, g));
    require(s.bytes() == page);
    require(same(seen.back(), seen.front()));
  });

  const auto count = static_cast<std::size_t>(kPageTokens * d);
  const std::vector<std::byte> bytes = repeated(data, size, count * sizeof(float));
  std::vector<float> rows(count);
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  std::vector<std::vector<std::byte>> pages;
  each_isa([&] {
    codec_fixture::Subject s = subject->on_active_isa();
    s.seal(rows, data ? g % 5 : 0);
    pages.push_back(s.bytes());
    require(pages.back() == pages.front());
    const std::vector<float> back = read(s, g);
    if (!s.codec->lossless) require(std::all_of(back.begin(), back.end(), [](float x) { return std::isfinite(x); }));
  });
  return 0;
}
