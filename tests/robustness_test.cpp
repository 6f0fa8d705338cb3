// Whatever comes in, files, options or signals: a clear error or a correct run, soon, and within memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/host.hpp"
#include "base/rss.hpp"
#include "cli/front.hpp"
#include "model/synth.hpp"
#include "run/generate.hpp"
#include "simd/isa.hpp"
#include "text/utf8.hpp"
#include "tiny_model.hpp"

namespace kvasir {
namespace {

namespace fs = std::filesystem;
using run::Engine;
using run::EngineOptions;
using testing::TemporaryPath;
using testing::TinyModel;
using testing::write_bytes;

const std::string kBooks = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// --- helpers ---------------------------------------------------------------------------------------------------------

struct Outcome {
  int status = -1;
  std::string out, err;
};

Outcome cli(const std::vector<std::string>& arguments) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome o;
  o.status = cli::run_command_line(arguments);
  o.out = ::testing::internal::GetCapturedStdout();
  o.err = ::testing::internal::GetCapturedStderr();
  return o;
}

// The status, one line of error that holds every one of `parts`, and nothing on stdout.
void expect_error(const std::vector<std::string>& arguments, int status, const std::vector<std::string>& parts) {
  std::string shown;
  for (const auto& a : arguments) shown += " " + (a.size() < 100 ? a : a.substr(0, 100) + "…");
  SCOPED_TRACE("kvasir" + shown);
  const Outcome o = cli(arguments);
  EXPECT_EQ(o.status, status) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_TRUE(o.err.starts_with("kvasir: ")) << o.err;
  EXPECT_EQ(o.err.find("internal error"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("check failed"), std::string::npos) << o.err;
  EXPECT_LT(o.err.size(), 4000u);
  for (const auto& p : parts) EXPECT_NE(o.err.find(p), std::string::npos) << "no '" << p << "' in " << o.err;
}

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

EngineOptions small(const std::string& model) {
  EngineOptions o;
  o.model = model;
  o.threads = 1;
  o.ctx = 64;
  o.chunk = 16;
  return o;
}

// Opens the model and runs a step: "" when it works, otherwise the error, which must be an Error of the file's.
std::string try_step(const EngineOptions& options, bool* ran = nullptr) {
  try {
    Engine engine(options, {});
    kv::Sequence* s = engine.cache().create();
    const std::int64_t vocab = engine.model().config().vocab;
    std::vector<std::int32_t> ids;
    for (const int id : {1, 2, 3, 60}) ids.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(id, vocab - 1)));
    if (engine.tokenizer()) {
      const auto text = engine.tokenizer()->encode("aa b", {});
      engine.check_ids(text);
      engine.tokenizer()->decode(text);
    }
    const auto logits = engine.feed(s, ids);
    EXPECT_EQ(logits.size(), static_cast<std::size_t>(vocab));
    if (ran) *ran = true;
    return "";
  } catch (const Error& e) {
    EXPECT_NE(e.code(), Code::kIo) << e.what();
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "no Error: " << e.what();
    return e.what();
  }
}

// Runs `f` and says when it took more processor time or memory than a broken small file may.
template <class F>
void within(double seconds, const std::string& what, F&& f) {
  const double start = cpu_seconds();
  f();
  EXPECT_LT(cpu_seconds() - start, kSanitized ? 10 * seconds : seconds) << what;
}

std::string tiny_file(const TemporaryPath& path, const TinyModel& model = TinyModel()) {
  model.write(path.path);
  return path.path;
}

void patch(const std::string& path, std::size_t at, char byte) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  ::close(fd);
}

// --- files -----------------------------------------------------------------------------------------------------------

TEST(Robust, FilesTruncatedAtEvery4KB) {
  const TemporaryPath copy("truncated.gguf");
  fs::copy_file(kBooks, copy.path);
  const auto size = static_cast<std::int64_t>(fs::file_size(copy.path));
  int cases = 0;
  for (std::int64_t at = (size - 1) / 4096 * 4096; at >= 0; at -= 4096, ++cases) {
    ASSERT_EQ(::truncate(copy.path.c_str(), at), 0);
    within(1, std::to_string(at), [&] {
      const std::string error = try_step(small(copy.path));
      EXPECT_TRUE(error.find("truncated?") != std::string::npos || error.find(" fit into the ") != std::string::npos ||
                  (at == 0 && error.find("is empty") != std::string::npos))
          << at << ": " << error;
      EXPECT_NE(error.find(copy.path), std::string::npos);
    });
  }
  EXPECT_GT(cases, 1800);
}

