// Folders with codes of 4 bits: AWQ, GPTQ and compressed-tensors, packed here by a second implementation. The same bits
// as a folder with the same weights in 32 bits, with any order of inputs, and clear words for parts that do not fit
// together.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>

#include "base/error.hpp"
#include "folder_fixture.hpp"
#include "golden_folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "simd/bf16_products.hpp"
#include "simd/half.hpp"
#include "simd/isa.hpp"
#include "tensor/buffer.hpp"
#include "weights/mixes.hpp"
#include "weights/quant.hpp"
#include "weights/requantise.hpp"
#include "weights/rounded_file.hpp"

namespace kvasir::run {
namespace folder_int4_test {

using testing::FolderStyle;
using testing::FolderTensor;
using testing::kShipped;
using testing::logits_of;
using testing::PlainJson;
using testing::TemporaryPath;

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

// kGptqOrdered: matrices that read the same have one order, as GPTQ makes them. kGptqShuffled: each has its own.
// kGptqUneven: groups of different sizes.
enum class Method {
  kAwq,
  kGptq,
  kGptqV2,
  kGptqOrdered,
  kGptqShuffled,
  kGptqUneven,
  kCompressed,
  kCompressedSymmetric,
  kCompressedOrdered
};
constexpr bool in_order(Method m) {
  return m != Method::kGptqOrdered && m != Method::kGptqShuffled && m != Method::kGptqUneven &&
         m != Method::kCompressedOrdered;
}

struct Case {
  Method method;
  int group;  // 0: the whole row
  bool bf16 = false;
};
std::string name_of(const Case& c) {
  constexpr const char* kNames[] = {"Awq",
                                    "Gptq",
                                    "GptqV2",
                                    "GptqOrdered",
                                    "GptqShuffled",
                                    "GptqUneven",
                                    "Compressed",
                                    "CompressedSymmetric",
                                    "CompressedOrdered"};
  return std::string(kNames[static_cast<int>(c.method)]) + std::to_string(c.group) + (c.bf16 ? "Bf16" : "");
}
void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c); }

// Codes of a matrix as the definition has them.
struct Codes {
  int in, out, groups;
  std::vector<int> q, z;         // (out, in), (groups, out)
  std::vector<float> s;          // (groups, out)
  std::vector<int> group_of;     // (in)
  std::string weights() const {  // float32 (out, in)
    std::string bytes;
    for (int o = 0; o < out; ++o)
      for (int i = 0; i < in; ++i) {
        const int g = group_of[static_cast<std::size_t>(i)];
        const float x = static_cast<float>(q[static_cast<std::size_t>(o * in + i)] - zero(g, o)) * scale(g, o);
        bytes.append(reinterpret_cast<const char*>(&x), 4);
      }
    return bytes;
  }
  int zero(int g, int o) const { return z[static_cast<std::size_t>(g * out + o)]; }
  float scale(int g, int o) const { return s[static_cast<std::size_t>(g * out + o)]; }
};

Codes random_codes(int out, int in, const Case& c, std::mt19937& random, float step = 0.02f) {
  const int group = c.group == 0 ? in : c.group;
  Codes x{in, out, in / group, {}, {}, {}, {}};
  for (int i = 0; i < out * in; ++i) x.q.push_back(static_cast<int>(random() % 16));
  for (int i = 0; i < x.groups * out; ++i) {
    const float size = step * (1.0f + static_cast<float>(random() % 1000) / 500.0f);
    x.z.push_back(c.method == Method::kCompressedSymmetric ? 8 : static_cast<int>(random() % 16));
    x.s.push_back(c.bf16 ? simd::bf16_to_f32(simd::f32_to_bf16(size)) : simd::f16_to_f32(simd::f32_to_f16(size)));
  }
  for (int i = 0; i < in; ++i) x.group_of.push_back(i / group);
  std::mt19937 same(static_cast<unsigned>(in));
  if (!in_order(c.method))
    std::shuffle(x.group_of.begin(), x.group_of.end(), c.method == Method::kGptqOrdered ? same : random);
  if (c.method == Method::kGptqUneven) x.group_of[0] = (x.group_of[0] + 1) % x.groups;
  return x;
}

