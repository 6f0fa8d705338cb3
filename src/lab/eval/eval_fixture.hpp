// For tests: the bundled model and a text that never changes.
#pragma once

#include <string>

#include "base/file.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval::fixture {

inline std::string source(const std::string& path) { return std::string(KVASIR_SOURCE_DIR) + "/" + path; }
inline std::string text_path() { return source("LICENSE"); }

inline SubjectOptions options(const std::string& kv, int ctx) {
  SubjectOptions o;
  o.model = source("models/kvasir-books-4m.gguf");
  o.kv = kv;
  o.ctx = ctx;
  o.threads = 2;
  return o;
}

}  // namespace kvasir::lab::eval::fixture