TEST(Robust, FilesTruncatedAnywhereInASmallModel) {
  const TemporaryPath path("short.gguf");
  tiny_file(path);
  const auto size = static_cast<std::int64_t>(fs::file_size(path.path));
  for (std::int64_t at = size - 32; at >= 0; at -= at > 16000 ? 509 : 3) {
    ASSERT_EQ(::truncate(path.path.c_str(), at), 0);
    EXPECT_NE(try_step(small(path.path)), "") << at;
  }
}

// Flips bytes of `path` at `places` with each mask and runs a step. The file is as before at the end.
void flip(const std::string& path, const std::vector<std::size_t>& places, const std::vector<int>& masks) {
  const std::string bytes = read_text_file(path);
  reset_peak_rss();
  const std::uint64_t before = process_rss().current;
  int ran = 0, refused = 0;
  for (const std::size_t at : places)
    for (const int mask : masks) {
      patch(path, at, static_cast<char>(bytes[at] ^ mask));
      bool worked = false;
      within(1, fmt::format("byte {} ^ {}", at, mask), [&] { try_step(small(path), &worked); });
      ++(worked ? ran : refused);
      patch(path, at, bytes[at]);
    }
  std::printf("%zu bytes flipped: %d ran, %d refused\n", places.size(), ran, refused);
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
  if (!kSanitized) {
    EXPECT_LT(process_rss().peak, before + (200u << 20));
  }
}

TEST(Robust, EveryHeaderByteFlippedInASmallModel) {
  const TemporaryPath path("flipped.gguf");
  tiny_file(path);
  const std::size_t header = TinyModel().header().encode().size();
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < header; i += kSanitized ? 7 : 1) places.push_back(i);
  flip(path.path, places, {0x01, 0x80, 0xff});
}

TEST(Robust, HeaderBytesFlippedInTheBundledModel) {
  const TemporaryPath copy("flipped-books.gguf");
  fs::copy_file(kBooks, copy.path);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 65536; i += i < 400 ? 3 : (kSanitized ? 2111 : 331)) places.push_back(i);
  flip(copy.path, places, {0xff});
}

TEST(Robust, WhatIsNoModelFile) {
  const TemporaryPath path("nothing");
  const auto run = [&](const std::string& model) { return std::vector<std::string>{"run", "-m", model, "-p", "x"}; };
  expect_error(run(path.path), 1, {path.path, "cannot open", "No such file"});
  expect_error(run("/tmp"), 2, {"/tmp", "not a regular file"});
  write_bytes(path.path, "");
  expect_error(run(path.path), 2, {path.path, "empty"});
  write_bytes(path.path, "It was the best of times, it was the worst of times");
  expect_error(run(path.path), 2, {path.path, "no model file", "It was t"});
  write_bytes(path.path, "GGUF");
  expect_error(run(path.path), 2, {path.path, "version", "truncated?"});
  expect_error(run("/dev/null"), 2, {"/dev/null", "not a regular file"});
  expect_error({"run", "-p", "x"}, 2, {"--model"});
}

// --- metadata and tensors --------------------------------------------------------------------------------------------