// Words of eight nibbles, nibble n of word w being at(w, n).
std::string words(int count, const std::function<int(int, int)>& at) {
  std::string bytes;
  for (int w = 0; w < count; ++w) {
    std::uint32_t word = 0;
    for (int n = 0; n < 8; ++n) word |= static_cast<std::uint32_t>(at(w, n) & 15) << (4 * n);
    bytes.append(reinterpret_cast<const char*>(&word), 4);
  }
  return bytes;
}

std::string numbers(const std::vector<float>& x, bool bf16) {
  std::string bytes;
  for (const float v : x) {
    const std::uint16_t half = bf16 ? simd::f32_to_bf16(v) : simd::f32_to_f16(v);
    bytes.append(reinterpret_cast<const char*>(&half), 2);
  }
  return bytes;
}

std::vector<FolderTensor> parts_of(const std::string& stem, const Codes& x, const Case& c) {
  const std::string dtype = c.bf16 ? "BF16" : "F16";
  const auto q = [&](int o, int i) { return x.q[static_cast<std::size_t>(o * x.in + i)]; };
  if (c.method >= Method::kCompressed) {
    std::vector<float> scales;
    for (int o = 0; o < x.out; ++o)
      for (int g = 0; g < x.groups; ++g) scales.push_back(x.scale(g, o));
    const std::int64_t shape[2] = {x.out, x.in};
    std::vector<FolderTensor> parts = {
        {stem + ".weight_packed",
         "I32",
         {x.out, x.in / 8},
         words(x.out * x.in / 8, [&](int w, int n) { return q(w / (x.in / 8), w % (x.in / 8) * 8 + n); })},
        {stem + ".weight_scale", dtype, {x.out, x.groups}, numbers(scales, c.bf16)},
        {stem + ".weight_shape", "I64", {2}, std::string(reinterpret_cast<const char*>(shape), sizeof shape)}};
    if (c.method == Method::kCompressedOrdered) {
      std::string order;
      for (const std::int32_t g : x.group_of) order.append(reinterpret_cast<const char*>(&g), 4);
      parts.push_back({stem + ".weight_g_idx", "I32", {x.in}, order});
    }
    if (c.method != Method::kCompressedSymmetric)
      parts.push_back(
          {stem + ".weight_zero_point", "I32", {x.out / 8, x.groups}, words(x.out / 8 * x.groups, [&](int w, int n) {
             return x.zero(w % x.groups, w / x.groups * 8 + n);
           })});
    return parts;
  }
  const FolderTensor scales{stem + ".scales", dtype, {x.groups, x.out}, numbers(x.s, c.bf16)};
  const int wide = x.out / 8;
  if (c.method == Method::kAwq) {
    constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // the output that nibble n is of
    return {{stem + ".qweight",
             "I32",
             {x.in, wide},
             words(x.in * wide, [&](int w, int n) { return q(w % wide * 8 + kOrder[n], w / wide); })},
            {stem + ".qzeros",
             "I32",
             {x.groups, wide},
             words(x.groups * wide, [&](int w, int n) { return x.zero(w / wide, w % wide * 8 + kOrder[n]); })},
            scales};
  }
  const int less = c.method == Method::kGptqV2 ? 0 : 1;
  std::string order;
  for (const std::int32_t g : x.group_of) order.append(reinterpret_cast<const char*>(&g), 4);
  return {{stem + ".qweight",
           "I32",
           {x.in / 8, x.out},
           words(x.in / 8 * x.out, [&](int w, int n) { return q(w % x.out, w / x.out * 8 + n); })},
          {stem + ".qzeros",
           "I32",
           {x.groups, wide},
           words(x.groups * wide, [&](int w, int n) { return x.zero(w / wide, w % wide * 8 + n) - less; })},
          scales,
          {stem + ".g_idx", "I32", {x.in}, order}};
}

