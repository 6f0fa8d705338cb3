// Files in other weight types: what is kept, what is lost and said to be lost, and what is refused without a trace.
#include "weights/requantise.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/test_data_fixture.hpp"
#include "simd/isa_fixture.hpp"
#include "weights/fit.hpp"
#include "weights/gguf_writer.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kColumns = 512;

// Heavier tails than a normal distribution has, as weights have.
std::vector<float> some(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) {
    const float z = normal(random);
    v = 0.02f * z * (1 + 0.2f * z * z);
  }
  return x;
}

class Requantise : public ::testing::Test {
 protected:
  Requantise() {
    fs::create_directories(folder_);
    write_model();
  }
  ~Requantise() override { fs::remove_all(folder_); }

  void write_model(float first = 0.01f) {
    GgufHeader h;
    h.set_string("general.architecture", "llama");
    h.set("general.file_type", std::uint32_t{1});
    h.set("llama.block_count", std::uint32_t{1});
    h.set("llama.attention.head_count", std::uint32_t{4});
    h.set("a.float", 0.1f);
    h.set("a.wide", std::uint64_t{7});
    h.set_strings("words", std::vector<std::string>{"one", "", "three"});
    const struct {
      const char* name;
      const char* type;
      std::vector<std::int64_t> shape;
    } tensors[] = {
        {"token_embd.weight", "f16", {kColumns, 40}},           {"output_norm.weight", "f32", {kColumns}},
        {"blk.0.attn_v.weight", "f32", {kColumns, 33}},         {"blk.0.ffn_gate_inp.weight", "f32", {kColumns, 3}},
        {"blk.0.ffn_up_exps.weight", "f16", {kColumns, 20, 3}}, {"output.weight", "f16", {kColumns, 40}}};
    for (const auto& t : tensors) h.add_tensor(t.name, t.type, t.shape);
    GgufWriter out(in_, h);
    for (std::size_t i = 0; i < std::size(tensors); ++i) {
      const Quant& quant = *find(quants(), tensors[i].type);
      const std::size_t bytes = h.sizes()[i];
      const auto n = static_cast<std::int64_t>(bytes) / quant.block_bytes * quant.block;
      std::vector<float> x = some(n, static_cast<unsigned>(i));
      if (i == 2) x[0] = first;
      std::vector<std::byte> data(bytes);
      quant.quantise(x.data(), data.data(), n);
      out.write(data);
    }
    out.finish();
  }
  std::vector<Change> run(const char* mix, const Importance* importance = nullptr, int threads = 2,
                          bool again = false) {
    Team team(threads);
    std::vector<Change> changes;
    requantise(in_, out_, {&find_mix(mix), importance, again}, team, [&](const Change& c) { changes.push_back(c); });
    return changes;
  }
  std::string refused(const char* mix, const Importance* importance = nullptr) {
    try {
      run(mix, importance);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  std::string write(const char* name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  const std::string folder_ = ::testing::TempDir() + "requantise-" + std::to_string(::getpid());
  const std::string in_ = folder_ + "/in.gguf", out_ = folder_ + "/out.gguf";
};

std::vector<float> values_of(const TensorInfo& t) {
  std::vector<float> x(static_cast<std::size_t>(t.columns() * t.rows()));
  find(quants(), t.quant)->dequantise(t.bytes.data(), x.data(), static_cast<std::int64_t>(x.size()));
  return x;
}

double error_of(const std::vector<float>& want, const std::vector<float>& got,
                const std::vector<float>& importance = {}) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double w = importance.empty() ? 1.0 : static_cast<double>(importance[i % importance.size()]);
    error += w * std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    square += w * std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / square);
}

TEST_F(Requantise, KeepsWhatItSaysAndSaysWhatItLost) {
  const std::vector<Change> changes = run("Q4_K_M");
  const auto before = open_model_file(in_), after = open_model_file(out_);
  ASSERT_EQ(changes.size(), before->tensors().size());
  for (const auto& [key, value] : before->metadata().all())
    EXPECT_TRUE(key == "general.file_type" || *after->metadata().find(key) == value) << key;
  EXPECT_EQ(after->metadata().require_int("general.file_type", 0, 100), 15);
  const std::string bytes = read_text_file(out_);
  EXPECT_NE(bytes.find(std::string("a.wide\x0a\0\0\0\x07\0\0\0\0\0\0\0", 18)), std::string::npos);  // still a u64
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& c = changes[i];
    const TensorInfo &from = before->tensors()[i], &to = after->tensors()[i];
    SCOPED_TRACE(c.name);
    EXPECT_EQ(to.name, from.name);
    EXPECT_EQ(to.shape, from.shape);
    EXPECT_EQ(to.quant, c.to);
    EXPECT_EQ(to.bytes.size(), c.bytes);
    EXPECT_NEAR(c.error, error_of(values_of(from), values_of(to)), 1e-6);
    EXPECT_EQ(c.error == 0, c.from == c.to);
  }
  EXPECT_EQ(changes[0].to, "q4_k");
  EXPECT_EQ(changes[1].to, "f32");
  EXPECT_EQ(changes[2].to, "q6_k");
  EXPECT_EQ(changes[3].to, "f32");
  EXPECT_EQ(changes[4].to, "q4_k");
  EXPECT_EQ(changes[5].to, "q6_k");
}