TEST(Robust, AbsurdDimensionsAreNamed) {
  const TemporaryPath path("absurd.gguf");
  const auto refuse = [&](const std::string& key, TinyModel::Number value, const std::vector<std::string>& parts) {
    SCOPED_TRACE(key);
    TinyModel m;
    m.numbers["llama." + key] = value;
    m.write(path.path);
    const std::uint64_t before = process_rss().current;
    within(1, key, [&] {
      const std::string error = try_step(small(path.path));
      EXPECT_NE(error, "");
      for (const auto& p : parts) EXPECT_NE(error.find(p), std::string::npos) << p << ": " << error;
    });
    if (!kSanitized) {
      EXPECT_LT(process_rss().current, before + (64u << 20));
    }
  };
  const auto u64 = [](int bits) { return TinyModel::Number(std::uint64_t{1} << bits); };
  const auto u32 = [](std::uint32_t n) { return TinyModel::Number(n); };
  refuse("block_count", u64(31), {"llama.block_count", "2147483648"});
  refuse("block_count", u32(0), {"llama.block_count", "is 0"});
  refuse("block_count", u32(4096), {"blk.2.attn_norm.weight is missing", "more"});
  refuse("block_count", u32(1), {"blk.1.attn_norm.weight is not a tensor of llama"});
  refuse("block_count", -1.0f, {"llama.block_count", "integer"});
  refuse("attention.head_count", u32(0), {"llama.attention.head_count", "is 0"});
  refuse("attention.head_count", u64(24), {"llama."});
  refuse("attention.head_count", u32(3), {"not a multiple"});
  refuse("attention.head_count_kv", u32(0), {"head_count_kv"});
  refuse("attention.head_count_kv", u32(3), {"not a multiple", "head_count_kv"});
  refuse("attention.head_count_kv", u32(4), {"blk.0.attn_k.weight is 16x32, expected 32x32"});
  refuse("embedding_length", u64(40), {"llama.embedding_length", "1099511627776"});
  refuse("embedding_length", u64(24), {"head size"});
  refuse("embedding_length", u64(63), {"llama.embedding_length", "9223372036854775808"});
  refuse("embedding_length", TinyModel::Number(std::int64_t{-32}), {"llama.embedding_length", "-32"});
  refuse("feed_forward_length", u64(24), {"blk.0.ffn_gate.weight is 64x32, expected 16777216x32"});
  refuse("context_length", u64(62), {"llama.context_length"});
  refuse("context_length", u32(0), {"llama.context_length"});
  refuse("rope.dimension_count", u32(7), {"llama.rope.dimension_count", "even"});
  refuse("rope.dimension_count", u32(64), {"llama.rope.dimension_count", "at most 8"});
  refuse("rope.freq_base", 0.0f, {"llama.rope.freq_base"});
  refuse("rope.freq_base", std::numeric_limits<float>::infinity(), {"llama.rope.freq_base", "finite"});
  refuse("rope.scaling.factor", -1.0f, {"llama.rope.scaling.factor"});
  refuse("attention.key_length", u32(12), {"head size 12"});
  refuse("attention.key_length", u32(1024), {"attn_q.weight"});
  refuse("attention.key_length", u64(40), {"llama.attention.key_length"});
  refuse("attention.layer_norm_rms_epsilon", std::nanf(""), {"layer_norm_rms_epsilon"});
  refuse("attention.layer_norm_rms_epsilon", -1.0f, {"layer_norm_rms_epsilon"});
}

// The widest that each limit alone allows, together: sizes must not wrap round to something small.
TEST(Robust, DimensionsWhoseProductsOverflow) {
  const TemporaryPath path("wide.gguf");
  TinyModel m;
  m.numbers["llama.block_count"] = 4096u;
  m.numbers["llama.attention.head_count"] = 65536u;
  m.numbers["llama.attention.head_count_kv"] = 65536u;
  m.numbers["llama.attention.key_length"] = 1024u;
  m.numbers["llama.attention.value_length"] = 1024u;
  m.write(path.path);
  for (const int ctx : {0, 1, 64, 1 << 24})
    for (const int window : {0, 128, 1 << 24}) {
      EngineOptions o = small(path.path);
      o.ctx = ctx;
      o.window = window;
      within(1, std::to_string(ctx), [&] { EXPECT_NE(try_step(o), "") << ctx << " " << window; });
    }
  m.numbers["llama.attention.head_count_kv"] = 1u;
  m.write(path.path);
  EXPECT_NE(try_step(small(path.path)), "");
}