PlainJson config_of(const Case& c) {
  const int group = c.group == 0 ? -1 : c.group;
  switch (c.method) {
    case Method::kAwq:
      return {{"quant_method", "awq"}, {"bits", 4}, {"group_size", group}, {"zero_point", true}, {"version", "gemm"}};
    case Method::kGptq:
    case Method::kGptqOrdered:
    case Method::kGptqShuffled:
    case Method::kGptqUneven:
      return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", group}, {"desc_act", true}};
    case Method::kGptqV2:
      return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", group}, {"checkpoint_format", "gptq_v2"}};
    default:
      break;
  }
  PlainJson weights{{"num_bits", 4}, {"type", "int"}, {"strategy", group < 0 ? "channel" : "group"}};
  if (group > 0) weights["group_size"] = group;
  if (c.method == Method::kCompressedOrdered) weights["actorder"] = "group";
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

struct Folders {
  PlainJson config;
  std::vector<FolderTensor> plain, packed;
};

// The golden model `file` with random codes in its layers' matrices.
Folders folders_of(const char* file, const FolderStyle& style, const Case& c) {
  const auto model = weights::open_model_file(kShipped + file + ".gguf");
  std::mt19937 random(5);
  Folders f{testing::folder_config(*model, style), {}, {}};
  for (FolderTensor& t : testing::folder_tensors(*model, style)) {
    const bool matrix = t.name.find("_proj.weight") != t.name.npos;
    if (!matrix) {
      f.plain.push_back(t);
      f.packed.push_back(t);
      continue;
    }
    const std::string stem = t.name.substr(0, t.name.size() - 7);
    const Codes x = random_codes(static_cast<int>(t.shape[0]), static_cast<int>(t.shape[1]), c, random);
    f.plain.push_back({t.name, "F32", t.shape, x.weights()});
    for (FolderTensor& part : parts_of(stem, x, c)) f.packed.push_back(std::move(part));
  }
  return f;
}

class Int4Folders : public ::testing::TestWithParam<Case> {};

TEST_P(Int4Folders, SameBitsAsFloats) {
  const Case& c = GetParam();
  for (const auto& [file, style] : {std::pair<const char*, FolderStyle>{"llama", {"llama", true}},
                                    std::pair<const char*, FolderStyle>{"qwen2", {"qwen2"}}}) {
    const Folders f = folders_of(file, style, c);
    TemporaryPath plain("plain"), packed("packed");
    testing::write_folder(plain.path, f.config, f.plain);
    PlainJson config = f.config;
    config["quantization_config"] = config_of(c);
    testing::write_folder(packed.path, config, f.packed, true);
    const std::vector<float> want = logits_of(plain.path, true), exact = logits_of(packed.path, true);
    EXPECT_TRUE(exact == want);
    EXPECT_LT(relative_error(logits_of(packed.path, false), want), 0.1);
    const auto model = weights::open_model_file(packed.path);
    const weights::TensorInfo& down = *model->find("blk.0.ffn_down.weight");
    EXPECT_EQ(down.kept().quant, c.method == Method::kGptqUneven ? "f32" : "int4_zero");
    EXPECT_EQ(down.ordered != nullptr, !in_order(c.method) && c.method != Method::kGptqUneven);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Int4Folders,
                         ::testing::Values(Case{Method::kAwq, 32}, Case{Method::kAwq, 0}, Case{Method::kGptq, 32},
                                           Case{Method::kGptq, 0}, Case{Method::kGptqV2, 32},
                                           Case{Method::kGptqOrdered, 32}, Case{Method::kGptqShuffled, 32},
                                           Case{Method::kGptqUneven, 32}, Case{Method::kCompressed, 32},
                                           Case{Method::kCompressedSymmetric, 32},
                                           Case{Method::kCompressedSymmetric, 0}, Case{Method::kCompressedOrdered, 32},
                                           Case{Method::kCompressed, 32, true}, Case{Method::kAwq, 32, true}),
                         [](const auto& i) { return name_of(i.param); });

struct Outcome {
  std::vector<float> logits;
  std::uint64_t cache = 0;
  bool operator==(const Outcome&) const = default;
};
Outcome run_folder(const std::string& model, std::vector<std::int32_t> ids, EngineOptions o) {
  o.model = model;
  Engine engine(o, {.sequences = 1, .logits = static_cast<int>(ids.size())});
  kv::Sequence* s = engine.cache().create();
  Outcome out;
  const auto chunk = static_cast<std::size_t>(o.chunk);
  for (std::size_t at = 0; at < ids.size(); at += chunk) {
    const auto part = std::span(ids).subspan(at, std::min(chunk, ids.size() - at));
    const auto rows = engine.feed(s, part, static_cast<int>(part.size()));
    out.logits.insert(out.logits.end(), rows.begin(), rows.end());
  }
  out.cache = engine.cache().bytes().digest(*s);
  return out;
}

// A golden folder with random codes in the matrices of its layers, in GPTQ's orders.
Folders ordered_folder(const testing::GoldenFolder& golden, const Case& c) {
  std::mt19937 random(7);
  Folders f{golden.config, {}, {}};
  for (const FolderTensor& t : golden.tensors) {
    const auto has = [&](const char* part) { return t.name.find(part) != t.name.npos; };
    const bool matrix = has(".layers.") && t.name.ends_with(".weight") && t.shape.size() == 2 && !has("norm") &&
                        !has(".gate.weight") && t.shape[0] % 8 == 0 && t.shape[1] % c.group == 0;
    if (!matrix) {
      f.plain.push_back(t);
      f.packed.push_back(t);
      continue;
    }
    const Codes x = random_codes(static_cast<int>(t.shape[0]), static_cast<int>(t.shape[1]), c, random, 0.01f);
    f.plain.push_back({t.name, "F32", t.shape, x.weights()});
    for (FolderTensor& part : parts_of(t.name.substr(0, t.name.size() - 7), x, c)) f.packed.push_back(std::move(part));
  }
  return f;
}

// Biases of hidden rows, layers beside each other, states, latent attention, experts, multipliers.
class OrderedFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(OrderedFamilies, SameBitsAsFloatsHoweverTheyAreFed) {
  const testing::GoldenFolder golden = testing::golden_folder(GetParam());
  for (const Method method : {Method::kGptqOrdered, Method::kGptqShuffled}) {
    const Case c{method, 32};
    const Folders f = ordered_folder(golden, c);
    TemporaryPath plain("plain"), packed("packed"), gguf("packed.gguf");
    testing::write_folder(plain.path, f.config, f.plain);
    PlainJson config = f.config;
    config["quantization_config"] = config_of(c);
    testing::write_folder(packed.path, config, f.packed, true);
    EngineOptions o;
    o.ctx = 0;
    o.threads = 2;
    o.exact = true;
    const Outcome want = run_folder(plain.path, golden.ids, o);
    EXPECT_TRUE(run_folder(packed.path, golden.ids, o) == want);
    Team team(2);
    weights::requantise(packed.path, gguf.path, {.mix = &weights::find_mix("F32"), .again = true}, team,
                        [](const weights::Change&) {});
    EXPECT_TRUE(run_folder(gguf.path, golden.ids, o) == want);

    o.exact = false;
    const Outcome used = run_folder(packed.path, golden.ids, o);
    const double error = relative_error(used.logits, want.logits);
    std::printf("%s: %.2e with activations of 8 bits\n", GetParam(), error);
    if (std::string_view(GetParam()).find("moe") == std::string_view::npos) {
      EXPECT_LT(error, 0.1);
    }
    for (const int threads : {1, 3})
      for (const int chunk : {1, 7, 512}) {
        o.threads = threads;
        o.chunk = chunk;
        EXPECT_TRUE(run_folder(packed.path, golden.ids, o) == used) << threads << " threads, chunks of " << chunk;
      }
    const simd::Isa best = simd::active();
    std::vector<float> scalar;
    for (int i = 0; i < simd::kIsaCount; ++i) {
      const auto isa = static_cast<simd::Isa>(i);
      if (!simd::supported(isa) || simd::multiplies_bf16(isa)) continue;  // bf16 rounds what is not of codes
      simd::force(isa);
      const std::vector<float> logits = run_folder(packed.path, golden.ids, o).logits;
      if (scalar.empty()) scalar = logits;
      EXPECT_TRUE(logits == scalar) << simd::name(isa);
    }
    simd::force(best);
  }
}
INSTANTIATE_TEST_SUITE_P(All, OrderedFamilies,
                         ::testing::Values("opt", "phi", "starcoder2", "qwen3_5_text", "deepseek_v2", "qwen2_moe",
                                           "falcon_h1", "lfm2"),
                         [](const auto& i) { return std::string(i.param); });

// A step of many rows is computed in tiles by single threads.
TEST(Int4Folders, OrderedTilesHaveTheBitsOfOthers) {
  const Folders f = folders_of("llama", {"llama", true}, {Method::kGptqShuffled, 32});
  PlainJson config = f.config;
  config["quantization_config"] = config_of({Method::kGptqShuffled, 32});
  TemporaryPath folder("packed");
  testing::write_folder(folder.path, config, f.packed);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 400; ++i) ids.push_back((i * 37 + 5) % 100);
  EngineOptions o;
  o.ctx = 512;
  o.threads = 1;
  o.chunk = 16;
  const Outcome want = run_folder(folder.path, ids, o);
  o.chunk = 512;
  for (const int threads : {1, 2, 3}) {
    o.threads = threads;
    EXPECT_TRUE(run_folder(folder.path, ids, o) == want) << threads;
  }
}

// Orders lie beside the packed file that layers are read from.
TEST(Int4Folders, OrderedLayersAreStreamed) {
  for (const char* const family : {"phi", "qwen3_5_text", "qwen2_moe"}) {
    const testing::GoldenFolder golden = testing::golden_folder(family);
    const Case c{Method::kGptqShuffled, 32};
    const Folders f = ordered_folder(golden, c);
    PlainJson config = f.config;
    config["quantization_config"] = config_of(c);
    TemporaryPath folder("packed"), layers("packed-layers");
    testing::write_folder(folder.path, config, f.packed, true);
    EngineOptions o;
    o.ctx = 0;
    o.threads = 2;
    const Outcome want = run_folder(folder.path, golden.ids, o);
    o.weights_file = layers.path;
    for (const char* const mode : {"full_stream", "mapped", "full_stream"}) {  // made, and found
      o.weights_mode = mode;
      EXPECT_TRUE(run_folder(folder.path, golden.ids, o) == want) << family << ", " << mode;
    }
    ASSERT_GT(std::filesystem::file_size(layers.path), 0u);
  }
}

// What is planned covers what there is at any time, while matrices are packed too.
TEST(Int4Folders, LoadingStaysWithinThePlan) {
  for (const Method method : {Method::kAwq, Method::kGptqShuffled, Method::kGptqUneven})
    for (const bool exact : {false, true}) {
      const Case c{method, 32};
      const Folders f = folders_of("llama", {"llama", true}, c);
      PlainJson config = f.config;
      config["quantization_config"] = config_of(c);
      TemporaryPath folder("packed");
      testing::write_folder(folder.path, config, f.packed);
      EngineOptions o;
      o.model = folder.path;
      o.threads = 3;
      o.ctx = 128;
      o.chunk = 8;
      o.exact = exact;
      const EnginePlan plan = plan_engine(*weights::open_model_file(o.model), o, 1, 1);
      const auto held = [] {
        using tensor::allocated_bytes, tensor::Tag;
        return static_cast<std::int64_t>(allocated_bytes(Tag::kWeights) + allocated_bytes(Tag::kScratch) +
                                         allocated_bytes(Tag::kCache));
      };
      const std::int64_t before = held();
      std::int64_t most = 0;
      const Engine engine(o, {.sequences = 1, .logits = 1, .progress = [&](std::int64_t, std::int64_t) {
                                most = std::max(most, held() - before);
                              }});
      EXPECT_GE(most, engine.model().weight_bytes() + 3 * 64 * 16);  // the scratch is seen
      EXPECT_LE(most, plan.weight_bytes + plan.load_bytes);
      EXPECT_LE(most, plan.total());
      EXPECT_LE(held() - before, plan.total());
      EXPECT_EQ(plan.weight_bytes, engine.model().weight_bytes());
    }
}

// --weights rounds floats: codes stay, in whichever order.
TEST(Int4Folders, RoundingLeavesOrderedCodes) {
  const Folders f = folders_of("llama", {"llama", true}, {Method::kGptqOrdered, 32});
  PlainJson config = f.config;
  config["quantization_config"] = config_of({Method::kGptqOrdered, 32});
  TemporaryPath folder("packed");
  testing::write_folder(folder.path, config, f.packed);
  const auto file = weights::rounded(weights::open_model_file(folder.path), "q8_0");
  EXPECT_EQ(file->find("blk.0.attn_q.weight")->kept().quant, "int4_zero");
}

// Every part taken away, of another type or of another shape.
TEST(Int4Folders, PartsThatDoNotFitAreNamed) {
  for (const Case& c : {Case{Method::kAwq, 32}, Case{Method::kGptq, 32}, Case{Method::kCompressed, 32}}) {
    const Folders f = folders_of("llama", {"llama", true}, c);
    PlainJson config = f.config;
    config["quantization_config"] = config_of(c);
    for (std::size_t i = 0; i < f.packed.size(); ++i) {
      const std::string name = f.packed[i].name;
      if (name.find("layers.0.mlp.up_proj.") == name.npos) continue;
      for (const char* fault : {"missing", "type", "shape", "rank"}) {
        if (std::string(fault) == "missing" && (name.ends_with("g_idx") || name.ends_with("zero_point"))) continue;
        std::vector<FolderTensor> parts = f.packed;
        FolderTensor& part = parts[i];
        if (std::string(fault) == "missing") parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        if (std::string(fault) == "type")
          part.dtype = part.dtype == "I32" ? "F32" : "I16",
          part.bytes.resize(static_cast<std::size_t>(std::accumulate(part.shape.begin(), part.shape.end(),
                                                                     std::int64_t{1}, std::multiplies<>())) *
                            (part.dtype == "F32" ? 4 : 2));
        if (std::string(fault) == "shape")
          part.shape[0] += 1, part.bytes.resize(part.bytes.size() / static_cast<std::size_t>(part.shape[0] - 1) *
                                                static_cast<std::size_t>(part.shape[0]));
        if (std::string(fault) == "rank") part.shape.push_back(1);
        TemporaryPath folder("folder");
        testing::write_folder(folder.path, config, parts);
        try {
          weights::open_model_file(folder.path);
          ADD_FAILURE() << name << " " << fault << " was taken";
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("layers.0.mlp.up_proj."), std::string::npos) << e.what();
        }
      }
    }
  }
}