TEST_F(Requantise, ThreadsDoNotShow) {
  const std::vector<Change> one = run("Q4_K_M", nullptr, 1);
  const std::string bytes = read_text_file(out_);
  const std::vector<Change> three = run("Q4_K_M", nullptr, 3);
  EXPECT_EQ(bytes, read_text_file(out_));
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].error, three[i].error);
}

TEST_F(Requantise, FloatsToFloatsAndWholeFiles) {
  for (const Change& c : run("F32")) EXPECT_EQ(c.error, 0) << c.name;
  const std::string all = read_text_file(out_);
  fs::rename(out_, in_);
  run("F32");
  EXPECT_EQ(read_text_file(out_), all);  // nothing to change
}

// The keys of all parts, each once, and nothing of parts.
TEST_F(Requantise, PartsBecomeOneFile) {
  const std::string parts[] = {folder_ + "/split-00001-of-00002.gguf", folder_ + "/split-00002-of-00002.gguf"};
  const std::vector<float> x = some(kColumns * 2, 1);
  for (int i = 0; i < 2; ++i) {
    GgufHeader h;
    h.set_string("general.architecture", "llama");
    h.set("split.no", static_cast<std::uint16_t>(i));
    h.set("split.count", std::uint16_t{2});
    h.set("split.tensors.count", std::int32_t{2});
    if (i == 0) h.set("first.key", std::uint64_t{3});
    if (i == 1) h.set("later.key", std::uint64_t{7});
    const std::int64_t shape[] = {kColumns, 2};
    h.add_tensor(fmt::format("blk.{}.attn_q.weight", i), "f32", shape);
    GgufWriter out(parts[i], h);
    out.write(std::as_bytes(std::span(x)));
    out.finish();
  }
  for (const std::string& part : parts) {
    Team team(1);
    requantise(part, out_, {&find_mix("Q8_0")}, team, [](const Change&) {});
    const auto whole = open_model_file(out_);
    EXPECT_EQ(whole->files().size(), 1u);
    EXPECT_EQ(whole->tensors().size(), 2u);
    EXPECT_EQ(whole->metadata().require_int("first.key", 0, 9), 3);
    EXPECT_EQ(whole->metadata().require_int("later.key", 0, 9), 7);
    EXPECT_EQ(whole->metadata().find("split.count"), nullptr);
    EXPECT_EQ(whole->metadata().all().size(), 5u);  // with the type and the version of the file
    fs::remove(out_);
  }
}