TEST(Robust, TensorFaultsAreReportedTogether) {
  const TemporaryPath path("tensors.gguf");
  TinyModel m;
  m.remove("blk.0.attn_q.weight");
  m.remove("output_norm.weight");
  m.remove("blk.1.ffn_up.weight");
  m.add("blk.1.ffn_up.weight", "f32", {64, 32});
  m.remove("blk.1.attn_norm.weight");
  m.add("blk.1.attn_norm.weight", "f32", {16});
  m.add("blk.0.attn_qq.weight", "f32", {32, 32});
  m.add("blk.7.attn_norm.weight", "f32", {32});
  m.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 2,
               {path.path, "blk.0.attn_q.weight is missing", "output_norm.weight is missing",
                "blk.1.ffn_up.weight is 32x64, expected 64x32", "blk.1.attn_norm.weight is 16, expected 32",
                "blk.0.attn_qq.weight is not a tensor of llama", "blk.7.attn_norm.weight is not a tensor of llama"});
  TinyModel none;
  none.tensors.clear();
  none.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 2, {path.path, "token_embd.weight is missing"});
  TinyModel vocab;
  vocab.remove("token_embd.weight");
  vocab.add("token_embd.weight", "f32", {32, 100});
  vocab.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 2, {path.path, "264 tokens", "100 rows"});
  TinyModel arch;
  arch.strings["general.architecture"] = "gpt17";
  arch.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 1, {path.path, "general.architecture", "gpt17", "llama"});
}

TEST(Robust, WeightsThatAreNoNumbers) {
  const TemporaryPath path("nan.gguf");
  const simd::Isa before = simd::active();
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    for (const char* tensor :
         {"blk.0.attn_q.weight", "blk.1.ffn_down.weight", "blk.0.attn_v.weight", "token_embd.weight"})
      for (const char* quant : {"f32", "f16", "bf16"})
        for (int isa = 0; isa < simd::kIsaCount; ++isa) {
          if (!simd::supported(static_cast<simd::Isa>(isa))) continue;
          simd::force(static_cast<simd::Isa>(isa));
          SCOPED_TRACE(fmt::format("{} {} {} {}", bad, tensor, quant, isa));
          TinyModel m(quant);
          for (float& v : m.tensor(tensor).values) v = bad;
          m.write(path.path);
          const Outcome o = cli({"run", "-m", path.path, "-p", "abc", "-n", "4", "--no-figures"});
          EXPECT_EQ(o.status, 1);
          EXPECT_NE(o.err.find("not a number"), std::string::npos) << o.err;
          EXPECT_NE(o.err.find(path.path), std::string::npos) << o.err;
        }
  simd::force(before);
  for (const char* tensor : {"blk.1.ffn_norm.weight", "output_norm.weight"}) {
    TinyModel m;
    m.tensor(tensor).values[3] = std::nanf("");
    m.write(path.path);
    expect_error({"run", "-m", path.path, "-p", "x"}, 2, {path.path, std::string(tensor) + "[3]", "finite"});
  }
}

// Scales of quantised weights that are NaN: the first block of every kind of matrix in turn, all bits set. One row of a
// matrix is enough, wherever its output goes: through the cache and a softmax, a gate, or 8-bit activations.
TEST(Robust, QuantisedWeightsThatAreNoNumbers) {
  const TemporaryPath path("nan-quant.gguf");
  const simd::Isa before = simd::active();
  model::SynthShape shape = model::find_synth_shape("tiny");
  shape.layers = 1;
  Team team(1);
  for (const auto& quant : weights::quants()) {
    model::write_synthetic_model(path.path, shape, quant.name, 3, team, [](std::uint64_t, std::uint64_t) {});
    const std::string bytes = read_text_file(path.path);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      std::size_t at = 0;
      {
        const auto file = weights::open_model_file(path.path);
        const auto* tensor = file->find(fmt::format("blk.0.{}.weight", name));
        ASSERT_NE(tensor, nullptr);
        at = bytes.find(std::string_view(reinterpret_cast<const char*>(tensor->bytes.data()), 64));
      }
      const auto block = static_cast<std::size_t>(quant.value->block_bytes);
      for (std::size_t i = at; i < at + block; ++i) patch(path.path, i, '\xff');
      for (int isa = 0; isa <= simd::kIsaCount; ++isa) {
        const bool exact = isa == simd::kIsaCount;  // on the instruction set in use
        if (!exact && !simd::supported(static_cast<simd::Isa>(isa))) continue;
        simd::force(exact ? before : static_cast<simd::Isa>(isa));
        SCOPED_TRACE(fmt::format("{} {} {} {}", quant.name, name, isa, exact ? "exact" : ""));
        std::vector<std::string> arguments{"run", "-m", path.path,      "-p",    "abcdefg",
                                           "-n",  "2",  "--no-figures", "--ctx", "64"};
        if (exact) arguments.push_back("--exact");
        const Outcome o = cli(arguments);
        EXPECT_EQ(o.status, 1) << o.out;
        EXPECT_NE(o.err.find("not a number"), std::string::npos) << o.err;
      }
      for (std::size_t i = at; i < at + block; ++i) patch(path.path, i, bytes[i]);
    }
    const Outcome whole = cli({"run", "-m", path.path, "-p", "abcdefg", "-n", "2", "--no-figures", "--ctx", "64"});
    EXPECT_EQ(whole.status, 0) << whole.err;  // the file is as it was
  }
  simd::force(before);
}

