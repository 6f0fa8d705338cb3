// Every format of the registry: what rounding to it loses, and against the floats that another program makes of the
// same bytes. Those whose definition is written a second time here, element by element from the byte layout, against
// it. Products and panels: kernel/matmul_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/gaussian.hpp"
#include "base/test_data_fixture.hpp"
#include "simd/isa_fixture.hpp"
#include "tensor/buffer.hpp"
#include "weights/gguf.hpp"
#include "weights/model_file.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

using Block = const std::uint8_t*;

float half(Block p) {
  const int bits = p[0] | p[1] << 8;
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                   : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -size : size;
}
float real(int x) { return static_cast<float>(x); }
int nibble(Block p, int e) { return e < 16 ? p[e] & 15 : p[e - 16] >> 4; }                 // blocks of 32
int fifth(Block p, int e) { return (p[e / 8] >> e % 8 & 1) << 4; }                         // blocks of 32
int k_nibble(Block p, int e) { return p[e / 64 * 32 + e % 32] >> e % 64 / 32 * 4 & 15; }   // Q4_K, Q5_K
int bit_pair(Block p, int e) { return p[e / 128 * 32 + e % 32] >> e % 128 / 32 * 2 & 3; }  // Q2_K, Q3_K, Q6_K (high)

float q4_0(Block b, int e) { return half(b) * real(nibble(b + 2, e) - 8); }
float q4_1(Block b, int e) { return half(b) * real(nibble(b + 4, e)) + half(b + 2); }
float q5_0(Block b, int e) { return half(b) * real((nibble(b + 6, e) | fifth(b + 2, e)) - 16); }
float q5_1(Block b, int e) { return half(b) * real(nibble(b + 8, e) | fifth(b + 4, e)) + half(b + 2); }
float q8_0(Block b, int e) { return half(b) * real(static_cast<std::int8_t>(b[2 + e])); }
float q2_k(Block b, int e) {
  const int sub = b[e / 16];
  return half(b + 80) * real(sub & 15) * real(bit_pair(b + 16, e)) - half(b + 82) * real(sub >> 4);
}
float q3_k(Block b, int e) {
  const int j = e / 16;
  const int low = j < 8 ? b[96 + j] & 15 : b[96 + j - 8] >> 4;
  const int high = b[104 + j % 4] >> 2 * (j / 4) & 3;
  const int third = b[e % 32] >> e / 32 & 1;
  return half(b + 108) * real(low + 16 * high - 32) * real(bit_pair(b + 32, e) - (third ? 0 : 4));
}
// 6-bit scales and minima of Q4_K and Q5_K: p points at the 12 bytes.
int k_scale(Block p, int j) { return j < 4 ? p[j] & 63 : (p[j + 4] & 15) | (p[j - 4] >> 6) << 4; }
int k_minimum(Block p, int j) { return j < 4 ? p[j + 4] & 63 : p[j + 4] >> 4 | (p[j] >> 6) << 4; }
float q4_k(Block b, int e) {
  return half(b) * real(k_scale(b + 4, e / 32)) * real(k_nibble(b + 16, e)) -
         half(b + 2) * real(k_minimum(b + 4, e / 32));
}
float q5_k(Block b, int e) {
  const int code = k_nibble(b + 48, e) + ((b[16 + e % 32] >> e / 32 & 1) ? 16 : 0);
  return half(b) * real(k_scale(b + 4, e / 32)) * real(code) - half(b + 2) * real(k_minimum(b + 4, e / 32));
}
float q6_k(Block b, int e) {
  const int low = b[e / 128 * 64 + e % 64] >> e % 128 / 64 * 4 & 15;
  const int code = low | bit_pair(b + 128, e) << 4;
  return half(b + 208) * real(static_cast<std::int8_t>(b[192 + e / 16])) * real(code - 32);
}