TEST(Int4Folders, ConfigurationsThatAreNotComputedAreNamed) {
  const Folders f = folders_of("llama", {"llama", true}, {Method::kAwq, 32});
  const auto words_of = [&](const PlainJson& quantised) -> std::string {
    PlainJson config = f.config;
    config["quantization_config"] = quantised;
    TemporaryPath folder("folder");
    testing::write_folder(folder.path, config, f.packed);
    try {
      weights::open_model_file(folder.path);
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  const PlainJson good = config_of({Method::kAwq, 32});
  EXPECT_EQ(words_of(good), "taken");
  const auto with = [&](const char* key, const PlainJson& value) {
    PlainJson x = good;
    x[key] = value;
    return words_of(x);
  };
  EXPECT_NE(with("quant_method", "bitsandbytes").find("quantization_config.quant_method"), std::string::npos);
  EXPECT_NE(with("bits", 8).find("bits"), std::string::npos);
  EXPECT_NE(with("group_size", 64).find("group"), std::string::npos);
  EXPECT_NE(with("group_size", 0).find("group_size"), std::string::npos);
  EXPECT_NE(with("version", "gemv").find("version"), std::string::npos);
  EXPECT_NE(words_of({{"quant_method", "hqq"}}).find("quant_method"), std::string::npos);
  EXPECT_NE(words_of({{"bits", 4}}).find("quant_method"), std::string::npos);
}

// The weight type against its definition, bit for bit.
TEST(Int4Zero, IsItsDefinitionOnEveryInstructionSet) {
  const simd::Isa best = simd::active();
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const auto isa = static_cast<simd::Isa>(round % simd::kIsaCount);
    if (!simd::supported(isa)) continue;
    simd::force(isa);
    const weights::Quant& quant = *find(weights::quants(), "int4_zero");
    std::byte block[20];
    for (std::byte& b : block) b = static_cast<std::byte>(random());
    const auto d = static_cast<std::uint16_t>(random() % 0x7c00);
    std::memcpy(block, &d, 2);
    const int z = static_cast<int>(random() % 17);
    block[2] = static_cast<std::byte>(z);
    float x[32];
    quant.dequantise(block, x, 32);
    for (int i = 0; i < 32; ++i) {
      const int byte = static_cast<int>(block[4 + i % 16]), u = i < 16 ? byte & 15 : byte >> 4;
      EXPECT_EQ(x[i], simd::f16_to_f32(d) * static_cast<float>(u - z)) << u << " " << z;
    }
  }
  simd::force(best);
}

}  // namespace folder_int4_test
}  // namespace kvasir::run