// --- prompts ---------------------------------------------------------------------------------------------------------

nlohmann::json run_json(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Outcome o = cli(arguments);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(nlohmann::json::accept(o.out)) << o.out.substr(0, 200);
  return nlohmann::json::parse(o.out, nullptr, false);
}

std::string text_of(std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += static_cast<char>('b' + i % 20);  // no merges: a token each
  return text;
}

TEST(Robust, PromptsAtTheEdgeOfTheContext) {
  const TemporaryPath path("edge.gguf");
  const std::string m = tiny_file(path);
  const auto run = [&](std::size_t n) {
    return std::vector<std::string>{"run", "-m", m, "-p", text_of(n), "--ctx", "64", "-n", "1000", "--ignore-eos"};
  };
  for (const auto& [n, made] : {std::pair{63u, 2u}, {62u, 3u}, {1u, 64u}}) {
    const auto row = run_json(run(n));
    EXPECT_EQ(row["finish"], "context") << n;
    EXPECT_EQ(row["prompt_tokens"], n);
    EXPECT_EQ(row["generated_tokens"], made);
  }
  expect_error(run(64), 2, {"prompt", "64 tokens", "--ctx"});
  expect_error(run(65), 2, {"prompt", "65 tokens", "--ctx"});
  expect_error({"run", "-m", m, "-p", "b", "--ctx", "1"}, 2, {"prompt", "1 tokens", "--ctx"});
  EXPECT_EQ(run_json({"run", "-m", m, "-p", "b", "-n", "0"})["finish"], "length");
}

TEST(Robust, EmptyPrompts) {
  const TemporaryPath path("empty.gguf");
  const TemporaryPath text("empty.txt");
  const std::string m = tiny_file(path);
  expect_error({"run", "-m", m}, 2, {"-p", "-f"});
  expect_error({"run", "-m", m, "-p", ""}, 2, {"prompt"});
  expect_error({"run", "-m", m, "-p", "x", "-f", "y"}, 2, {"prompt"});
  expect_error({"run", "-m", m, "-f", text.path}, 1, {text.path});
  expect_error({"run", "-m", m, "-f", "/tmp"}, 1, {"/tmp"});
  write_bytes(text.path, "");
  expect_error({"run", "-m", m, "-f", text.path}, 2, {"prompt", "empty"});
}

TEST(Robust, WordOf100KB) {
  const TemporaryPath path("word.gguf");
  const TemporaryPath text("word.txt");
  tiny_file(path);
  write_bytes(text.path, std::string(100000, 'a'));
  within(10, "run", [&] {
    const auto row = run_json({"run", "-m", path.path, "-f", text.path, "--ctx", "4096", "-n", "2", "--ignore-eos"});
    EXPECT_EQ(row["prompt_tokens"], 100000 / 64 + 1);  // merged to the longest token, and 32 "a" over
    EXPECT_EQ(row["generated_tokens"], 2);
  });
  within(10, "books", [&] { expect_error({"run", "-m", kBooks, "-f", text.path}, 2, {"prompt", "tokens", "--ctx"}); });
  std::string noise;
  for (std::uint32_t i = 0; i < 100000; ++i) noise += static_cast<char>('a' + (i * 2654435761u >> 13) % 26);
  write_bytes(text.path, noise);
  within(10, "noise", [&] { expect_error({"run", "-m", kBooks, "-f", text.path}, 2, {"prompt", "tokens", "--ctx"}); });
}