constexpr int kNonLinear[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
float iq4_nl(Block b, int e) { return half(b) * real(kNonLinear[nibble(b + 2, e)]); }
float iq4_xs(Block b, int e) {
  const int j = e / 32;
  const int s = (b[4 + j / 2] >> 4 * (j % 2) & 15) + (((b[2] | b[3] << 8) >> 2 * j & 3) << 4);
  return half(b) * real(s - 32) * real(kNonLinear[nibble(b + 8 + 16 * j, e % 32)]);
}
// E8M0 times E2M1: sign, two bits of exponent, one of mantissa.
float mxfp4(Block b, int e) {
  const int code = nibble(b + 1, e), exponent = code >> 1 & 3, mantissa = code & 1;
  const double size = exponent == 0 ? 0.5 * mantissa : std::ldexp(1 + 0.5 * mantissa, exponent - 1);
  if (b[0] == 255) return NAN;
  return static_cast<float>(std::ldexp(code & 8 && code != 8 ? -size : size, b[0] - 127));
}

struct Definition {
  const char* name;
  int block, block_bytes;
  std::vector<int> halves;  // offsets of the f16 fields
  float (*element)(Block block, int e);
  double error;  // relative L2 error of rounding normal data
};

const Definition kDefinitions[] = {
    {"q4_0", 32, 18, {0}, q4_0, 0.10},       {"q4_1", 32, 20, {0, 2}, q4_1, 0.09},
    {"q5_0", 32, 22, {0}, q5_0, 0.05},       {"q5_1", 32, 24, {0, 2}, q5_1, 0.045},
    {"q8_0", 32, 34, {0}, q8_0, 0.007},      {"q2_k", 256, 84, {80, 82}, q2_k, 0.40},
    {"q3_k", 256, 110, {108}, q3_k, 0.20},   {"q4_k", 256, 144, {0, 2}, q4_k, 0.09},
    {"q5_k", 256, 176, {0, 2}, q5_k, 0.045}, {"q6_k", 256, 210, {208}, q6_k, 0.025},
    {"iq4_nl", 32, 18, {0}, iq4_nl, 0.09},   {"iq4_xs", 256, 136, {0}, iq4_xs, 0.09},
    {"mxfp4", 32, 17, {}, mxfp4, 0.15},
};

// What rounding normal data loses in types without a definition here.
struct Loss {
  const char* name;
  double error;
};
constexpr Loss kLosses[] = {
    {"iq1_s", 0.50},    {"iq1_m", 0.46}, {"iq2_xxs", 0.36},  {"iq2_xs", 0.31},    {"iq2_s", 0.26},
    {"iq3_xxs", 0.195}, {"iq3_s", 0.14}, {"tq1_0", 0.46},    {"tq2_0", 0.46},     {"nvfp4", 0.105},
    {"q1_0", 0.63},     {"q2_0", 0.46},  {"affine6", 0.025}, {"affine8", 0.0063}, {"f8_e4m3", 0.03},
};

std::string label(const Definition& d) { return d.name; }

class Quants : public simd::IsaTest {};

std::vector<std::byte> rounded(const Quant& quant, const std::vector<float>& x) {
  std::vector<std::byte> bytes(x.size() / static_cast<std::size_t>(quant.block) *
                               static_cast<std::size_t>(quant.block_bytes));
  quant.quantise(x.data(), bytes.data(), static_cast<std::int64_t>(x.size()));
  return bytes;
}
std::vector<float> values(const Quant& quant, const std::vector<std::byte>& bytes) {
  std::vector<float> x(bytes.size() / static_cast<std::size_t>(quant.block_bytes) *
                       static_cast<std::size_t>(quant.block));
  quant.dequantise(bytes.data(), x.data(), static_cast<std::int64_t>(x.size()));
  return x;
}
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double w = static_cast<double>(want[i]);
    const double difference = static_cast<double>(got[i]) - w;
    error += difference * difference;
    norm += w * w;
  }
  return std::sqrt(error / norm);
}

TEST_P(Quants, BlocksHaveTheirSizes) {
  for (const Definition& d : kDefinitions) {
    const Quant* quant = find(quants(), d.name);
    ASSERT_NE(quant, nullptr) << label(d);
    EXPECT_EQ(quant->block, d.block) << label(d);
    EXPECT_EQ(quant->block_bytes, d.block_bytes) << label(d);
  }
}

