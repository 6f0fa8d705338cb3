// The vector operations of every instruction set against those in plain C++: all 16 lanes, zeros of both signs,
// infinities, NaN, subnormal numbers, ties. Inputs and outputs end where memory ends, so that a read or write beyond
// them faults.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simd/isa_fixture.hpp"
#include "simd/vec_fixture.hpp"

namespace kvasir::simd {
namespace {

// Memory whose end is followed by pages that nobody may touch.
class Guarded {
 public:
  Guarded() {
    base_ =
        static_cast<std::byte*>(mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + page_, page_, PROT_NONE) != 0) throw std::bad_alloc();
  }
  ~Guarded() { munmap(base_, 2 * page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // The last bytes before the end.
  std::span<std::byte> last(std::size_t bytes) { return {base_ + page_ - bytes, bytes}; }

 private:
  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* base_;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kSpecial[] = {0.0f,     -0.0f,     1.0f,          -1.0f,          0.5f,           1.5f,
                              -2.5f,    kInfinity, -kInfinity,    kNaN,           -kNaN,          1e-40f,
                              -1e-45f,  3.4e38f,   -3.4e38f,      -87.0f,         88.75f,         -87.25f,
                              65519.0f, 65520.0f,  2147483648.0f, -2147483648.0f, 1.17549435e-38f};

void fill_bytes(std::mt19937& random, std::span<std::byte> to) {
  constexpr int kEdges[] = {0, 1, 127, 128, 129, 255};
  for (std::byte& b : to) {
    const unsigned r = random();
    b = static_cast<std::byte>(r & 0x700 ? r : static_cast<unsigned>(kEdges[(r & 255) % 6]));
  }
}

// Of every four numbers one of any bits, one special, two of moderate size.
void fill_floats(std::mt19937& random, std::span<std::byte> to) {
  std::normal_distribution<float> moderate(0, 30);
  for (std::size_t at = 0; at < to.size(); at += 4) {
    const auto bits = static_cast<std::uint32_t>(random());
    float x = moderate(random);
    if ((bits & 3) == 0) x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if ((bits & 3) == 1) x = kSpecial[(bits >> 2) % std::size(kSpecial)];
    std::memcpy(to.data() + at, &x, 4);
  }
}

bool same(VecBits kind, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (kind == VecBits::kAny) return std::memcmp(a.data(), b.data(), a.size()) == 0;
  for (std::size_t at = 0; at < a.size(); at += 4) {
    float x, y;
    std::memcpy(&x, a.data() + at, 4);
    std::memcpy(&y, b.data() + at, 4);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::memcmp(&x, &y, 4) != 0) return false;
  }
  return true;
}

std::string text(VecBits kind, std::span<const std::byte> a) {
  std::string s;
  for (std::size_t at = 0; at < a.size(); at += kind == VecBits::kFloats ? 4 : 1) {
    char word[32];
    if (kind == VecBits::kFloats) {
      float x;
      std::memcpy(&x, a.data() + at, 4);
      std::snprintf(word, sizeof(word), " %g", static_cast<double>(x));
    } else {
      std::snprintf(word, sizeof(word), " %02x", std::to_integer<unsigned>(a[at]));
    }
    s += word;
  }
  return s;
}

const VecOp* reference(std::string_view name) {
  const VecTestKernels& scalar = scalar::vec_test_table;
  for (int i = 0; i < scalar.count; ++i)
    if (scalar.ops[i].name == name) return &scalar.ops[i];
  return nullptr;
}

TEST(Vec, EveryOperationIsThatOfPlainCode) {
  Guarded in_page, out_page;
  on_every_isa([&] {
    const VecTestKernels& kernels = vec_test();
    ASSERT_GT(kernels.count, 80);
    for (int i = 0; i < kernels.count; ++i) {
      const VecOp& op = kernels.ops[i];
      const VecOp* plain = reference(op.name);
      ASSERT_NE(plain, nullptr) << op.name;
      std::mt19937 random(7);
      const auto in = in_page.last(static_cast<std::size_t>(op.in_bytes));
      const auto out = out_page.last(static_cast<std::size_t>(op.out_bytes));
      std::vector<std::byte> expected(out.size());
      for (int round = 0; round < 500; ++round) {
        op.in == VecBits::kFloats ? fill_floats(random, in) : fill_bytes(random, in);
        plain->run(in.data(), expected.data());
        op.run(in.data(), out.data());
        const bool equal = same(op.out, expected, out);
        EXPECT_TRUE(equal) << op.name << " of" << text(op.in, in) << "\nis " << text(op.out, out) << "\nnot"
                           << text(op.out, expected);
        if (!equal) break;
      }
    }
  });
}

TEST(Vec, PartialLoadsAndStoresTouchNothingElse) {
  Guarded from_page, to_page;
  on_every_isa([&] {
    const VecTestKernels& kernels = vec_test();
    for (int n = 0; n <= 16; ++n) {
      const auto count = static_cast<std::size_t>(n);
      auto* from = reinterpret_cast<float*>(from_page.last(4 * count).data());
      auto* to = reinterpret_cast<float*>(to_page.last(4 * count).data());
      for (int i = 0; i < n; ++i) from[i] = static_cast<float>(i + 1), to[i] = 0;
      kernels.copy_n(from, to, n);
      for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], static_cast<float>(i + 1)) << n;

      float lanes[16], beyond[16];
      kernels.load_n(from, lanes, n);
      for (int i = 0; i < 16; ++i) EXPECT_EQ(lanes[i], i < n ? static_cast<float>(i + 1) : 0.0f) << n;
      for (float& x : beyond) x = -1;
      kernels.copy_n(lanes, beyond, n);
      for (int i = 0; i < 16; ++i) EXPECT_EQ(beyond[i], i < n ? lanes[i] : -1.0f) << n;
    }
  });
}

}  // namespace
}  // namespace kvasir::simd