TEST(Robust, PromptsThatAreNotUtf8) {
  const TemporaryPath path("utf8.gguf");
  const TemporaryPath text("utf8.txt");
  tiny_file(path);
  for (const std::string_view prompt :
       {"\xff\xfe abc", "abc \xc3", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "a\xc0\x80z", "\x80"}) {
    write_bytes(text.path, prompt);
    for (const std::string& model : {path.path, kBooks}) {
      const Outcome o =
          cli({"run", "-m", model, "-f", text.path, "-n", "40", "--no-figures", "--seed", "1", "--ctx", "256"});
      EXPECT_EQ(o.status, 0) << o.err;
      EXPECT_EQ(text::to_valid_utf8(o.out), o.out);
      EXPECT_TRUE(o.out.starts_with(text::to_valid_utf8(prompt)));
      run_json({"run", "-m", model, "-f", text.path, "-n", "40", "--ctx", "256"});
    }
  }
}

// --- options ---------------------------------------------------------------------------------------------------------

TEST(Robust, OptionsOutOfRange) {
  const TemporaryPath path("options.gguf");
  const std::string m = tiny_file(path);
  const auto refuse = [&](std::vector<std::string> options, const std::vector<std::string>& parts, int status = 2) {
    std::vector<std::string> all{"run", "-m", m, "-p", "b"};
    all.insert(all.end(), options.begin(), options.end());
    expect_error(all, status, parts);
  };
  refuse({"--kv", "f8"}, {"k_codec", "f8", "f16"});
  refuse({"--v-codec", "zip"}, {"v_codec", "zip", "f16"});
  refuse({"--kv", "f16", "--k-codec", "f32"}, {"--kv", "--k-codec"});
  refuse({"--kv", "f16", "--v-codec", "f32"}, {"--kv", "--v-codec"});
  refuse({"--window", "-1"}, {"--window", "-1"});
  refuse({"--sinks", "129"}, {"--sinks", "129"});
  refuse({"--threads", "-1"}, {"--threads", "-1"});
  refuse({"--threads", "100000"}, {"--threads", "100000", "512"});
  refuse({"--threads", "two"}, {"--threads", "two"});
  refuse({"--threads", "99999999999999999999"}, {"--threads"});
  refuse({"--chunk", "0"}, {"--chunk"});
  refuse({"--ctx", "-1"}, {"--ctx"});
  refuse({"--ctx", "99999999"}, {"--ctx"});
  refuse({"-n", "-2"}, {"-n"});
  refuse({"-n", "1e3"}, {"-n"});
  refuse({"--temperature", "nan"}, {"--temperature"});
  refuse({"--logit-bias", "264=1"}, {"logit_bias", "264"});
  refuse({"--logit-bias", "x"}, {"x"});
  refuse({"--frobnicate"}, {"--frobnicate"});
  for (const std::vector<std::string>& fine : {std::vector<std::string>{"--threads", "0"},
                                               {"--threads", "5"},
                                               {"--chunk", "1"},
                                               {"--chunk", "8192"},
                                               {"--window", "0"},
                                               {"--window", "16777216"},
                                               {"--sinks", "128"},
                                               {"--sinks", "0"},
                                               {"--kv", "bf16"},
                                               {"--k-codec", "f32"},
                                               {"--v-codec", "bf16", "--k-codec", "f16"},
                                               {"--ctx", "3", "--seed", "1"}}) {
    std::vector<std::string> all{"run", "-m", m, "-p", "b", "-n", "3", "--no-figures"};
    all.insert(all.end(), fine.begin(), fine.end());
    const Outcome o = cli(all);
    EXPECT_EQ(o.status, 0) << fine[0] << " " << fine[1] << ": " << o.err;
    EXPECT_EQ(o.err, "");
  }
}

// A context that no machine holds is refused, not reserved and later killed for.
TEST(Robust, ContextBeyondTheMachine) {
  const TemporaryPath path("beyond.gguf");
  TinyModel m;
  m.numbers["llama.attention.key_length"] = 512u;  // 4 heads of 512 over 2 layers: 16 kB per token
  m.numbers["llama.attention.value_length"] = 512u;
  for (int l = 0; l < 2; ++l)
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      const std::string full = fmt::format("blk.{}.{}.weight", l, name);
      m.remove(full);
      const std::int64_t wide = std::string_view(name) == "attn_k" || std::string_view(name) == "attn_v" ? 1024 : 2048;
      if (std::string_view(name) == "attn_output")
        m.add(full, "f32", {wide, 32});
      else
        m.add(full, "f32", {32, wide});
    }
  m.write(path.path);
  EXPECT_EQ(try_step(small(path.path)), "");
  const std::uint64_t machine = describe_host().memory_total;
  if (machine == 0 || machine > (std::uint64_t{1} << 16) * (1 << 20)) GTEST_SKIP() << "a machine of this size holds it";
  for (const char* window : {"128", "16777216"})
    expect_error({"run", "-m", path.path, "-p", "b", "--ctx", "16777216", "--window", window}, 1,
                 {path.path, "16777216 tokens", "--ctx"});
}