TEST_P(Quants, DequantiseIsTheDefinitionBitForBit) {
  std::mt19937 rng(1);
  for (const Definition& d : kDefinitions) {
    const Quant& quant = *find(quants(), d.name);
    const std::size_t blocks = 600;
    std::vector<std::byte> bytes(blocks * static_cast<std::size_t>(d.block_bytes));
    for (auto& b : bytes) b = static_cast<std::byte>(rng());
    // Any finite f16 below 2 in magnitude (neither infinities nor NaN), subnormals, zeros and both signs among them.
    for (std::size_t i = 0; i < blocks; ++i)
      for (int offset : d.halves) {
        auto& low = bytes[i * static_cast<std::size_t>(d.block_bytes) + static_cast<std::size_t>(offset)];
        auto& high = bytes[i * static_cast<std::size_t>(d.block_bytes) + static_cast<std::size_t>(offset) + 1];
        high &= std::byte{0xbf};
        if (i % 16 == 3) high &= std::byte{0x83};
        if (i % 16 == 5) high &= std::byte{0x80}, low = std::byte{0};
      }
    const auto got = values(quant, bytes);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t block = i / static_cast<std::size_t>(d.block);
      const auto* p =
          reinterpret_cast<const std::uint8_t*>(bytes.data()) + block * static_cast<std::size_t>(d.block_bytes);
      const float want = d.element(p, static_cast<int>(i % static_cast<std::size_t>(d.block)));
      const bool neither = std::isnan(got[i]) && std::isnan(want);  // whatever their bits
      ASSERT_TRUE(neither || std::memcmp(&got[i], &want, 4) == 0)
          << d.name << " element " << i << ": " << got[i] << ", want " << want;
    }
  }
}

// A type of tests/golden/weights.txt, which tools/golden_weights.py wrote.
struct Golden {
  std::string name;
  int block, block_bytes;
  std::size_t blocks;
  std::uint64_t hash;  // of all floats
  std::string first;   // block, in hexadecimal
  std::vector<std::uint32_t> floats;

  bool read(std::istream& in) {
    if (!(in >> name >> block >> block_bytes >> blocks >> std::hex >> hash >> first)) return false;
    floats.resize(static_cast<std::size_t>(block));
    for (auto& word : floats) in >> word;
    in >> std::dec;
    return static_cast<bool>(in);
  }

  // The same bytes as the tool's, where the f16 fields and, of MXFP4, the exponent are finite.
  std::vector<std::byte> bytes(const std::vector<int>& fields) const {
    const auto size = static_cast<std::size_t>(block_bytes);
    std::vector<std::byte> all(blocks * size);
    auto x = static_cast<std::uint32_t>(block_bytes);
    for (auto& b : all) b = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
    for (std::size_t i = 0; i < blocks; ++i) {
      std::byte* const b = &all[i * size];
      for (const int at : fields) {
        b[at + 1] &= std::byte{0xbf};
        if (i % 16 == 3) b[at + 1] &= std::byte{0x83};
        if (i % 16 == 5) b[at + 1] &= std::byte{0x80}, b[at] = std::byte{0};
      }
      if (name == "mxfp4" && b[0] == std::byte{255}) b[0] = std::byte{254};
    }
    return all;
  }
};

std::vector<int> golden_fields(std::string_view name) {
  static const std::pair<std::string_view, int> kOthers[] = {
      {"iq1_m", 54},  {"iq1_s", 0}, {"iq2_s", 0}, {"iq2_xs", 0}, {"iq2_xxs", 0}, {"iq3_s", 0},
      {"iq3_xxs", 0}, {"q1_0", 0},  {"q2_0", 0},  {"tq1_0", 52}, {"tq2_0", 64}};
  for (const Definition& d : kDefinitions)
    if (name == d.name) return d.halves;
  for (const auto& [other, at] : kOthers)
    if (name == other) return {at};
  return {};
}

std::string hexadecimal(const std::byte* p, int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    for (const int nibble : {static_cast<int>(p[i]) >> 4, static_cast<int>(p[i]) & 15})
      text += "0123456789abcdef"[nibble];
  return text;
}

