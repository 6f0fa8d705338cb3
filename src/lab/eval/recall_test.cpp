#include "lab/eval/recall.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "lab/eval/statistics.hpp"
#include "run/engine.hpp"

namespace kvasir::lab::eval {
namespace {

class Recall : public ::testing::Test {
 protected:
  Subject subject_{fixture::options("f32,bf16", 512), {.sequences = 2, .extra_tokens = 512}};
  const text::Tokenizer& tokenizer_ = subject_.tokenizer();
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("kvasir-" + std::to_string(::getpid()) + "-probes.jsonl")).string();

  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string text_of(const Probe& p) const { return tokenizer_.decode(p.prompt); }
  std::string text_of(const Probe& p, std::size_t c) const { return tokenizer_.decode(p.candidates[c]); }
  std::string error_of_file() {
    try {
      file_probes(tokenizer_, path_, 0, 0, {.ctx = 512});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(Recall, PassKeysFillTheLengthAndStandAtTheirDepth) {
  const auto probes =
      passkey_probes(tokenizer_, {200, 512}, {0, 50, 100}, 2, {.ctx = 512, .seed = 3, .distractors = 4});
  ASSERT_EQ(probes.size(), 12u);
  for (const Probe& p : probes) {
    const auto length = std::stoll(p.group);
    EXPECT_LE(p.tokens(), length);
    EXPECT_GT(p.tokens(), length - 40);  // one more filler would not fit
    ASSERT_EQ(p.candidates.size(), 5u);
    const std::string text = text_of(p);
    // The prompt ends where candidates begin, and the right one is the key in it; the others are not in it.
    EXPECT_TRUE(text.ends_with("The pass key is")) << text;
    EXPECT_EQ(text_of(p, 0), " " + p.answer);
    EXPECT_NE(text.find("The pass key is " + p.answer), std::string::npos);
    for (std::size_t c = 1; c < 5; ++c) EXPECT_EQ(text.find(text_of(p, c)), std::string::npos);
    const auto at = static_cast<double>(text.find("The pass key is " + p.answer));
    const auto first = static_cast<double>(text.find("The grass is green")),
               last = static_cast<double>(text.rfind("There and back again"));
    if (p.depth == 0) {
      EXPECT_LT(at, first);
    }
    if (p.depth == 100) {
      EXPECT_GT(at, last);
    }
    if (p.depth == 50) {
      EXPECT_NEAR(at, (first + last) / 2, 0.3 * (last - first));
    }
  }
  // Other trials have other keys; the same seed has the same.
  EXPECT_NE(probes[0].answer, probes[1].answer);
  EXPECT_EQ(passkey_probes(tokenizer_, {200}, {0}, 1, {.ctx = 512, .seed = 3, .distractors = 4})[0].answer,
            probes[0].answer);
  EXPECT_THROW(passkey_probes(tokenizer_, {513}, {0}, 1, {.ctx = 512}), Error);
  EXPECT_THROW(passkey_probes(tokenizer_, {20}, {0}, 1, {.ctx = 512}), Error);
}

TEST_F(Recall, LineRetrieval) {
  write(
      R"({"prompt":"Remember.\nline a-b: REGISTER_CONTENT is <111>\nline c-d: REGISTER_CONTENT is <222>\nline e-f: REGISTER_CONTENT is <333>\n\nWhat is in line c-d? ","correct_line":"line c-d: REGISTER_CONTENT is <222>\n","expected_number":222})"
      "\n");
  const FileProbes f = file_probes(tokenizer_, path_, 0, 0, {.ctx = 512});
  ASSERT_EQ(f.probes.size(), 1u);
  const Probe& p = f.probes[0];
  EXPECT_EQ(p.answer, "222");
  EXPECT_EQ(p.candidates.size(), 3u);
  EXPECT_TRUE(text_of(p).starts_with("Remember.\nline a-b"));
  EXPECT_EQ(text_of(p) + text_of(p, 0),
            text_of(p).substr(0, text_of(p).rfind("line c-d")) + "line c-d: REGISTER_CONTENT is <222>");
}

TEST_F(Recall, KeyValueRetrievalAndFewerRecords) {
  std::string records;
  for (int i = 0; i < 10; ++i) {
    if (i > 0) records += ",";
    records += "[\"key" + std::to_string(i) + "\",\"val" + std::to_string(i) + "\"]";
  }
  write("{\"ordered_kv_records\":[" + records + "],\"key\":\"key7\",\"value\":\"val7\"}\n\n");
  const FileProbes all = file_probes(tokenizer_, path_, 0, 0, {.ctx = 512, .distractors = 3});
  ASSERT_EQ(all.probes.size(), 1u);
  EXPECT_EQ(all.probes[0].candidates.size(), 4u);
  EXPECT_NE(text_of(all.probes[0]).find("\"key9\": \"val9\""), std::string::npos);
  EXPECT_NE((text_of(all.probes[0]) + text_of(all.probes[0], 0)).find("Key: \"key7\"\nCorresponding value: \"val7\""),
            std::string::npos);
  const FileProbes few = file_probes(tokenizer_, path_, 4, 0, {.ctx = 512, .distractors = 9});
  EXPECT_EQ(few.probes[0].candidates.size(), 4u);
  const std::string text = text_of(few.probes[0]);
  EXPECT_NE(text.find("\"key7\": \"val7\""), std::string::npos);
  EXPECT_LT(few.probes[0].tokens(), all.probes[0].tokens());
}

TEST_F(Recall, BadFilesAreNamed) {
  write("\x1f\x8b\x08 and so on");
  EXPECT_NE(error_of_file().find("compressed with gzip"), std::string::npos);
  write("");
  EXPECT_NE(error_of_file().find("no samples"), std::string::npos);
  write("{\"a\":1}\n");
  EXPECT_NE(error_of_file().find("line 1: expected \"ordered_kv_records\""), std::string::npos);
  write("\n[1]\n");
  EXPECT_NE(error_of_file().find("line 2: expected an object"), std::string::npos);
  write("{\"ordered_kv_records\":[[\"a\",\"b\"],[1,2]],\"key\":\"a\",\"value\":\"b\"}");
  EXPECT_NE(error_of_file().find("expected pairs of texts"), std::string::npos);
  write("{\"ordered_kv_records\":[[\"a\",\"b\"],[\"c\",\"d\"]],\"key\":\"a\",\"value\":\"d\"}");
  EXPECT_NE(error_of_file().find("does not hold \"key\""), std::string::npos);
  write("{\"prompt\":\"x\",\"correct_line\":\"line a: REGISTER_CONTENT is <1>\"}");
  EXPECT_NE(error_of_file().find("does not hold \"correct_line\""), std::string::npos);
  std::string big(4000, 'x');
  write("{\"ordered_kv_records\":[[\"a\",\"" + big + "\"],[\"c\",\"d\"]],\"key\":\"a\",\"value\":\"" + big + "\"}");
  EXPECT_NE(error_of_file().find("none of its 1 samples fits into --ctx 512"), std::string::npos);
}

TEST_F(Recall, ScoresAreLogProbabilitiesAndF32AgreesWithItself) {
  const auto probes = passkey_probes(tokenizer_, {300}, {50}, 2, {.ctx = 512, .seed = 5, .distractors = 3});
  subject_.load({});
  const RecallReport report = measure_recall(subject_, probes, [](std::int64_t, std::int64_t) {});
  ASSERT_EQ(report.rows.size(), 3u);  // baseline, f32, bf16
  EXPECT_DOUBLE_EQ(report.chance, 0.25);
  EXPECT_EQ(report.baseline.trials, 2);
  const RecallRow &base = report.rows[0], &same = report.rows[1], &other = report.rows[2];
  EXPECT_EQ(base.logprob, same.logprob);
  EXPECT_EQ(same.same_greedy, 2);
  EXPECT_EQ(same.same_choice, 2);
  EXPECT_EQ(same.logprob_shift, 0);
  EXPECT_GT(other.logprob_shift, 0);
  EXPECT_LT(other.logprob_shift, 0.5);
  for (Lane& lane : subject_.all()) lane.cache->check_integrity();

  // Teacher-forced in one piece.
  run::EngineOptions options;
  options.model = subject_.options().model;
  options.ctx = 512;
  options.kv = "f32";
  options.exact = true;  // float32 products, as those of `subject_`
  run::Engine engine(options, {.logits = 64});
  double sum = 0;
  for (const Probe& p : probes) {
    std::vector<std::int32_t> ids = p.prompt;
    ids.insert(ids.end(), p.candidates[0].begin(), p.candidates[0].end());
    kv::Sequence* s = engine.cache().create();
    const auto n = p.candidates[0].size();
    const auto rows = engine.feed(s, ids, static_cast<int>(n + 1));
    const auto vocab = static_cast<std::size_t>(engine.model().spec().vocab);
    for (std::size_t i = 0; i < n; ++i) {
      const auto row = rows.subspan(i * vocab, vocab);
      sum += static_cast<double>(row[static_cast<std::size_t>(p.candidates[0][i])]) - log_sum_exp(row);
    }
    engine.cache().release(s);
  }
  EXPECT_NEAR(base.logprob, sum, 1e-4);
}

}  // namespace
}  // namespace kvasir::lab::eval