TEST(Robust, TokenIds) {
  const TemporaryPath path("ids.gguf");
  const TemporaryPath list("ids.json");
  const TemporaryPath out("ids.f32");
  const std::string m = tiny_file(path);
  const auto ids = [&](const std::string& text) {
    return std::vector<std::string>{"logits", "-m", m, "--tokens", text, "--out", out.path};
  };
  expect_error(ids("264"), 2, {"tokens", "264", "0..263"});
  expect_error(ids("-1"), 2, {"--tokens", "-1"});
  expect_error(ids("1,-1"), 2, {"--tokens", "-1"});
  expect_error(ids("99999999999"), 2, {"--tokens", "99999999999"});
  expect_error(ids("1.5"), 2, {"--tokens", ".5"});
  expect_error(ids("x"), 2, {"--tokens", "x"});
  expect_error(ids(","), 2, {"tokens", "empty"});
  expect_error({"logits", "-m", m}, 2, {"--tokens"});
  expect_error({"logits", "-m", m, "--tokens", "1,2,3", "--ctx", "2"}, 2, {"tokens", "3 ids", "2"});
  const auto file = [&](const std::string& json) {
    write_bytes(list.path, json);
    return std::vector<std::string>{"logits", "-m", m, "--tokens-file", list.path, "--out", out.path};
  };
  for (const char* bad : {"", "{", "[1,2", "[1,]", "nul", "\xff", "[1] 2"})
    expect_error(file(bad), 2, {list.path, "not valid JSON"});
  for (const char* bad : {"3", "\"1\"", "null", "{}", "{\"tokens\": 3}", "{\"tokens\": {\"a\": 1}}"})
    expect_error(file(bad), 2, {list.path, "list of token ids"});
  for (const char* bad :
       {"[1.5]", "[\"a\"]", "[[1]]", "[null]", "[-1]", "[3000000000]", "[18446744073709551615]", "[1e400]"})
    expect_error(file(bad), 2, {list.path});
  expect_error(file("[]"), 2, {"tokens", "empty"});
  expect_error(file("[264]"), 2, {"tokens", "264"});
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  expect_error(file(deep), 2, {list.path, "array"});
  expect_error(file("{\"tokens\": " + deep + "}"), 2, {list.path, "array"});
  expect_error({"logits", "-m", m, "--tokens-file", list.path + ".absent"}, 1, {list.path + ".absent"});
  EXPECT_FALSE(fs::exists(out.path));
  EXPECT_EQ(cli(file("{\"tokens\": [0, 263]}")).status, 0);
  EXPECT_EQ(fs::file_size(out.path), 2u * 264 * 4);
  EXPECT_EQ(cli({"logits", "-m", m, "--tokens", "1", "--ctx", "1", "--chunk", "1"}).status, 0);
}

TEST(Robust, OutputsThatCannotBeWritten) {
  const TemporaryPath path("out.gguf");
  const TemporaryPath folder("folder");
  const std::string m = tiny_file(path);
  fs::create_directory(folder.path);
  const auto refuse = [&](const std::string& out, int status) {
    expect_error({"logits", "-m", m, "--tokens", "1", "--out", out}, status, {out});
    expect_error({"synth", "--shape", "tiny", "--quant", "q4_0", out}, status, {out});
  };
  refuse(folder.path + "/absent/x.f32", 1);
  refuse(folder.path, 2);
  struct stat null {};
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  ASSERT_TRUE(S_ISCHR(null.st_mode));
  refuse("/dev/null", 2);  // root could have replaced it by a file
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  EXPECT_TRUE(S_ISCHR(null.st_mode));
  // A disk that is full: nothing half-written stays.
  const std::string out = folder.path + "/x.f32";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"logits", "-m", m, "--tokens", "1,2,3,4,5,6,7,8", "--out", out},
        {"synth", "--shape", "tiny", "--quant", "q4_0", out}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      rlimit limit = before;
      limit.rlim_cur = 4096;
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::close(2);
      ::_exit(cli::run_command_line(arguments));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    EXPECT_TRUE(fs::is_empty(folder.path));
  }
  std::signal(SIGXFSZ, handler);
}

