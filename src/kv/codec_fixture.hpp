// For tests of codecs: one page of one head, from float rows and back.
#pragma once

#include <sys/mman.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "base/gaussian.hpp"
#include "kv/layout.hpp"
#include "kv/spec.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv::codec_fixture {

// 128 rows (128, d) such as keys are: offsets and scales that differ by channel, two channels far out.
inline std::vector<float> make_rows(int d, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> offset(static_cast<std::size_t>(d)), scale(static_cast<std::size_t>(d));
  for (std::size_t c = 0; c < offset.size(); ++c) {
    offset[c] = 0.5f * normal(random);
    scale[c] = std::exp(0.4f * normal(random));
  }
  offset[static_cast<std::size_t>(d / 3)] = 6;
  scale[static_cast<std::size_t>(d / 2)] = 5;
  std::vector<float> x;
  for (int t = 0; t < kPageTokens; ++t)
    for (std::size_t c = 0; c < offset.size(); ++c) x.push_back(offset[c] + scale[c] * normal(random));
  return x;
}

inline double dot(const float* a, const float* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Rotary embedding of pairs (i, i + d/2), base 10000, by `shift` positions.
inline std::vector<float> rotary(const std::vector<float>& x, double shift) {
  const std::size_t half = x.size() / 2;
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = shift * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
    const double c = std::cos(angle);
    const double s = std::sin(angle);
    y[i] = static_cast<float>(c * x[i] - s * x[i + half]);
    y[i + half] = static_cast<float>(s * x[i] + c * x[i + half]);
  }
  return y;
}

// A block whose last byte, slack included, lies before memory that cannot be touched.
class GuardedBlock {
 public:
  explicit GuardedBlock(std::size_t bytes) : bytes_(bytes) {
    constexpr std::size_t kPage = 4096;
    mapped_ = (bytes + kReadSlack + kPage - 1) / kPage * kPage + kPage;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw Error(Code::kMemory, "mmap failed", "test");
    mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE);
  }
  ~GuardedBlock() { munmap(base_, mapped_); }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;
  std::byte* data() const { return base_ + mapped_ - 4096 - kReadSlack - bytes_; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::size_t mapped_ = 0;
  std::byte* base_ = nullptr;
};

struct Subject {
  // Throws as parse_codec does.
  Subject(std::string name_in, int d_in, Side side_in)
      : name(std::move(name_in)),
        spec(parse_codec(name, d_in, side_in, "test")),
        codec(spec.codec),
        d(d_in),
        side(side_in) {
    if (codec->state_bytes && codec->state_bytes(d) > 0) {
      state = std::make_shared<tensor::Buffer>(tensor::Tag::kCache, codec->state_bytes(d));
      codec->init_state(state->data(), d, side, 2, 1);
    }
    page = std::make_shared<GuardedBlock>(of_side().bytes(d, spec.params));
  }

  const CodecSide& of_side() const { return side == Side::kKeys ? codec->k : codec->v; }
  Head head() const { return {d, spec.params, state ? state->data() : nullptr}; }
  PageRef ref(int begin, int end) const { return {page->data(), begin, end, kPageTokens}; }

  // The same codec, as compiled for the instruction set in use now.
  Subject on_active_isa() const { return Subject(name, d, side); }

  // rows (128, d), token-major. Those that are raw in the codec's raw type are rounded to it first.
  void seal(const std::vector<float>& rows, int skip) {
    const char* raw_name = codec->raw_type == RawType::kF32 ? "f32" : codec->raw_type == RawType::kF16 ? "f16" : "bf16";
    const Codec& raw = *find(codecs(), raw_name);
    tensor::Buffer block(tensor::Tag::kCache, static_cast<std::size_t>(kPageTokens * d) * 4 + kReadSlack);
    if (side == Side::kKeys)
      raw.write_k(block.data(), kPageTokens, 0, kPageTokens, rows.data(), d, d);
    else
      raw.write_v(block.data(), kPageTokens, 0, kPageTokens, rows.data(), d, d);
    tensor::Buffer scratch(tensor::Tag::kScratch, seal_floats(d) * sizeof(float));
    of_side().seal(head(), block.data(), skip, scratch.as<float>(), page->data());
  }

  std::vector<std::byte> bytes() const { return {page->data(), page->data() + page->size()}; }
  void set_bytes(const std::vector<std::byte>& b) { std::memcpy(page->data(), b.data(), b.size()); }

  // (128, d) token-major, rotated back from the codec's basis.
  std::vector<float> unsealed() const {
    const int panels = (d + kPanel - 1) / kPanel;
    const std::size_t floats = static_cast<std::size_t>(kPageTokens) * static_cast<std::size_t>(panels * kPanel);
    tensor::Buffer tile(tensor::Tag::kScratch, floats * sizeof(float));
    of_side().unseal(head(), ref(0, kPageTokens), tile.as<float>());
    const float* x = tile.as<float>();
    std::vector<float> rows(static_cast<std::size_t>(kPageTokens * d));
    for (int t = 0; t < kPageTokens; ++t)
      for (int c = 0; c < d; ++c)
        rows[static_cast<std::size_t>(t * d + c)] = side == Side::kKeys
                                                        ? x[(t / kPanel * d + c) * kPanel + t % kPanel]
                                                        : x[(c / kPanel * kPageTokens + t) * kPanel + c % kPanel];
    if (of_side().from_basis) of_side().from_basis(head(), kPageTokens, rows.data(), d);
    return rows;
  }

  std::string name;
  CodecSpec spec;
  const Codec* codec;
  int d;
  Side side;
  std::shared_ptr<tensor::Buffer> state;
  std::shared_ptr<GuardedBlock> page;
};

}  // namespace kvasir::kv::codec_fixture
