// What the tests of robustness share: whatever comes in, files, options or signals, the answer is a clear error or a
// correct run, soon, and within memory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/patience_fixture.hpp"
#include "cli/run_fixture.hpp"
#include "run/engine.hpp"
#include "tiny_model_fixture.hpp"

namespace kvasir::testing {

inline const std::string kBooks = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

using cli::Result;
using cli::run_captured;

// The status, one line of error that holds every one of `parts`, and nothing on stdout.
inline void expect_error(const std::vector<std::string>& arguments, int status, const std::vector<std::string>& parts) {
  std::string shown;
  for (const auto& a : arguments) shown += " " + (a.size() < 100 ? a : a.substr(0, 100) + "…");
  SCOPED_TRACE("kvasir" + shown);
  const Result o = run_captured(arguments);
  EXPECT_EQ(o.status, status) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_TRUE(o.err.starts_with("kvasir: ")) << o.err;
  EXPECT_EQ(o.err.find("internal error"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("check failed"), std::string::npos) << o.err;
  EXPECT_LT(o.err.size(), 4000u);
  for (const auto& p : parts) EXPECT_NE(o.err.find(p), std::string::npos) << "no '" << p << "' in " << o.err;
}

inline double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline run::EngineOptions small(const std::string& model) {
  run::EngineOptions o;
  o.model = model;
  o.threads = 1;
  o.ctx = 64;
  o.chunk = 16;
  return o;
}

// Opens the model and runs a step: "" when it works, otherwise the error, which must be an Error of the file's.
inline std::string try_step(const run::EngineOptions& options, bool* ran = nullptr) {
  try {
    run::Engine engine(options, {});
    kv::Sequence* s = engine.cache().create();
    const std::int64_t vocab = engine.model().spec().vocab;
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

inline std::string tiny_file(const TemporaryPath& path, const TinyModel& model = TinyModel()) {
  model.write(path.path);
  return path.path;
}

inline void patch(const std::string& path, std::size_t at, char byte) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  ::close(fd);
}

inline nlohmann::json run_json(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Result o = run_captured(arguments);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(nlohmann::json::accept(o.out)) << o.out.substr(0, 200);
  return nlohmann::json::parse(o.out, nullptr, false);
}

}  // namespace kvasir::testing