// A message that cannot be written changes nothing else.
TEST(Robust, ErrorsWithoutAPlaceForThem) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), 2);
    ::_exit(cli::run_command_line({"run", "-m", "/tmp", "-p", "x"}));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
}

// Threads that the system refuses are an error, not the end of the program.
TEST(Robust, ThreadsThatCannotBeStarted) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space";
  const TemporaryPath path("threads.gguf");
  const std::string m = tiny_file(path);
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{600u << 20, 600u << 20};  // of address space: enough for the program, not for 511 stacks of 8 MB
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      Team team(512);
      ::_exit(100);
    } catch (const Error& e) {
      ::_exit(std::string(e.what()).find("threads: cannot start thread") == 0 ? 42 : 101);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

// --- Ctrl-C ----------------------------------------------------------------------------------------------------------

struct Child {
  pid_t pid = -1;
  int out = -1;
  std::string text;

  explicit Child(const std::vector<std::string>& arguments) {
    int fds[2];
    KVASIR_CHECK(::pipe(fds) == 0);
    std::fflush(stdout);
    pid = ::fork();
    if (pid == 0) {
      ::dup2(fds[1], 1);
      ::close(fds[0]);
      ::close(fds[1]);
      const int status = cli::run_command_line(arguments);
      std::fflush(stdout);
      ::_exit(status);
    }
    ::close(fds[1]);
    out = fds[0];
  }
  ~Child() { ::close(out); }

  // Reads until there are `bytes` or the child closes its end; false after `seconds` without either.
  bool read(std::size_t bytes, double seconds) {
    while (text.size() < bytes) {
      pollfd p{out, POLLIN, 0};
      if (::poll(&p, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
      char buffer[4096];
      const ssize_t n = ::read(out, buffer, sizeof buffer);
      if (n <= 0) return n == 0;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return true;
  }
};

TEST(Robust, InterruptEndsARunWithTheTextSoFar) {
  Child child({"run", "-m", kBooks, "-p", "Once upon a time", "-n", "1000000", "--ctx", "300000", "--ignore-eos",
               "--no-figures"});
  ASSERT_TRUE(child.read(200, 60)) << "no text";
  ASSERT_EQ(::kill(child.pid, SIGINT), 0);
  const bool ended = child.read(std::size_t{1} << 40, kSanitized ? 60 : 2);  // to the end of its output
  if (!ended) ::kill(child.pid, SIGKILL);
  EXPECT_TRUE(ended) << "still running 2 s after SIGINT";
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid, &status, 0), child.pid);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(child.text.starts_with("Once upon a time"));
  EXPECT_TRUE(child.text.ends_with("\n"));
  EXPECT_EQ(text::to_valid_utf8(child.text), child.text);
}

// The second one does not wait: here for a chunk of a prompt that takes seconds.
TEST(Robust, SecondInterruptKills) {
  const TemporaryPath text("long.txt");
  std::string words;
  while (words.size() < 400000) words += "It was a dark and stormy night. ";
  write_bytes(text.path, words);
  Child child({"run", "-m", kBooks, "-f", text.path, "--ctx", "200000", "--chunk", "8192", "--threads", "1", "--exact",
               "--no-figures"});
  timespec pause{0, 300000000};
  ::nanosleep(&pause, nullptr);  // into the prompt
  ASSERT_EQ(::kill(child.pid, SIGINT), 0);
  pause.tv_nsec = 20000000;
  int status = 0;
  pid_t gone = 0;
  for (int i = 0; i < 500 && gone == 0; ++i) {  // as somebody who keeps pressing it
    ::kill(child.pid, SIGINT);
    ::nanosleep(&pause, nullptr);
    gone = ::waitpid(child.pid, &status, WNOHANG);
  }
  if (gone == 0) ::kill(child.pid, SIGKILL), ::waitpid(child.pid, &status, 0);
  EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) || (WIFEXITED(status) && WEXITSTATUS(status) == 1))
      << status;
}

}  // namespace
}  // namespace kvasir