// A stop within a tensor leaves nothing.
TEST_F(Requantise, IsAskedBetweenPiecesOfATensor) {
  GgufHeader h;
  h.set_string("general.architecture", "llama");
  const std::int64_t shape[] = {kColumns, 4096};
  h.add_tensor("blk.0.attn_q.weight", "f32", shape);
  {
    const std::vector<float> x = some(kColumns * 4096, 1);
    GgufWriter out(in_, h);
    out.write(std::as_bytes(std::span(x)));
    out.finish();
  }
  Team team(2);
  int asked = 0;
  const auto stop = [&] {
    if (++asked == 3) throw Error(Code::kCancelled, "stopped", out_);
  };
  EXPECT_THROW(requantise(in_, out_, {&find_mix("Q8_0"), nullptr, false, stop}, team, [](const Change&) {}), Error);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

// An importance matrix in both kinds of files: the error that counts becomes less.
TEST_F(Requantise, ImportanceCounts) {
  std::vector<float> importance(3 * kColumns);
  for (std::size_t i = 0; i < importance.size(); ++i) importance[i] = i % 7 == 0 ? 50.0f : 0.1f;
  std::vector<float> of_elements;  // three matrices of 20 rows
  for (std::size_t i = 0; i < 3 * 20 * kColumns; ++i)
    of_elements.push_back(importance[i / (20 * kColumns) * kColumns + i % kColumns]);
  std::string old;
  const auto put = [&](auto v) { old.append(reinterpret_cast<const char*>(&v), sizeof v); };
  const std::string name = "blk.0.ffn_up_exps.weight";
  put(std::int32_t{1});
  put(static_cast<std::int32_t>(name.size()));
  old += name;
  put(std::int32_t{2});  // calls
  put(static_cast<std::int32_t>(importance.size()));
  for (const float v : importance) put(2 * v);
  GgufHeader h;
  h.set_string("general.type", "imatrix");
  h.add_tensor(name + ".in_sum2", "f32", std::vector<std::int64_t>{kColumns, 3});
  h.add_tensor(name + ".counts", "f32", std::vector<std::int64_t>{1, 3});
  {
    GgufWriter out(folder_ + "/imatrix.gguf", h);
    std::vector<float> sums = importance;
    for (float& v : sums) v *= 4;
    const float counts[] = {4, 4, 4};
    out.write(std::as_bytes(std::span(sums)));
    out.write(std::as_bytes(std::span(counts)));
    out.finish();
  }
  const std::string paths[] = {write("imatrix.dat", old), folder_ + "/imatrix.gguf"};
  for (const char* mix : {"Q4_0", "Q3_K_S", "Q2_K", "IQ4_XS"}) {
    SCOPED_TRACE(mix);
    run(mix);
    const auto before = open_model_file(in_);
    const std::vector<float> wanted = values_of(*before->find(name));
    const double plain = error_of(wanted, values_of(*open_model_file(out_)->find(name)), of_elements);
    std::string first;
    for (const std::string& path : paths) {
      const Importance read = Importance::read(path);
      const Change c = run(mix, &read)[4];
      EXPECT_TRUE(c.weighted);
      EXPECT_LT(c.weighted_error, 0.9 * plain);
      EXPECT_NEAR(c.weighted_error, error_of(wanted, values_of(*open_model_file(out_)->find(name)), of_elements), 1e-6);
      const std::string bytes = read_text_file(out_);
      if (!first.empty()) {
        EXPECT_EQ(bytes, first);
      }
      first = bytes;
    }
  }
}

TEST_F(Requantise, RefusesAndLeavesNothing) {
  const auto expect = [&](const std::string& message, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    EXPECT_FALSE(fs::exists(out_));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << message;
  };
  expect(refused("Q2_K_S"), {"blk.0.", "importance matrix", "in.gguf"});
  run("Q8_0");
  fs::rename(out_, in_);
  expect(refused("Q4_K_M"), {"token_embd.weight", "q8_0 already", "expected F32, F16 or BF16"});
  EXPECT_NO_THROW(run("Q4_K_M", nullptr, 1, true));
  fs::remove(out_);
  write_model(std::nanf(""));
  expect(refused("Q4_K_M"), {"blk.0.attn_v.weight", "not a finite number"});
  write_model(1e30f);
  expect(refused("Q4_0"), {"blk.0.attn_v.weight", "too large for Q4_0"});
  write_model();
  Team team(1);
  const RequantiseOptions options{&find_mix("Q4_0"), nullptr, false};
  EXPECT_THROW(requantise(in_, in_, options, team, [](const Change&) {}), Error);
  EXPECT_THROW(requantise(folder_ + "/none.gguf", out_, options, team, [](const Change&) {}), Error);
  const auto stop = [](const Change&) { throw Error(Code::kCancelled, "stopped"); };
  EXPECT_THROW(requantise(in_, out_, options, team, stop), Error);
  expect("", {});
}

// Weights without their factors would be wrong ones.
TEST_F(Requantise, FactorsOfMatricesAreNotLost) {
  GgufHeader h;
  h.set_string("general.architecture", "llama");
  h.set("llama.block_count", std::uint32_t{1});
  h.set("llama.attention.head_count", std::uint32_t{4});
  h.add_tensor("blk.0.attn_q.weight", "nvfp4", std::vector<std::int64_t>{256, 2});
  h.add_tensor("blk.0.attn_q.scale", "f32", std::vector<std::int64_t>{1});
  GgufWriter out(in_, h);
  for (const std::size_t bytes : h.sizes()) out.write(std::vector<std::byte>(bytes));
  out.finish();
  std::string said;
  try {
    run("Q8_0", nullptr, 1, true);
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("blk.0.attn_q.weight: has factors in blk.0.attn_q.scale"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Requantise, BrokenImportanceIsNamed) {
  const auto message = [&](const std::string& bytes) -> std::string {
    const std::string path = write("imatrix.dat", bytes);
    try {
      const Importance read = Importance::read(path);
      return refused("Q4_0", &read);
    } catch (const Error& e) {
      return e.what();
    }
  };
  const std::string entry =
      std::string("\1\0\0\0", 4) + std::string("\x13\0\0\0", 4) + "blk.0.attn_v.weight" + std::string("\1\0\0\0", 4);
  const std::string two(std::string("\2\0\0\0", 4) + std::string(8, '\0'));
  EXPECT_NE(message(""), "");
  EXPECT_NE(message(std::string("\0\0\0\0", 4)).find("at least 1"), std::string::npos);
  EXPECT_NE(message(std::string("\xff\xff\xff\x7f", 4)).find("number of entries"), std::string::npos);
  EXPECT_NE(message(entry).find("its values"), std::string::npos);
  EXPECT_NE(message(entry + std::string("\2\0\0\0", 4)).find("its values"), std::string::npos);
  EXPECT_NE(message(entry + two).find("blk.0.attn_v.weight has 2 values, expected 512"), std::string::npos);
  const std::string nan("\1\0\0\0\0\0\xc0\x7f", 8);
  EXPECT_NE(message(entry + nan).find("blk.0.attn_v.weight[0] is nan"), std::string::npos);
  EXPECT_NE(message("GGUF").find("version"), std::string::npos);
}

class Fit : public simd::IsaTest {};

// Fitted ranges lose less than whole ones.
TEST_P(Fit, LosesLessThanTheRange) {
  const std::vector<float> x = some(16 * kColumns, 5);
  for (const auto& entry : quants()) {
    const Quant& quant = *entry.value;
    if (quant.block == 1 || quant.panel->activation == kernel::ActivationKind::kF32) continue;
    const auto n = static_cast<std::int64_t>(x.size());
    std::vector<std::byte> by_range(static_cast<std::size_t>(n / quant.block * quant.block_bytes)),
        by_fit(by_range.size());
    std::vector<float> from_range(x.size()), from_fit(x.size());
    quant.quantise(x.data(), by_range.data(), n);
    Fitter fitter(quant);
    fitter.round(x.data(), nullptr, by_fit.data(), n);
    quant.dequantise(by_range.data(), from_range.data(), n);
    quant.dequantise(by_fit.data(), from_fit.data(), n);
    EXPECT_LE(error_of(x, from_fit), error_of(x, from_range)) << entry.name;
    if (entry.name == "q4_0" || entry.name == "q4_k" || entry.name == "q3_k") {
      EXPECT_LT(error_of(x, from_fit), 0.99 * error_of(x, from_range)) << entry.name;
    }
    std::printf("%-7s by range %.4f, fitted %.4f\n", std::string(entry.name).c_str(), error_of(x, from_range),
                error_of(x, from_fit));
    // Zeros, tiny and equal numbers are no trap.
    for (const float v : {0.0f, 1e-30f, -3.0f}) {
      const std::vector<float> same(256, v);
      std::vector<float> back(256);
      fitter.round(same.data(), nullptr, by_fit.data(), 256);
      quant.dequantise(by_fit.data(), back.data(), 256);
      for (const float y : back) ASSERT_NEAR(y, v, 0.35f * std::abs(v) + 1e-20f) << entry.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Isa, Fit, ::testing::Range(0, simd::kIsaCount),
                         [](const auto& p) { return std::string(simd::name(static_cast<simd::Isa>(p.param))); });

// Tensors of a model that llama.cpp rounded to every type, from the same floats. Squares of errors by type.
TEST(FitAndLlamaCpp, LosesAboutAsMuch) {
  const std::string golden = fixture::test_data("golden/");
  if (!fs::exists(golden)) GTEST_SKIP() << golden << " is not there";
  const auto source = open_model_file(golden + "llama-gqa.gguf");
  const std::string out = ::testing::TempDir() + "as-llama-cpp-" + std::to_string(::getpid()) + ".gguf";
  Team team(2);
  for (const Mix& mix : mixes()) {
    const std::string path = fmt::format("{}quant/llama-gqa-{}.gguf", golden, mix.name);
    if (!fs::exists(path)) continue;
    const auto theirs = open_model_file(path);
    std::map<std::string, std::pair<double, double>> errors;  // by type, squares: ours, theirs
    requantise(golden + "llama-gqa.gguf", out, {&mix, nullptr, false}, team, [&](const Change& c) {
      if (c.from == c.to) return;
      const double e = error_of(values_of(*source->find(c.name)), values_of(*theirs->find(c.name)));
      errors[c.to].first += c.error * c.error;
      errors[c.to].second += e * e;
    });
    for (const auto& [type, e] : errors) {
      EXPECT_LE(e.first, 1.2 * e.second) << mix.name << " " << type;
      std::printf("%-8s %-6s %.4f of the error of llama.cpp's file\n", mix.name.data(), type.c_str(),
                  std::sqrt(e.first / e.second));
    }
  }
  fs::remove(out);
}

}  // namespace
}  // namespace kvasir::weights