// Also of panels: whatever a block's bytes are, packed and unpacked it is the same.
TEST_P(Quants, DequantiseIsWhatAnotherProgramGivesBitForBit) {
  std::ifstream in(KVASIR_SOURCE_DIR "/tests/golden/weights.txt");
  std::vector<std::string> seen;
  for (Golden golden; golden.read(in);) {
    SCOPED_TRACE(golden.name);
    seen.push_back(golden.name);
    const Quant* quant = find(quants(), golden.name);
    ASSERT_NE(quant, nullptr);
    ASSERT_EQ(quant->block, golden.block);
    ASSERT_EQ(quant->block_bytes, golden.block_bytes);
    const auto bytes = golden.bytes(golden_fields(golden.name));
    ASSERT_EQ(golden.first, hexadecimal(bytes.data(), golden.block_bytes)) << "the tool made other bytes";
    const auto got = values(*quant, bytes);
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (std::size_t i = 0; i < got.size(); ++i) {
      std::uint32_t word;
      std::memcpy(&word, &got[i], 4);
      if (i < golden.floats.size()) {
        ASSERT_EQ(word, golden.floats[i]) << "element " << i << ": " << got[i];
      }
      hash = (hash ^ word) * 0x100000001b3u;
    }
    EXPECT_EQ(hash, golden.hash) << "a block behind the first differs";

    const kernel::PanelFormat& panel = *quant->panel;
    const std::size_t blocks = golden.blocks / kernel::kPanelRows / 8 * 8;  // whole chunks of every format
    const auto k = static_cast<std::int64_t>(blocks) * quant->block;
    const std::byte* rows[kernel::kPanelRows];
    for (std::size_t r = 0; r < kernel::kPanelRows; ++r)
      rows[r] = &bytes[r * blocks * static_cast<std::size_t>(quant->block_bytes)];
    tensor::Buffer packed(tensor::Tag::kWeights, static_cast<std::size_t>(panel.panel_bytes(k)));
    panel.pack(rows, k, packed.data());
    std::vector<float> row(static_cast<std::size_t>(k));
    for (std::size_t r = 0; r < kernel::kPanelRows; ++r) {
      panel.unpack_row(packed.data(), static_cast<int>(r), k, row.data());
      for (std::size_t i = 0; i < row.size(); ++i)
        ASSERT_EQ(row[i], got[r * row.size() + i]) << "row " << r << " element " << i;
    }
  }
  for (const auto& [name, quant] : quants())  // of folders' types tests/folder_*_test.cpp have the definition
    EXPECT_EQ(std::count(seen.begin(), seen.end(), name), quant->block > 1 && find_block_type(name) ? 1 : 0) << name;
}

// What a uniform quantiser over the range of 32 (or 16) normal values loses (step / sqrt(12)) is about 2.6 * 2^-bits.
// Floats lose what their mantissa does: of three bits up to 1/16.
double most_lost(std::string_view name, const Quant& quant) {
  if (name == "f8_e4m3") return 0.0625;
  return quant.block == 1 ? 0.004 : 3.2 * std::exp2(-8.0 * quant.block_bytes / quant.block);
}

TEST_P(Quants, RoundingNormalDataLosesWhatItsBitsAllow) {
  const auto x = gaussian(64 * 256, 2);
  for (const auto& [name, quant] : quants())
    EXPECT_LT(relative_error(values(*quant, rounded(*quant, x)), x), most_lost(name, *quant)) << name;
  for (const Definition& d : kDefinitions) {
    const Quant& quant = *find(quants(), d.name);
    const double error = relative_error(values(quant, rounded(quant, x)), x);
    EXPECT_LT(error, d.error) << d.name;
    EXPECT_GT(error, d.error / 3) << d.name << ": better than its bits";
  }
  for (const Loss& l : kLosses) {
    const Quant& quant = *find(quants(), l.name);
    const double error = relative_error(values(quant, rounded(quant, x)), x);
    EXPECT_LT(error, l.error) << l.name;
    EXPECT_GT(error, l.error / 1.5) << l.name << ": better than its bits";
  }
}

TEST_P(Quants, ZerosAreExact) {
  for (const auto& [name, entry] : quants()) {
    const Quant& quant = *entry;
    for (float v : values(quant, rounded(quant, std::vector<float>(512, 0.0f)))) ASSERT_EQ(v, 0.0f) << name;
    // One block of zeros among others.
    auto x = gaussian(768, 3);
    std::fill(x.begin() + 256, x.begin() + 512, 0.0f);
    const auto y = values(quant, rounded(quant, x));
    for (std::size_t i = 256; i < 512; ++i) ASSERT_EQ(y[i], 0.0f) << name;
  }
}

TEST_P(Quants, ConstantsSurvive) {
  for (const auto& [name, entry] : quants()) {
    const Quant& quant = *entry;
    // f16 scales alone are rounded; a scale that is a power of two leaves rounding to the codes.
    const auto* d = std::find_if(std::begin(kDefinitions), std::end(kDefinitions),
                                 [&](const Definition& x) { return name == x.name && !x.halves.empty(); });
    const float kept = d != std::end(kDefinitions) ? 1.5e-3f : static_cast<float>(most_lost(name, quant));
    for (float c : {1.0f, -1.0f, 0.1f, -3.7f, 1000.0f}) {
      for (float v : values(quant, rounded(quant, std::vector<float>(512, c)))) {
        ASSERT_TRUE(std::isfinite(v)) << name << " of " << c;
        ASSERT_NEAR(v, c, kept * std::fabs(c)) << name;
      }
    }
  }
}

// Where every sub-block spans the same range (so that all its scales are full), rounding again changes nothing.
TEST_P(Quants, RoundingIsStable) {
  auto x = gaussian(8 * 256, 4);
  for (auto& v : x) v = std::clamp(v, -1.9f, 1.9f);
  for (std::size_t i = 0; i < x.size(); i += 16) {
    x[i + 3] = -2.0f;
    x[i + 9] = 1.95f;
  }
  for (const auto& [name, entry] : quants()) {
    const Quant& quant = *entry;
    const auto once = rounded(quant, x);
    const auto twice = rounded(quant, values(quant, once));
    if (quant.together == 1) {
      EXPECT_EQ(once, twice) << name;
    } else {  // the scales that a search tries depend on the largest element
      EXPECT_LT(relative_error(values(quant, twice), values(quant, once)), 0.3 * most_lost(name, quant)) << name;
    }
  }
}

TEST_P(Quants, TinyAndHugeStayFinite) {
  for (const auto& [name, entry] : quants()) {
    const Quant& quant = *entry;
    for (float scale : {1e-30f, 1e-9f, 1e-6f, 1e3f, 1e4f}) {
      auto x = gaussian(512, 5);
      for (auto& v : x) v *= scale;
      for (float v : values(quant, rounded(quant, x))) ASSERT_TRUE(std::isfinite(v)) << name << " scale " << scale;
    }
  }
}

// The golden models hold one network in many types, written by another program: dequantised, each must be near the
// unquantised weights. A code or scale in a wrong place would give an error near or above 1.
TEST_P(Quants, FilesOfAnotherWriterAreNearTheirSource) {
  namespace fs = std::filesystem;
  const fs::path golden = fixture::test_data("golden");
  if (!fs::exists(golden / "quant")) GTEST_SKIP() << golden << " is not there";
  const auto source = open_model_file((golden / "llama-gqa.gguf").string());
  std::size_t seen[std::size(kDefinitions)] = {};
  for (const auto& entry : fs::directory_iterator(golden / "quant")) {
    if (entry.path().extension() != ".gguf") continue;
    const auto model = open_model_file(entry.path().string());
    for (const TensorInfo& tensor : model->tensors()) {
      const auto* d = std::find_if(std::begin(kDefinitions), std::end(kDefinitions),
                                   [&](const Definition& x) { return tensor.quant == x.name; });
      if (d == std::end(kDefinitions)) continue;
      const TensorInfo* exact = source->find(tensor.name);
      ASSERT_NE(exact, nullptr) << tensor.name;
      ASSERT_EQ(exact->quant, "f32") << tensor.name;
      std::vector<float> want(exact->bytes.size() / 4);
      std::memcpy(want.data(), exact->bytes.data(), exact->bytes.size());
      const std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
      const double error = relative_error(values(*find(quants(), d->name), bytes), want);
      EXPECT_LT(error, 1.1 * d->error) << entry.path().filename() << " " << tensor.name;
      ++seen[d - kDefinitions];
    }
  }
  const auto types = std::count_if(std::begin(seen), std::end(seen), [](std::size_t n) { return n > 0; });
  EXPECT_GE(types, 10);
}

INSTANTIATE_TEST_SUITE_P(Isa, Quants, ::testing::Range(0, simd::kIsaCount),
                         [](const auto& p) { return std::string(simd::name(static_cast<simd::Isa>(p.param))); });

}  // namespace
}  // namespace kvasir::weights
